"""The whole suite: everything on PostgreSQL with Redis, then the contract on the two other backends.

`python tests/run.py [pytest's arguments]`; its last line sums up. `make test` calls it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from tests.servers import Folder, Guarded  # noqa: E402

PLAN = {
    "postgres-redis": [],
    "postgres-database": ["-m", "contract"],
    "sqlite": ["-m", "contract"],
}


def main(arguments: list[str]) -> int:
    begun = time.monotonic()
    total: Counter[str] = Counter()
    failed = False
    with Folder() as folder:
        for backend, selection in PLAN.items():
            print(f"== {backend}{': contract tests' if selection else ': all tests'}", flush=True)
            status = run(backend, [*selection, *arguments], report := folder / f"{backend}.xml")
            if status == pytest.ExitCode.NO_TESTS_COLLECTED and arguments:
                status = 0
            counts = read_counts(report)
            # A run that died, or was stopped by an error of its own, must not look like one that passed.
            if status and not counts["failed"]:
                counts["failed"] += 1
            failed |= bool(status)
            total += counts
            if status == pytest.ExitCode.INTERRUPTED:
                break
    print(f"{time.monotonic() - begun:.0f} s on {len(PLAN)} backends")
    print(summary(total))
    return int(failed)


def run(backend: str, arguments: list[str], report: Path) -> int:
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    environment = {**os.environ, "DURABLE_TEST_BACKEND": backend}
    # Under a guard: the run ends with us, also when we are killed.
    process = Guarded(command, env=environment, cwd=ROOT)
    try:
        return process.wait(None)
    except KeyboardInterrupt:
        process.signal(signal.SIGINT)
        return process.wait()


def read_counts(report: Path) -> Counter[str]:
    if not report.exists():
        return Counter()
    return Counter(outcome(case) for case in ET.parse(report).iter("testcase"))  # noqa: S314 (written by pytest)


def outcome(case: ET.Element) -> str:
    found = {child.tag for child in case}
    if found & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in found else "passed"


def summary(total: Counter[str]) -> str:
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    return f"{total['passed']} passed, {total['failed']} failed{skipped}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
