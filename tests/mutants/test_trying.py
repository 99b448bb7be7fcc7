"""What pytest's report says of a mutant: whether a test has noticed, and whether it did so as it should."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from tests.mutants import trying
from tests.mutants.copying import Copy
from tests.mutants.making import a_mutant
from tests.mutants.mutant import SQLITE
from tests.mutants.trying import KILLED, SURVIVED, UNFIT, Run, Verdict, error_of, failures, run_tests


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
    ],
)
def test_an_assertion_that_fails_has_noticed(tmp_path: Path, error: str) -> None:
    verdict = ended(tmp_path, 1, ("", ""), ("failure", error)).judge(a_mutant())
    assert verdict == Verdict(KILLED, "store.test_x::test_1", "", 1.5)


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: not enough values to unpack (expected 1, got 0)",
        "django.db.utils.IntegrityError: CHECK constraint failed",
        "django.db.utils.OperationalError: deadlock detected",
        "KeyError: 'pay'\nAssertionError: of what is shown besides",
    ],
)
def test_another_error_is_no_death(tmp_path: Path, error: str) -> None:
    verdict = ended(tmp_path, 1, ("failure", error)).judge(a_mutant())
    assert (verdict.kind, verdict.test) == (UNFIT, "store.test_x::test_0")
    assert "died by no assertion" in verdict.why


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
    assert (verdict.kind, verdict.why) == (UNFIT, f"it never could work: {error}")


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
    # They begin before the test does: a busy machine has to come to its body in them.
    monkeypatch.setattr(trying, "HUNG_SECONDS", 2.0)
    file = tmp_path / "tests" / "part" / "test_slow.py"
    file.parent.mkdir(parents=True)
    file.write_text("import threading\n\n\ndef test_that_waits():\n    threading.Event().wait()\n")
    run = run_tests(Copy(tmp_path), SQLITE, ["-p", "no:django", str(file)], tmp_path / "run", 60)
    verdict = run.judge(a_mutant(waits=True))
    assert (verdict.kind, verdict.test) == (KILLED, "part.test_slow::test_that_waits"), run.tail


def test_what_pytest_reports_of_a_test_is_the_error_that_it_died_by(tmp_path: Path) -> None:
    """Those above are made by hand: the real ones begin with the same."""
    file = tmp_path / "tests" / "part" / "test_dying.py"
    file.parent.mkdir(parents=True)
    file.write_text(DYING)
    run = run_tests(Copy(tmp_path), SQLITE, ["-p", "no:django", str(file)], tmp_path / "run", 60)
    found = {test.partition("::test_")[2]: error_of(message) for test, message in failures(run.report)}
    assert found == {
        "plain": "AssertionError",
        "told": "AssertionError",
        "called": "AssertionError",
        "silent": "Failed",
        "matched": "AssertionError",
        "unpacked": "ValueError",
        "caused": "KeyError",
    }, run.tail


DYING = """
import pytest


def test_plain():
    assert [1, 2] == [1, 3]


def test_told():
    assert False, "the run was lost"


def test_called():
    raise AssertionError


def test_silent():
    with pytest.raises(KeyError):
        pass


def test_matched():
    with pytest.raises(KeyError, match="pay"):
        {}["ship"]


def test_unpacked():
    [one] = []


def test_caused():
    try:
        assert False
    except AssertionError as error:
        raise KeyError("pay") from error
"""


def test_tests_that_all_pass_have_noticed_nothing(tmp_path: Path) -> None:
    assert ended(tmp_path, 0, ("", "")).judge(a_mutant()).kind == SURVIVED


def test_the_class_of_an_error() -> None:
    assert error_of("django.db.utils.DataError: value too long\nmore: of it") == "DataError"
    assert error_of("assert {'a': 1} == {}") == "AssertionError"
    assert error_of("TimeoutError") == "TimeoutError"
