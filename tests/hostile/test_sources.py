"""What the package does not do, asked of its syntax trees: run what it has read, or write HTML that nobody escapes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "django_durable"
MODULES = sorted(PACKAGE.rglob("*.py"))
TEMPLATES = sorted(PACKAGE.rglob("*.html"))

UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "jsonpickle", "joblib",
              "copyreg", "code", "codeop", "runpy", "xmlrpc"}  # fmt: skip
CALLS = {"eval", "exec", "compile", "__import__", "mark_safe", "SafeString", "SafeText", "csrf_exempt", "system",
         "popen", "extra", "raw", "mktemp"}  # fmt: skip
"""By whatever they are called on."""
METHODS_OF_OTHERS = {"re.compile"}

LOOKED_UP = {"import_string", "import_module", "get_model", "RawSQL"}
KNOWN = {
    "checks/redis.py": {"import_string(found)", "import_string(wanted)"},
    "checks/settings.py": {"import_string(path)"},
    "client/model_ref.py": {"apps.get_model(self.label)"},
    "client/redacting.py": {"import_string(path)"},
    "client/tagging.py": {"apps.get_model(row.label)"},
    "testing/__init__.py": {"import_module(f'{__name__}.{module}')"},
    "watching.py": {"import_string(path)"},
    "workflows/signature.py": {"import_module('pydantic')"},
}
"""Each looks up what a setting names, or the code itself. ``get_model`` finds installed models only, by a label."""


def forbidden(tree: ast.AST) -> Iterator[str]:
    """What makes code, or markup, of data."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name.partition(".")[0] in UNPICKLERS)
            case ast.ImportFrom(module=str(module), level=0) if module.partition(".")[0] in UNPICKLERS:
                yield module
            case ast.Call(func=func) if last_name(func) in CALLS and ast.unparse(func) not in METHODS_OF_OTHERS:
                yield ast.unparse(node)
            case ast.Call(keywords=keywords) if any(is_true(one, "shell") for one in keywords):
                yield ast.unparse(node)


def last_name(func: ast.expr) -> str:
    return getattr(func, "attr", "") or getattr(func, "id", "")


def is_true(keyword: ast.keyword, name: str) -> bool:
    return keyword.arg == name and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)


def lookups(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and last_name(node.func) in LOOKED_UP:
            yield ast.unparse(node)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def test_nothing_makes_code_or_markup_of_data() -> None:
    found = {str(path.relative_to(PACKAGE)): list(forbidden(parsed(path))) for path in MODULES}
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_what_is_imported_by_its_name_is_named_by_settings_and_code() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): set(lookups(parsed(path))) for path in MODULES}
    assert {name: calls for name, calls in found.items() if calls} == KNOWN


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import yaml.loader",
        "def late():\n    import marshal",
        "eval(text)",
        "builtins.exec(text)",
        "compile(text, 'x', 'exec')",
        "__import__(name)",
        "mark_safe(text)",
        "safestring.SafeString(text)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "Run.objects.extra(where=[text])",
        "Run.objects.raw(text)",
    ],
)
def test_what_does_would_be_seen(source: str) -> None:
    assert list(forbidden(ast.parse(source)))


def test_what_only_looks_like_it_is_not() -> None:
    assert not list(forbidden(ast.parse("import re\nre.compile('x')\nsubprocess.Popen(a, shell=False)\nimport json")))


UNESCAPED = re.compile(r"\|\s*safe\b|\|\s*safeseq\b|autoescape\s+off|<script(?![^>]*\bsrc=)|\bon[a-z]+=|\bstyle=")


def test_no_template_leaves_anything_unescaped() -> None:
    assert len(TEMPLATES) > 40
    assert [str(path.relative_to(PACKAGE)) for path in TEMPLATES if UNESCAPED.search(path.read_text())] == []


@pytest.mark.parametrize("text", ["{{ a|safe }}", "{% autoescape off %}", "<script>a()</script>", "<p onclick=a()>"])
def test_what_is_unescaped_would_be_seen(text: str) -> None:
    assert UNESCAPED.search(text)
