"""What the command is told; its processes are told the same."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tests.faults.backends import BACKENDS

ACTIONS = ("die", "before", "after", "terminate", "stall")
SCENARIOS = ("plain", "atomic", "sleep-and-event", "child", "compensation", "schedule")
ALL = (*SCENARIOS, "handed-back", "failing", "crashing", *(f"{name}-cancelled" for name in SCENARIOS))
LANES = {"postgres": 3, "sqlite": 1}
"""Victim and rescue of a lane take turns, and wait for their server. On SQLite a case takes a third of the time."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Faults at every point.")
    parser.add_argument("--backend", choices=list(BACKENDS), help="only this one")
    parser.add_argument("--scenario", choices=ALL, action="append", help="only these")
    parser.add_argument("--action", choices=ACTIONS, action="append", help="only these")
    parser.add_argument("--point", type=int, metavar="K", help="only the K-th point")
    parser.add_argument("--all", action="store_true", help="also what is the same as at the point after it")
    parser.add_argument("--lanes", type=int, help="side by side, for each backend (default 3, and 1 on SQLite)")
    parser.add_argument("--blind", action="store_true", help="without the tests that plant faults in the engine")
    parser.add_argument("--write-floor", action="store_true", help="record where this run has more points than ever")
    parser.add_argument("--lower", action="store_true", help="with --write-floor: also where it has fewer")
    parser.add_argument("--totals", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.lower and not options.write_floor:
        parser.error("--lower is for --write-floor")
    return options
