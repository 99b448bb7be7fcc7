"""Runs of pytest on a copy, and what their reports say of a mutant."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import Guarded

from .copying import Copy
from .mutant import Mutant

KILLED, SURVIVED, UNFIT = "killed", "SURVIVED", "UNFIT"
"""``UNFIT``: it says nothing, since it ended neither by a test that noticed nor by tests that all passed."""

SECONDS = 150.0
"""How long a mutant's tests may take."""
HUNG_SECONDS = 90.0
"""How long a single one may: then pytest says where it stands, and ends. More than a test's own patience."""
BASELINE_SECONDS = 300.0

ASSERTED = frozenset({"AssertionError", "Failed"})
"""What a test says itself: by ``assert``, and by pytest (`pytest.raises`, `pytest.fail`)."""
NONSENSE = frozenset(
    {"AttributeError", "ImportError", "IndentationError", "ModuleNotFoundError", "NameError", "ProgrammingError"}
    | {"SyntaxError", "TypeError", "UnboundLocalError"}
)
"""Errors of code that never could work: any test at all would notice it."""
NONSENSE_OF_SQLITE = re.compile(r"syntax error|no such (column|function|table)")
"""SQLite raises OperationalError for what is a ProgrammingError elsewhere."""
WAITED = re.compile(r"(AssertionError: )?Waited .* s for |([\w.]+\.)?TimeoutError\b")
"""What came too late for a test, or never: ``wait_until``, and the result of a thread."""
HUNG = re.compile(
    r'^Timeout \(.*?^  File "[^"\n]*/tests/([\w/]+)\.py", line \d+ in (test_\w+)$', re.MULTILINE | re.DOTALL
)
"""What faulthandler says of a test that hangs. Of a fixture it says the same, without a test."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``test`` is the one that noticed, ``why`` what else there is to say."""

    kind: str
    test: str = ""
    why: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """One pytest that is over. ``status`` is its exit status, None where it had to be ended; ``tail`` what it said."""

    status: int | None
    report: Path
    tail: str
    seconds: float

    def judge(self, mutant: Mutant) -> Verdict:
        """What it says of the mutant that it ran on."""
        kind, test, why = self._judged(mutant)
        return Verdict(kind, test, why, self.seconds)

    def _judged(self, mutant: Mutant) -> tuple[str, str, str]:
        if self.status is None:
            return UNFIT, "", f"pytest was at it for {SECONDS:g} s, and no test for {HUNG_SECONDS:g} s"
        if self.status == pytest.ExitCode.OK:
            return SURVIVED, "", ""
        if test := self.hung_in:
            return (KILLED, test, "") if mutant.dies_waiting else (UNFIT, test, "it hung, and was not said to")
        deaths = failures(self.report) if self.status == pytest.ExitCode.TESTS_FAILED else []
        if not deaths:
            return UNFIT, "", f"pytest ended with {self.status} and no test that failed: {self.tail[-500:]}"
        test, message = deaths[0]
        first, error = message.partition("\n")[0], error_of(message)
        if error in NONSENSE or NONSENSE_OF_SQLITE.search(first):
            return UNFIT, test, f"it never could work: {first}"
        if WAITED.match(message):
            is_said, how = mutant.dies_waiting, "died waiting"
        else:
            is_said, how = error in ASSERTED, "died by no assertion"
        return (KILLED, test, "") if is_said else (UNFIT, test, f"it {how}, and was not said to: {first}")

    @property
    def hung_in(self) -> str:
        """The test that was under way when it had to be ended. Such a run has no report."""
        found = HUNG.search(self.tail)
        return f"{found[1].replace('/', '.')}::{found[2]}" if found else ""


def failures(report: Path) -> list[tuple[str, str]]:
    """The tests that failed in their own code (not in a fixture, nor when they were collected), each with its error."""
    if not report.exists():
        return []
    cases = ET.parse(report).iter("testcase")  # noqa: S314 (written by pytest)
    found = ((case, case.find("failure")) for case in cases)
    return [
        (f"{case.get('classname', '')}::{case.get('name', '')}".removeprefix("tests."), failure.get("message", ""))
        for case, failure in found
        if failure is not None
    ]


def error_of(message: str) -> str:
    """The class of the error that a report's message begins with. Of a bare assertion pytest leaves that out."""
    name = message.partition("\n")[0].partition(":")[0]
    return "AssertionError" if name.startswith("assert") else name.rpartition(".")[2]


# --- running ---------------------------------------------------------------------------------


def try_mutant(copy: Copy, mutant: Mutant, folder: Path) -> Verdict:
    """Apply the mutant, run its tests up to the first that fails, take it back. ``folder`` is for what they print."""
    with copy.bearing(mutant):
        run = run_tests(copy, mutant.backend, ["-x", *mutant.tests], folder / mutant.name, SECONDS)
    return run.judge(mutant)


def run_tests(copy: Copy, backend: str, arguments: Sequence[str], named: Path, seconds: float) -> Run:
    """Servers of its own, on the copy's code. Files beside ``named`` take its report and what it prints."""
    report, log = named.with_suffix(".xml"), named.with_suffix(".log")
    options = ["-o", f"faulthandler_timeout={HUNG_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
    told = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", *options, *arguments]
    command = [sys.executable, "-m", "pytest", *told]
    began = time.monotonic()
    # Under a guard: it ends with us, also when we are killed.
    with Guarded(command, env=environment(copy, backend), cwd=copy.root, log=log) as process:
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
    return Run(status, report, log.read_text(errors="replace"), time.monotonic() - began)


def environment(copy: Copy, backend: str) -> dict[str, str]:
    """Without servers that run already: lanes side by side would meet there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DURABLE_TEST_")}
    # Before the checkout, which is installed where this Python looks.
    return {**kept, "DURABLE_TEST_BACKEND": backend, "PYTHONPATH": str(copy.root)}


def imported_from(copy: Copy) -> Path:
    """The folder from which the copy's tests would import the engine."""
    command = [sys.executable, "-c", "import django_durable; print(django_durable.__file__)"]
    asked = subprocess.run(
        command, cwd=copy.root, env=environment(copy, ""), check=True, capture_output=True, text=True
    )
    return Path(asked.stdout.strip()).resolve().parents[1]
