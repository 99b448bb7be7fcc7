"""The whole suite: everything on PostgreSQL with Redis, and beside it the contract on the two other backends.

`python tests/run.py [pytest's arguments]`; its last line sums up. `make test` calls it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from tests.servers import Folder, Guarded  # noqa: E402

Lane = list[tuple[str, list[str]]]
"""Backends with what is selected on them, one after the other."""

CONTRACT = ["-m", "contract"]
LANES: list[Lane] = [
    [("postgres-redis", [])],
    [("postgres-database", CONTRACT), ("sqlite", CONTRACT)],
]
"""Lanes run side by side, every backend on servers of its own."""

SLOW = "tests/acceptance"
"""Real processes that wait for leases to lapse, and leave the machine to others: in a lane of its own."""


def lanes_for(arguments: list[str]) -> list[Lane]:
    """Who asks for something in particular gets that, and nothing beside it."""
    if arguments:
        return LANES
    beside = [[(backend, [*selection, f"--ignore={SLOW}"]) for backend, selection in lane] for lane in LANES]
    return [*beside, [(backend, [*selection, SLOW]) for lane in LANES for backend, selection in lane]]


def main(arguments: list[str]) -> int:
    begun = time.monotonic()
    given = lanes_for(arguments)
    with Folder() as folder, ThreadPoolExecutor(len(given)) as pool:
        lanes = [
            pool.submit(run_lane, folder / str(number), lane, arguments, is_shown=not number)
            for number, lane in enumerate(given)
        ]
        try:
            results = [result for lane in lanes for result in lane.result()]
        except KeyboardInterrupt:
            for process in running:
                process.signal(signal.SIGINT)
            return int(pytest.ExitCode.INTERRUPTED)
    total: Counter[str] = Counter()
    for _, counts in results:
        total += counts
    print(f"{time.monotonic() - begun:.0f} s on {len({backend for lane in given for backend, _ in lane})} backends")
    print(summary(total))
    return int(any(status for status, _ in results))


def run_lane(folder: Path, lane: Lane, arguments: list[str], *, is_shown: bool) -> list[tuple[int, Counter[str]]]:
    """Status and counts of each backend. What is not shown while it runs is printed at its end."""
    folder.mkdir()
    results = []
    for backend, selection in lane:
        title = f"== {backend}: {' '.join(selection) or 'all tests'}"
        output = None if is_shown else folder / f"{backend}.log"
        if is_shown:
            print(title, flush=True)
        status = run(backend, [*selection, *arguments], report := folder / f"{backend}.xml", output)
        if output is not None:
            print(f"{title}\n{output.read_text(errors='replace')}", flush=True)
        if status == pytest.ExitCode.NO_TESTS_COLLECTED and arguments:
            status = 0
        counts = read_counts(report)
        # A run that died, or was stopped by an error of its own, must not look like one that passed.
        if status and not counts["failed"]:
            counts["failed"] += 1
        results.append((status, counts))
    return results


running: list[Guarded] = []


def run(backend: str, arguments: list[str], report: Path, output: Path | None) -> int:
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    environment = {**os.environ, "DURABLE_TEST_BACKEND": backend}
    # Under a guard: the run ends with us, also when we are killed.
    process = Guarded(command, env=environment, cwd=ROOT, log=output)
    running.append(process)
    return process.wait(None)


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
