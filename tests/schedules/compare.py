"""``make oracle``: every triple, on several processes. Exit status 1 where the product and the oracle do not agree."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice

from tests.schedules.triples import EXPRESSIONS, ZONES, Triple, all_changes, difference

Change = tuple[int, str, datetime]
SHOWN = 20
PROGRESS_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    work = [(number, *one) for number, one in enumerate(all_changes())]
    total = sum(1 for number, _, _ in work for _ in expressions_for(number, options.every))
    print(
        f"{len(ZONES)} zones, {len(work)} changes of their clocks, {len(EXPRESSIONS)} expressions: "
        f"{total:,} triples on {options.processes} processes",
        flush=True,
    )
    began = time.monotonic()
    wrong = compare(work, total, options, began)
    seconds = time.monotonic() - began
    for problem in sorted(wrong)[:SHOWN]:
        print(problem)
    verdict = f"{len(wrong):,} DIFFER" if wrong else "all agree"
    print(f"oracle: {total:,} triples in {seconds:,.0f} s on {options.processes} processes: {verdict}")
    return 1 if wrong else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make oracle ARGS=...", description=__doc__)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth triple")
    return parser.parse_args(arguments)


def compare(work: list[Change], total: int, options: argparse.Namespace, began: float) -> list[str]:
    wrong: list[str] = []
    done, told = 0, began
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for count, problems in pool.imap_unordered(partial(differences, options.every), work, chunksize=2):
            done += count
            wrong += problems
            if (now := time.monotonic()) - told >= PROGRESS_SECONDS:
                told, left = now, (now - began) * (total - done) / max(1, done)
                print(f"{done:,} of {total:,}, {left:,.0f} s left, {len(wrong):,} differ", flush=True)
    return wrong


def differences(every: int, change: Change) -> tuple[int, list[str]]:
    """How many triples of one change were compared, and what is wrong with them."""
    number, zone, instant = change
    found = [difference(Triple(zone, instant, expression)) for expression in expressions_for(number, every)]
    return len(found), [problem for problem in found if problem]


def expressions_for(number: int, every: int) -> Iterator[str]:
    """The expressions of the change of that number that are compared."""
    return islice(EXPRESSIONS, -number * len(EXPRESSIONS) % every, None, every)


if __name__ == "__main__":
    sys.exit(main())
