"""Faults at every point, on PostgreSQL with Redis and on SQLite: `python -m tests.faults`.

Beside it, the tests of this folder plant faults in the engine and see that the enumeration finds them. The last line is
one JSON object. A scenario with fewer points than `floor.json` says fails: points may only become more.

Each part is a process group under a guard (`tests/servers`): however this command ends, nothing of it is left.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.faults.backends import BACKENDS
from tests.faults.options import ALL, parse
from tests.faults.totals import Totals
from tests.servers import Folder, Guarded

HERE = Path(__file__).resolve().parent
FLOOR = HERE / "floor.json"
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    began = time.monotonic()
    try:
        totals, failed = run(options, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    failed += sum(one.failed for one in totals.values())
    if options.write_floor and not failed:
        write_floor(totals)
    elif not (options.scenario or options.action or options.point):
        for fewer in check_floor(totals):
            print(fewer, flush=True)
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
        is_seeing = not (options.blind or options.backend)
        tests = stack.enter_context(seeing(folder / "tests")) if is_seeing else None
        totals = {name: Totals.read(folder / name, part.wait(None)) for name, part in parts.items()}
        if tests is None:
            return totals, 0
        status = tests.wait(None)
        print((folder / "tests").read_text(errors="replace"), end="", flush=True)
        return totals, int(bool(status))


def enumerating(backend: str, totals: Path, arguments: Sequence[str]) -> Guarded:
    """One backend in a process of its own, which Django's settings belong to. What it comes to is in ``totals``."""
    own = ["--backend", backend, "--totals", totals]
    return Guarded([sys.executable, "-m", "tests.faults.one_backend", *arguments, *own])


def seeing(log: Path) -> Guarded:
    """Whether the enumeration sees anything: its own tests."""
    environment = {**os.environ, "DURABLE_TEST_FAULTS": "1", "DURABLE_TEST_BACKEND": "postgres-redis"}
    return Guarded([sys.executable, "-m", "pytest", "-q", HERE], env=environment, log=log)


def check_floor(totals: dict[str, Totals]) -> Iterator[str]:
    """In words, the scenarios that have fewer points than they had."""
    floor = json.loads(FLOOR.read_text()) if FLOOR.exists() else {}
    for backend, one in totals.items():
        for name, least in floor.get(backend, {}).items():
            points = one.points.get(name, 0)
            if points < least:
                yield f"{backend:8} {name}: {points} points, and there were {least}: they may only become more"


def write_floor(totals: dict[str, Totals]) -> None:
    """Take the points of this run for the least ones; those of scenarios that were left out stay as they are."""
    floor = json.loads(FLOOR.read_text()) if FLOOR.exists() else {}
    for backend, one in totals.items():
        points = {**floor.get(backend, {}), **one.points}
        floor[backend] = {name: points[name] for name in ALL if name in points}
    FLOOR.write_text(json.dumps(floor, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
