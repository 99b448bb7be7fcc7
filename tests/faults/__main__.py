"""Faults at every point, on PostgreSQL with Redis and on SQLite: `python -m tests.faults`.

Beside it, the tests of this folder plant faults in the engine and see that the enumeration finds them. The last line is
one JSON object. A scenario that has other points than `floor.json` says fails: see `floor.py`.

Each part is a process group under a guard (`tests/servers`): however this command ends, nothing of it is left.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.faults import floor
from tests.faults.backends import BACKENDS
from tests.faults.options import parse
from tests.faults.totals import Totals
from tests.servers import Folder, Guarded

HERE = Path(__file__).resolve().parent
SEEING = {"postgres-redis": HERE, "sqlite": HERE / "test_sqlite_faults_see.py"}
"""The tests of this folder, and those of them that are for SQLite, by the backend that they run on."""
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    began = time.monotonic()
    try:
        totals, failed = run(options, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    failed += sum(one.failed for one in totals.values())
    counted = {backend: one.points for backend, one in totals.items()}
    if options.write_floor and not failed:
        floor.record(floor.raised(floor.recorded(), counted, may_lower=options.lower))
    if options.write_floor or not (options.scenario or options.action or options.point):
        for difference in floor.differences(floor.recorded(), counted, options.scenario or ()):
            print(difference, flush=True)
            failed += 1
    total = {"points": sum(sum(one.points.values()) for one in totals.values())}
    total |= {"cases": sum(one.cases for one in totals.values()), "failed": failed}
    print(json.dumps({**total, "seconds": round(time.monotonic() - began)}), flush=True)
    return 1 if failed else 0


def run(options: Namespace, arguments: Sequence[str]) -> tuple[dict[str, Totals], int]:
    """All parts side by side, to their end; the totals of each backend, and how many of the tests' runs failed."""
    backends = [options.backend] if options.backend else list(BACKENDS)
    with Folder() as folder, ExitStack() as stack:
        parts = {name: stack.enter_context(enumerating(name, folder / name, arguments)) for name in backends}
        logs = {} if options.blind or options.backend else {name: folder / f"tests-{name}" for name in SEEING}
        tests = {name: stack.enter_context(seeing(name, log)) for name, log in logs.items()}
        totals = {name: Totals.read(folder / name, part.wait(None)) for name, part in parts.items()}
        failed = 0
        for name, test in tests.items():
            failed += bool(test.wait(None))
            print(logs[name].read_text(errors="replace"), end="", flush=True)
        return totals, failed


def enumerating(backend: str, totals: Path, arguments: Sequence[str]) -> Guarded:
    """One backend in a process of its own, which Django's settings belong to. What it comes to is in ``totals``."""
    own = ["--backend", backend, "--totals", totals]
    return Guarded([sys.executable, "-m", "tests.faults.one_backend", *arguments, *own])


def seeing(backend: str, log: Path) -> Guarded:
    """Whether the enumeration sees anything: its own tests."""
    environment = {**os.environ, "DURABLE_TEST_FAULTS": "1", "DURABLE_TEST_BACKEND": backend}
    return Guarded([sys.executable, "-m", "pytest", "-q", SEEING[backend]], env=environment, log=log)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
