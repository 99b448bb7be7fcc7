"""The whole suite: everything on PostgreSQL with Redis, the contract on SQLite, and on PostgreSQL without Redis what of
the contract can see which queue there is.

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

Part = tuple[str, list[str]]
"""A backend and what is selected on it: one run of pytest, on servers of its own."""

CONTRACT = ["-m", "contract"]
QUEUES = ["-m", "contract and not queueless"]
"""On a PostgreSQL that has run the rest of the contract already, with the other queue."""
PARTS: list[Part] = [("postgres-redis", []), ("postgres-database", QUEUES), ("sqlite", CONTRACT)]

SLOW = "tests/acceptance"
"""Real processes that wait for leases to lapse, and leave the machine to others."""

ENGINE = ["tests/client", "tests/executor", "tests/store", "tests/testing", "tests/worker"]
PAGES = ["tests/admin", "tests/commands", "tests/views"]
TOOLS = ["tests/benchmarks", "tests/example", "tests/hostile", "tests/upgrades"]
"""Each of these three takes about as long as all that is left."""

WHOLE: list[Part] = [
    ("postgres-redis", [SLOW]),
    ("postgres-redis", ENGINE),
    ("postgres-redis", PAGES),
    ("postgres-redis", TOOLS),
    ("sqlite", [*CONTRACT, f"--ignore={SLOW}"]),
    ("postgres-redis", [f"--ignore={folder}" for folder in (*ENGINE, *PAGES, *TOOLS, SLOW)]),
    ("postgres-database", [*QUEUES, f"--ignore={SLOW}"]),
    ("sqlite", [*CONTRACT, SLOW]),
    ("postgres-database", [*QUEUES, SLOW]),
]
"""The same in smaller parts, the long ones first: whoever is free takes the next, so that no core waits at the end."""

SIDE_BY_SIDE = 4
"""Two more than the cores that we count on: the slow parts wait for most of their time. Five took longer."""


def main(arguments: list[str]) -> int:
    begun = time.monotonic()
    # Who asks for something in particular gets that, and nothing beside it.
    parts = PARTS if arguments else WHOLE
    status, total = run_parts(parts, arguments, SIDE_BY_SIDE)
    print(f"{time.monotonic() - begun:.0f} s on {len({backend for backend, _ in parts})} backends")
    print(summary(total))
    return status


def run_parts(parts: list[Part], arguments: list[str], side_by_side: int) -> tuple[int, Counter[str]]:
    """Exit status and counts of them all. Of the first one is seen how it goes on."""
    with Folder() as folder, ThreadPoolExecutor(side_by_side) as pool:
        runs = [
            pool.submit(run_part, folder / str(number), part, arguments, is_shown=not number)
            for number, part in enumerate(parts)
        ]
        try:
            results = [run.result() for run in runs]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.signal(signal.SIGINT)
            return int(pytest.ExitCode.INTERRUPTED), Counter()
    return int(any(status for status, _ in results)), sum((counts for _, counts in results), Counter())


def run_part(folder: Path, part: Part, arguments: list[str], *, is_shown: bool) -> tuple[int, Counter[str]]:
    """Status and counts. What is not shown while it runs is printed at its end."""
    folder.mkdir()
    backend, selection = part
    title = f"== {backend}: {' '.join(selection) or 'all tests'}"
    output = None if is_shown else folder / "log"
    if is_shown:
        print(title, flush=True)
    status = run(backend, [*selection, *arguments], report := folder / "report.xml", output)
    if output is not None:
        print(f"{title}\n{output.read_text(errors='replace')}", flush=True)
    if status == pytest.ExitCode.NO_TESTS_COLLECTED and arguments:
        status = 0
    counts = read_counts(report)
    # A run that died, or was stopped by an error of its own, must not look like one that passed.
    if status and not counts["failed"]:
        counts["failed"] += 1
    return status, counts


running: list[Guarded] = []


def run(backend: str, arguments: list[str], report: Path, output: Path | None) -> int:
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    environment = {**os.environ, "DURABLE_TEST_BACKEND": backend}
    # Else each of some hundred processes compiles the package, and each part rewrites every assertion, for itself.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # Under a guard: the run ends with us, also when we are killed.
    process = Guarded(command, env=environment, cwd=ROOT, log=output)
    running.append(process)
    try:
        return process.wait(None)
    finally:
        running.remove(process)


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
