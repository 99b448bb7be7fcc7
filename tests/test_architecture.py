"""Rules of the code that no type checker and no linter knows; each is asked of the syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "django_durable"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)
IDS = [str(path.relative_to(PACKAGE)) for path in MODULES]
WRITERS = {"create", "acreate", "update", "aupdate", "get_or_create", "update_or_create", "bulk_create", "Run"}
MODELS = {"Run"}
"""Whose ``status`` is that of a run; a journal entry and its outcome have one as well."""
EXPRESSIONS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
SET_STATUS = re.compile(r"\bSET\b(?:(?!\b(?:FROM|WHERE)\b).)*?(?<![\w.])\"?status\"?\s*=", re.IGNORECASE | re.DOTALL)
INSERT_RUN = re.compile(r"INSERT\s+INTO\s+\"?django_durable_run\b", re.IGNORECASE)
NO_NOUNS = {"utils", "util", "helpers", "helper", "services", "service", "manager", "managers", "misc", "common"}
OUTSIDE = {"django", "django_redis", "redis", "asgiref", "psycopg", "sqlite3"}


def status_writes(tree: ast.AST) -> Iterator[int]:
    """Lines that write a run's status: through the ORM, by assignment, or in SQL."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=func, keywords=keywords) if any(key.arg == "status" for key in keywords):
                if name_of(func) in WRITERS and speaks_of_runs(func):
                    yield node.lineno
            case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value="status"), *_]):
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr="bulk_update"), args=args) if has_constant(args, "status"):
                yield node.lineno
            case ast.Assign(targets=targets) if any(is_status(target) for target in targets):
                yield node.lineno
            case ast.AnnAssign(target=target) | ast.AugAssign(target=target) if is_status(target):
                yield node.lineno
            case ast.Constant(value=str()) | ast.JoinedStr():
                text = node.value if isinstance(node, ast.Constant) else ast.unparse(node)
                if SET_STATUS.search(text) or INSERT_RUN.search(text):
                    yield node.lineno


def name_of(func: ast.expr) -> str:
    return getattr(func, "attr", "") or getattr(func, "id", "")


def is_name(func: ast.expr) -> bool:
    return isinstance(func, ast.Name)


def speaks_of_runs(func: ast.expr) -> bool:
    """``Run(…)``, ``Run.objects….update(…)``, or a method of something whose model cannot be seen."""
    names = {getattr(node, "id", None) or getattr(node, "attr", None) for node in ast.walk(func)}
    others = {"JournalEntry", "Payload", "Event", "Worker", "Schedule", "Fire", "Audit"}
    return bool(names & MODELS) or (isinstance(func, ast.Attribute) and not names & others)


def has_constant(nodes: list[ast.expr], value: str) -> bool:
    return any(isinstance(one, ast.Constant) and one.value == value for node in nodes for one in ast.walk(node))


def is_status(target: ast.expr) -> bool:
    """An attribute of something else: what an object says of itself (``self.status``) is its own."""
    own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return isinstance(target, ast.Attribute) and target.attr == "status" and not own


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def is_in(path: Path, *folders: str) -> bool:
    return path.relative_to(PACKAGE).parts[0] in folders


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_only_the_store_writes_the_status_of_a_run(path: Path):
    if is_in(path, "store"):
        return
    lines = sorted(set(status_writes(parsed(path))))
    # A journal entry has a status too, and core writes those; core knows no run.
    assert not lines or is_in(path, "core"), f"{path.relative_to(PACKAGE)} writes a status in lines {lines}"


def test_the_store_is_seen_to_write_it():
    """Else the rule would have become blind."""
    writers = {path.stem for path in MODULES if is_in(path, "store") and list(status_writes(parsed(path)))}
    assert writers >= {"claims", "commits", "leases", "waits", "starts"}
    assert any(SET_STATUS.search(path.read_text()) for path in MODULES if path.name == "waits.py")


