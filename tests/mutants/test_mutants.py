"""The mutants still apply to today's engine, and what their tests do to them is judged as it should be."""

from __future__ import annotations

import ast
import difflib
import py_compile
from collections import Counter
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from tests.mutants import trying
from tests.mutants.__main__ import line, main, passes
from tests.mutants.copying import ROOT, Copy
from tests.mutants.every import MUTANTS
from tests.mutants.mutant import ENGINE, POSTGRES, SQLITE, DoesNotApply, Mutant
from tests.mutants.trying import KILLED, SURVIVED, UNFIT, Run, Verdict, error_of, run_tests

every = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
LEAST = 28


# --- the list --------------------------------------------------------------------------------


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    assert len(names) == len(MUTANTS) >= LEAST
    assert {mutant.backend for mutant in MUTANTS} == {SQLITE, POSTGRES}


@every
def test_it_applies_to_one_line_and_is_other_code(mutant: Mutant) -> None:
    source = (ROOT / ENGINE / mutant.file).read_text()
    mutated = mutant.applied(source)
    changes = [one[0] for one in difflib.ndiff(source.splitlines(), mutated.splitlines()) if one[0] in "+-"]
    assert Counter(changes)["-"] == 1
    assert Counter(changes)["+"] <= 1
    compile(mutated, mutant.file, "exec")
    assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(source)), "nothing but a comment has changed"


@every
def test_the_tests_that_have_to_notice_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file(), test
        assert not name or f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(), test
        if "/test_postgres_" in file:
            assert mutant.backend == POSTGRES, f"{file} is not collected on {mutant.backend}"


@every
def test_it_says_what_it_breaks(mutant: Mutant) -> None:
    assert mutant.breaks.endswith(".")
    assert mutant.breaks.count(". ") == 0, "one sentence"


# --- applying --------------------------------------------------------------------------------


def a_mutant(before: str = "a < b", after: str = "a > b", *, waits: bool = False, explained: str = "") -> Mutant:
    return Mutant("m", "part.py", before, after, "It.", ("tests/x.py",), dies_waiting=waits, explained=explained)


@pytest.mark.parametrize("source", ["b > a", "a < b and a < b"], ids=["gone", "twice"])
def test_what_does_not_stand_there_once_is_refused(source: str) -> None:
    with pytest.raises(DoesNotApply, match=r"part\.py"):
        a_mutant().applied(source)


def test_a_copy_bears_it_for_a_while_and_its_bytecode_not_longer(tmp_path: Path) -> None:
    file = tmp_path / ENGINE / "part.py"
    file.parent.mkdir()
    file.write_text("less = 1 < 2\n")
    bytecode = file.parent / "__pycache__"
    with Copy(tmp_path).bearing(a_mutant("1 < 2", "1 > 2")):
        assert file.read_text() == "less = 1 > 2\n"
        stale = compiled(file)
    assert file.read_text() == "less = 1 < 2\n"
    assert not stale.exists()
    assert not list(bytecode.iterdir())


def compiled(file: Path) -> Path:
    return Path(py_compile.compile(str(file), doraise=True) or "")


def test_a_test_that_raises_leaves_no_mutant_behind(tmp_path: Path) -> None:
    file = tmp_path / ENGINE / "part.py"
    file.parent.mkdir()
    file.write_text("a < b")
    with pytest.raises(KeyboardInterrupt), Copy(tmp_path).bearing(a_mutant()):
        raise KeyboardInterrupt
    assert file.read_text() == "a < b"


# --- judging ---------------------------------------------------------------------------------


def ended(tmp_path: Path, status: int | None, *cases: tuple[str, str]) -> Run:
    """A run whose report holds a test for each of ``cases``: how it went ("" is well), and with which error."""
    inner = {"": "", "failure": "<failure message={}/>", "error": "<error message={}/>"}
    tests = [
        f'<testcase classname="tests.store.test_x" name="test_{number}">'
        f"{inner[how].format(quoteattr(error))}</testcase>"
        for number, (how, error) in enumerate(cases)
    ]
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{''.join(tests)}</testsuite></testsuites>")
    return Run(status, report, "what it said", 1.5)


@pytest.mark.parametrize(
    "error",
    [
        "assert 1 == 2",
        "AssertionError: assert 1 == 2",
        "AssertionError: the run was lost",
        "Failed: DID NOT RAISE <class 'django_durable.exceptions.RunLocked'>",
        "ValueError: not enough values to unpack (expected 1, got 0)",
        "django.db.utils.IntegrityError: CHECK constraint failed",
        "django.db.utils.OperationalError: deadlock detected",
    ],
)
def test_a_test_that_fails_has_noticed(tmp_path: Path, error: str) -> None:
    verdict = ended(tmp_path, 1, ("", ""), ("failure", error)).judge(a_mutant())
    assert verdict == Verdict(KILLED, "store.test_x::test_1", "", 1.5)


@pytest.mark.parametrize(
    "error",
    [
        "SyntaxError: invalid syntax (leases.py, line 3)",
        "ImportError: cannot import name 'x'",
        "ModuleNotFoundError: No module named 'x'",
        "NameError: name 'x' is not defined",
        'django.db.utils.ProgrammingError: syntax error at or near "AND"',
        'django.db.utils.OperationalError: near "AND": syntax error',
        "django.db.utils.OperationalError: no such column: x.id",
    ],
)
def test_code_that_never_could_work_is_no_death(tmp_path: Path, error: str) -> None:
    verdict = ended(tmp_path, 1, ("failure", error)).judge(a_mutant())
    assert (verdict.kind, error in verdict.why) == (UNFIT, True)


