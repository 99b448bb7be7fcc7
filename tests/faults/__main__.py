"""Faults at every point, on PostgreSQL with Redis and on SQLite: `python -m tests.faults`.

Before, the tests of this folder plant faults in the engine and see that the enumeration finds them. Its last line is
one JSON object. A scenario with fewer points than `floor.json` says fails: points may only become more.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.faults.backends import BACKENDS, Count, Task, enumerate_on

FOLDER = Path(__file__).resolve().parent
FLOOR = FOLDER / "floor.json"
ACTIONS = ("die", "before", "after", "terminate", "stall")
SCENARIOS = ("plain", "atomic", "sleep-and-event", "child", "compensation", "schedule")
ALL = (*SCENARIOS, "handed-back", *(f"{name}-cancelled" for name in SCENARIOS))
LANES = 2
"""For each backend. Victim and rescue of a lane take turns, and wait for their server."""

SHOWN = 10
"""Cases of a scenario that are printed when they have failed."""


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    began = time.monotonic()
    if options.backend:
        return enumerate_one(options)
    if not options.blind and (status := see()):
        return status
    with ThreadPoolExecutor() as pool:
        totals = list(pool.map(lambda backend: in_process(backend, arguments), BACKENDS))
    total = {key: sum(one[key] for one in totals) for key in ("points", "cases", "failed")}
    print(json.dumps({**total, "seconds": round(time.monotonic() - began)}), flush=True)
    return 1 if total["failed"] else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--backend", choices=list(BACKENDS), help="only this one")
    parser.add_argument("--scenario", choices=ALL, action="append", help="only these")
    parser.add_argument("--action", choices=ACTIONS, action="append", help="only these")
    parser.add_argument("--point", type=int, metavar="K", help="only the K-th point")
    parser.add_argument("--all", action="store_true", help="also what is the same as at the point after it")
    parser.add_argument("--lanes", type=int, default=LANES, help="side by side, for each backend")
    parser.add_argument("--blind", action="store_true", help="without the tests that plant faults in the engine")
    parser.add_argument("--write-floor", action="store_true", help="take the points of this run for the least ones")
    return parser.parse_args(arguments)


def see() -> int:
    """Whether the enumeration sees anything: its own tests, in a process of their own."""
    environment = {**os.environ, "DURABLE_TEST_FAULTS": "1", "DURABLE_TEST_BACKEND": "postgres-redis"}
    return subprocess.run([sys.executable, "-m", "pytest", "-q", str(FOLDER)], env=environment).returncode


def in_process(backend: str, arguments: Sequence[str]) -> dict[str, Any]:
    """One backend in a process of its own, which Django's settings belong to; its totals."""
    command = [sys.executable, "-m", "tests.faults", *arguments, "--backend", backend]
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if last:
                print(last, end="", flush=True)
            last = line
    try:
        found: dict[str, Any] = json.loads(last)
    except ValueError:
        print(last, end="", flush=True)
        return {"points": 0, "cases": 0, "failed": 1}
    if process.returncode and not found["failed"]:
        found["failed"] = 1
    return found


# --- one backend -----------------------------------------------------------------------------


def enumerate_one(options: argparse.Namespace) -> int:
    began = time.monotonic()
    # An end like any other: the servers, and the lanes with their processes, go too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    backend = options.backend
    is_whole = not (options.scenario or options.action or options.point)

    def tell(name: str, count: Count) -> None:
        figures = f"{count.points:4} points, {count.cases:4} cases, {count.seconds:4.0f} s of a lane"
        print(f"{backend:8} {name:26} {figures}, {len(count.failed)} failed", flush=True)
        for one in count.failed[:SHOWN]:
            print(one, flush=True)

    counts = enumerate_on(backend, tasks_of(options), options.lanes, tell)
    failed = sum(len(count.failed) for count in counts.values())
    if options.write_floor and not failed:
        write_floor(backend, counts)
    elif is_whole:
        failed += check_floor(backend, counts)
    total = {
        "points": sum(count.points for count in counts.values()),
        "cases": sum(count.cases for count in counts.values()),
        "failed": failed,
    }
    print(json.dumps({"backend": backend, **total, "seconds": round(time.monotonic() - began)}), flush=True)
    return 1 if failed else 0


def tasks_of(options: argparse.Namespace) -> list[Task]:
    """Each scenario with each action: small enough that no lane is left with the last one for long."""
    actions = [one for one in options.action or ACTIONS if one != "terminate" or options.backend == "postgres"]
    return [(name, [action], options.point, options.all) for name in options.scenario or ALL for action in actions]


def check_floor(backend: str, counts: dict[str, Count]) -> int:
    """Of how many scenarios there are fewer points than there were; says which."""
    floor = json.loads(FLOOR.read_text())[backend] if FLOOR.exists() else {}
    fewer = 0
    for name, least in floor.items():
        points = counts[name].points if name in counts else 0
        if points < least:
            print(f"{backend:8} {name}: {points} points, and there were {least}: they may only become more", flush=True)
            fewer += 1
    return fewer


def write_floor(backend: str, counts: dict[str, Count]) -> None:
    floor = json.loads(FLOOR.read_text()) if FLOOR.exists() else {}
    floor[backend] = {name: counts[name].points for name in ALL if name in counts}
    FLOOR.write_text(json.dumps(floor, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
