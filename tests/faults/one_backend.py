"""The process of one backend: `tests/faults/__main__.py` starts it, and ends it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.faults.backends import Count, Task, enumerate_on
from tests.faults.options import ACTIONS, ALL, LANES, parse
from tests.faults.totals import Totals

SHOWN = 10
"""Cases of a scenario that are printed when they have failed."""


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    backend = options.backend

    def tell(name: str, count: Count) -> None:
        figures = f"{count.points:4} points, {count.cases:4} cases, {count.seconds:4.0f} s of a lane"
        print(f"{backend:8} {name:26} {figures}, {len(count.failed)} failed", flush=True)
        for one in count.failed[:SHOWN]:
            print(one, flush=True)

    counts = enumerate_on(backend, tasks_of(options), options.lanes or LANES[backend], tell)
    totals = Totals(
        {name: count.points for name, count in counts.items()},
        sum(count.cases for count in counts.values()),
        sum(len(count.failed) for count in counts.values()),
    )
    totals.write(options.totals)
    return 1 if totals.failed else 0


def tasks_of(options: argparse.Namespace) -> list[Task]:
    """Each scenario with each action: small enough that no lane is left with the last one for long."""
    actions = [one for one in options.action or ACTIONS if one != "terminate" or options.backend == "postgres"]
    return [(name, [action], options.point, options.all) for name in options.scenario or ALL for action in actions]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