@pytest.mark.parametrize("status", [1, 2, 3, 4, 5])
def test_neither_is_an_error_outside_of_a_test(tmp_path: Path, status: int) -> None:
    """In a fixture, when tests are collected, or in pytest itself; and nothing that was collected is nothing."""
    run = ended(tmp_path, status, ("error", "collection failure"))
    assert run.judge(a_mutant()).kind == UNFIT
    run.report.unlink()
    assert run.judge(a_mutant()).kind == UNFIT


@pytest.mark.parametrize("error", ["TimeoutError", "AssertionError: Waited 20 s for somebody to wait for session 7."])
@pytest.mark.parametrize("waits", [True, False])
def test_a_test_that_waits_in_vain_counts_where_that_was_said(tmp_path: Path, error: str, waits: bool) -> None:
    verdict = ended(tmp_path, 1, ("failure", error)).judge(a_mutant(waits=waits))
    assert verdict.kind == (KILLED if waits else UNFIT)


DUMP = """Timeout (0:01:00)!
Thread 0x00007f01 (most recent call first):
  File "/tmp/copy/django_durable/store/database.py", line 80 in rows
  File "/tmp/copy/tests/store/{file}.py", line 90 in {name}
  File "/usr/lib/python3/site-packages/_pytest/python.py", line 166 in pytest_pyfunc_call
"""


@pytest.mark.parametrize(
    ("log", "test"),
    [
        (DUMP.format(file="test_waiting", name="test_no_wake_is_lost"), "store.test_waiting::test_no_wake_is_lost"),
        (DUMP.format(file="conftest", name="connect"), ""),
        (".....", ""),
    ],
    ids=["in a test", "in a fixture", "it does not say where"],
)
@pytest.mark.parametrize("waits", [True, False])
def test_what_hangs_counts_where_that_was_said_and_it_was_in_a_test(
    tmp_path: Path, log: str, test: str, waits: bool
) -> None:
    """A fixture that waits has noticed nothing."""
    verdict = Run(1, tmp_path / "no report", log, 60.0).judge(a_mutant(waits=waits))
    assert (verdict.kind, verdict.test) == (KILLED if waits and test else UNFIT, test)


@pytest.mark.parametrize("waits", [True, False])
def test_what_took_too_long_and_hung_in_no_test_says_nothing(tmp_path: Path, waits: bool) -> None:
    """Servers that do not start, or a machine that is too slow."""
    assert ended(tmp_path, None).judge(a_mutant(waits=waits)).kind == UNFIT


def test_a_test_that_hangs_is_ended_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "HUNG_SECONDS", 0.1)
    file = tmp_path / "tests" / "part" / "test_slow.py"
    file.parent.mkdir(parents=True)
    file.write_text("import threading\n\n\ndef test_that_waits():\n    threading.Event().wait()\n")
    run = run_tests(Copy(tmp_path), SQLITE, ["-p", "no:django", str(file)], tmp_path / "run", 60)
    verdict = run.judge(a_mutant(waits=True))
    assert (verdict.kind, verdict.test) == (KILLED, "part.test_slow::test_that_waits"), run.tail


def test_tests_that_all_pass_have_noticed_nothing(tmp_path: Path) -> None:
    assert ended(tmp_path, 0, ("", "")).judge(a_mutant()).kind == SURVIVED


def test_the_class_of_an_error() -> None:
    assert error_of("django.db.utils.DataError: value too long\nmore: of it") == "DataError"
    assert error_of("assert {'a': 1} == {}") == "AssertionError"
    assert error_of("TimeoutError") == "TimeoutError"


# --- the sum ---------------------------------------------------------------------------------


def of_kinds(killed: int, survived: int, unfit: int = 0) -> list[Verdict]:
    kinds = [KILLED] * killed + [SURVIVED] * survived + [UNFIT] * unfit
    return [Verdict(kind) for kind in kinds]


@pytest.mark.parametrize(
    ("verdicts", "is_explained", "expected"),
    [
        (of_kinds(25, 0), False, True),
        (of_kinds(24, 1), True, True),
        (of_kinds(24, 1), False, False),
        (of_kinds(23, 2), True, False),
        (of_kinds(48, 2), True, True),
        (of_kinds(99, 0, 1), True, False),
        ([], True, False),
    ],
    ids=["all", "one, explained", "one, unexplained", "two of 25", "two of 50", "one says nothing", "not begun"],
)
def test_how_many_have_to_die(verdicts: list[Verdict], is_explained: bool, expected: bool) -> None:
    mutant = a_mutant(explained="nobody can tell" if is_explained else "")
    assert passes([mutant] * len(verdicts), verdicts) is expected


def test_a_line_says_why() -> None:
    assert "no test notices" in line(a_mutant(), Verdict(SURVIVED))
    assert "nobody can tell" in line(a_mutant(explained="nobody can tell"), Verdict(SURVIVED))
    assert "test_x it never could work" in line(a_mutant(), Verdict(UNFIT, "test_x", "it never could work"))


def test_the_list_is_shown_and_an_unknown_name_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", MUTANTS[0].name]) == 0
    assert MUTANTS[0].breaks in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["nobody"])
