"""Pytest plugin: a skip or an expected failure counts as a failure unless `allowed_skips.txt` lists it and says why.

A suite that skips quietly tests less every month. Loaded by `-p tests.skips` (pyproject.toml).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ALLOWED = "tests/allowed_skips.txt"
LIST = pytest.StashKey[list["Allowed"]]()


@dataclass(frozen=True)
class Allowed:
    """One line: a shell pattern for test ids, then the reason exactly as the test gives it."""

    pattern: str
    reason: str

    def covers(self, nodeid: str, reason: str) -> bool:
        return fnmatchcase(nodeid, self.pattern) and reason == self.reason


def read_allowed(path: Path) -> list[Allowed]:
    if not path.exists():
        return []
    lines = [line.strip() for line in path.read_text().splitlines()]
    return [parse(line) for line in lines if line and not line.startswith("#")]


def parse(line: str) -> Allowed:
    pattern, _, reason = line.partition(" ")
    if not reason.strip():
        raise pytest.UsageError(f"{ALLOWED}: {pattern} has no reason.")
    return Allowed(pattern, reason.strip())


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LIST] = read_allowed(config.rootpath / ALLOWED)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    # The outermost wrapper, so that what pytest makes of `xfail` is seen as well.
    report = yield
    refuse_unlisted(report, item.config)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_unlisted(report, collector.config)
    return report


def refuse_unlisted(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    if not report.skipped:
        return
    reason = reason_of(report)
    if any(allowed.covers(report.nodeid, reason) for allowed in config.stash[LIST]):
        return
    report.outcome = "failed"
    report.longrepr = f"Skipped or expected to fail, and not listed in {ALLOWED}:\n{report.nodeid} {reason}"
    report.__dict__.pop("wasxfail", None)


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail).removeprefix("reason: ")
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
