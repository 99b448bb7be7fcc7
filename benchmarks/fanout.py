"""A fan-out: does a child of ten thousand cost what one of a thousand costs?

One parent maps a workflow over so many items, real ``durable_worker`` processes work the children off, and the time
from the parent's first claim to its outcome is divided by their number: children are started, each one's end is looked
at, the parent is woken once, loads what they returned and journals it. Flat means that neither the parent's row nor an
index grows dearer with every child. Usage: ``python benchmarks/fanout.py [--json] [--queue redis|database]
[--repetitions N] [--few N] [--many N] [--dearer N]``; exit status 1 where the larger fan-out's child costs over 20 %
more (or by another factor, where one is given).
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
FEW, MANY = 1_000, 10_000
DEARER = 1.2


@dataclass(frozen=True)
class Measured:
    """``child_ms`` is the whole time over the number of children, ``last_s`` what comes after the last one's end."""

    child_ms: float
    last_s: float


def main() -> int:
    from benchmarks.quick import set_up

    options = read_options()
    with ExitStack() as stack:
        set_up(stack, options)
        # The first is the warm-up: plans, caches, the file system.
        measure(options.few)
        # By turns, so that what else the machine does falls on both.
        pairs = [(measure(options.few), measure(options.many)) for _ in range(options.repetitions)]
    few, many = (middle(column) for column in zip(*pairs, strict=True))
    for count, measured in ((options.few, few), (options.many, many)):
        print(f"{count:6,} children   {measured.child_ms:6.2f} ms each   {measured.last_s:5.2f} s after the last")
    ratio = many.child_ms / few.child_ms
    print(f"{ratio:.2f} times as much for one of {options.many:,}; at most {options.dearer}")
    if options.json:
        print(json.dumps({"few_ms": few.child_ms, "many_ms": many.child_ms, "ratio": ratio, "last_s": many.last_s}))
    return 0 if ratio <= options.dearer else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--queue", choices=["redis", "database"], default="redis")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--few", type=int, default=FEW, help="children of the smaller fan-out")
    parser.add_argument("--many", type=int, default=MANY, help="children of the larger one")
    parser.add_argument("--dearer", type=float, default=DEARER, help="a child of the larger over one of the smaller")
    parser.set_defaults(database="postgresql")
    return parser.parse_args()


def middle(measured: tuple[Measured, ...]) -> Measured:
    return Measured(median(one.child_ms for one in measured), median(one.last_s for one in measured))


def measure(count: int) -> Measured:
    """With workers of its own, in empty tables."""
    from benchmarks.quick import empty, workers

    empty()
    with workers("--processes", "2"):
        return measure_one(count)


def measure_one(count: int) -> Measured:
    """With the workers that are up."""
    from django.db.models import Max

    from benchmarks.project.workflows import fan_out
    from benchmarks.quick import wait_for
    from django_durable.models import JournalEntry, Run

    handle = fan_out.enqueue(count=count)
    wait_for(lambda: handle.refresh().status == "succeeded")
    parent = handle.run
    children = Run.objects.filter(parent_id=parent.pk, status="succeeded")
    counted = (children.count(), JournalEntry.objects.filter(run_id=parent.pk).count(), parent.claims)
    if counted != (count, count + 1, 2):
        raise AssertionError(f"children, entries and claims of the parent: {counted}")
    last = children.aggregate(last=Max("finished_at"))["last"]
    seconds = (parent.finished_at - parent.started_at).total_seconds()
    return Measured(1000 * seconds / count, (parent.finished_at - last).total_seconds())


if __name__ == "__main__":
    sys.exit(main())