@pytest.mark.parametrize(
    "source",
    [
        "Run(id=1, status='queued')",
        "models.Run(status='queued')",
        "Run.objects.create(status='queued')",
        "Run.objects.filter(pk=1).update(status='queued')",
        "await Run.objects.filter(pk=1).aupdate(status='queued')",
        "queryset.update(wake_at=None, status='queued')",
        "Run.objects.bulk_create([Run(status='queued')])",
        "Run.objects.bulk_update(runs, ['wake_at', 'status'])",
        "run.status = 'queued'",
        "run.status: str = 'queued'",
        "setattr(run, 'status', 'queued')",
        "cursor.execute('UPDATE django_durable_run SET status = %s')",
        "sql = f\"UPDATE {table} SET wake_at = NULL, status = 'queued' WHERE id = 1\"",
        "sql = '''UPDATE x AS r\\n  SET wake_at = NULL,\\n  \"status\" = 1'''",
        "sql = 'INSERT INTO django_durable_run (id) VALUES (1)'",
    ],
)
def test_a_write_of_the_status_is_seen(source: str):
    assert list(status_writes(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "Run.objects.filter(status='queued').update(wake_at=None)",
        "Run.objects.exclude(status='queued')",
        "JournalEntry.objects.filter(run=1).update(status='failed')",
        "Q(status='queued')",
        "status = run.status",
        "self.status = 'queued'",
        "run.status == 'queued'",
        "sql = \"UPDATE x SET a = 1 WHERE status = 'queued'\"",
        "sql = \"UPDATE x SET block_status = 1 FROM y WHERE y.status = 'queued'\"",
    ],
)
def test_a_question_about_the_status_is_none(source: str):
    assert not list(status_writes(ast.parse(source)))


def test_no_module_is_named_after_nothing():
    named = {part for path in MODULES for part in (*path.relative_to(PACKAGE).parts[:-1], path.stem)}
    assert "store" in named
    assert not {part.strip("_") for part in named} & NO_NOUNS


def imports(tree: ast.AST) -> Iterator[str]:
    """The top-level packages that a module imports, however deep in it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]


CORE = [path for path in MODULES if is_in(path, "core")]


@pytest.mark.parametrize("path", CORE, ids=[path.name for path in CORE])
def test_the_core_is_plain_python(path: Path):
    assert not set(imports(parsed(path))) & OUTSIDE


def imported_layers(path: Path) -> set[str]:
    """The parts of the package that ``path`` names in relative imports which leave its own."""
    outside = len(path.relative_to(PACKAGE).parts)
    return {
        (node.module or "").partition(".")[0]
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.level == outside
    }


@pytest.mark.parametrize("path", CORE, ids=[path.name for path in CORE])
def test_the_core_imports_from_no_layer_above_it(path: Path):
    assert imported_layers(path) <= {"exceptions", "conf", "signals"}


def test_a_journal_is_asked_in_few_ways():
    """Whoever brings a journal of his own, as the testing kit does, has to answer all of them."""
    tree = parsed(PACKAGE / "core" / "journal" / "journal.py")
    [protocol] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Journal"]
    methods = [node for node in protocol.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert len([method for method in methods if not method.decorator_list]) < 8


REDIS_IMPORTERS = {
    path.relative_to(PACKAGE).as_posix() for path in MODULES if {"redis", "django_redis"} & set(imports(parsed(path)))
}


def test_one_file_speaks_redis():
    assert sorted(REDIS_IMPORTERS) == ["queues/redis.py"]


def test_nothing_is_unpickled_or_evaluated():
    """What the database or Redis holds is data, never code."""
    forbidden = {"pickle", "marshal", "shelve", "yaml", "dill", "cloudpickle"}
    for path in MODULES:
        tree = parsed(path)
        assert not set(imports(tree)) & forbidden, path
        calls = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not calls & {"eval", "exec"}, path


def test_time_is_asked_in_few_places():
    """``time.time`` and ``datetime.now`` decide nothing: correctness goes by the database's clock."""
    asking = re.compile(r"\b(?:time\.time|datetime\.utcnow|timezone\.now)\(")
    found = {path.relative_to(PACKAGE).as_posix() for path in MODULES if asking.search(path.read_text())}
    assert not {name for name in found if name.startswith(("core/", "store/", "executor/", "worker/", "queues/"))}
