"""`tests/skips.py`: what may be skipped is listed, with its reason, and nothing else is."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests import run
from tests.skips import Allowed, parse, read_allowed

ROOT = Path(__file__).resolve().parent.parent

SUITE = """
import pytest

def test_plain(): pass

@pytest.mark.skip(reason="no such machine here")
def test_marked(): pass

def test_called(): pytest.skip("not today")

@pytest.mark.xfail(reason="known to be broken")
def test_expected(): assert False
"""


@pytest.fixture
def suite(tmp_path: Path):
    """A suite of its own, without Django; returns the lines of pytest's short summary."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p tests.skips -p no:django\npythonpath = .\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "test_suite.py").write_text(SUITE)

    def outcomes(*allowed: str) -> dict[str, str]:
        (tmp_path / "tests/allowed_skips.txt").write_text("# comment\n\n" + "\n".join(allowed))
        command = [sys.executable, "-m", "pytest", "-q", "--junitxml=report.xml", "--rootdir=.", "."]
        environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
        cases = ET.parse(tmp_path / "report.xml").iter("testcase")  # noqa: S314 (our own)
        return {case.get("name", ""): run.outcome(case) for case in cases}

    return outcomes


def test_unlisted_skips_and_expected_failures_fail(suite):
    assert suite() == {
        "test_plain": "passed",
        "test_marked": "failed",
        "test_called": "failed",
        "test_expected": "failed",
    }


def test_listed_ones_are_skipped(suite):
    assert suite(
        "test_suite.py::test_marked no such machine here",
        "test_suite.py::test_call* not today",
        "*::test_expected known to be broken",
    ) == {"test_plain": "passed", "test_marked": "skipped", "test_called": "skipped", "test_expected": "skipped"}


def test_a_listed_one_with_another_reason_fails(suite):
    assert suite("test_suite.py::test_called the moon is full")["test_called"] == "failed"


def test_a_module_that_skips_itself_fails(suite, tmp_path):
    (tmp_path / "test_suite.py").write_text("import pytest\npytest.skip('all of it', allow_module_level=True)")
    assert set(suite().values()) == {"failed"}


def test_a_line_without_a_reason_is_refused():
    assert parse("tests/a.py::b  why not ") == Allowed("tests/a.py::b", "why not")
    with pytest.raises(pytest.UsageError, match="no reason"):
        parse("tests/a.py::b")


def test_the_list_of_this_suite_can_be_read():
    assert all(allowed.reason for allowed in read_allowed(ROOT / "tests/allowed_skips.txt"))


def test_summary_line_adds_up():
    assert run.summary(run.Counter(passed=3, failed=1)) == "3 passed, 1 failed"
    assert run.summary(run.Counter(passed=3, skipped=2)) == "3 passed, 0 failed, 2 skipped"
