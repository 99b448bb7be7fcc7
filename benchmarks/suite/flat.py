"""S8: a child of ten thousand and a turn of ten thousand cost what an early one costs.

``benchmarks/fanout.py`` measures children and ``benchmarks/loops.py`` the engine's own work in a turn, without a
database; here they are asked for their figures. ``worker_loop`` has the whole of a turn: worker, commit and tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median

from .bench import Bench
from .meter import Meter
from .sample import Once, Sample

FEW, MANY = 1_000, 10_000
TURNS = 10_000
TURNS_AT_LEAST = 300
"""``loops`` compares windows of a hundred turns."""
BLOCKS = 5
"""What else the machine does for a moment is in one of them, and not in their median."""


@contextmanager
def fan_out(bench: Bench) -> Iterator[Once]:
    """Milliseconds a child, from the parent's claim to its outcome, in a fan-out of few and in one of many, by two
    worker processes."""
    with bench.workers(2) as started:

        def once() -> Iterator[Sample]:
            for figure, full in (("S8_few_child_ms", FEW), ("S8_many_child_ms", MANY)):
                count = bench.part_of(full)
                noise = bench.wait_until_quiet(are_up=True)
                meter = Meter(bench.stage, bench.client.pid, started)
                value = bench.client.ask("fan_out", count=count).result
                cost = meter.cost(count)
                started.check()
                yield Sample(figure, value, cost, noise, count)

        yield once


@contextmanager
def loop(bench: Bench) -> Iterator[Once]:
    """Microseconds of the engine's own work in a turn around the hundredth and in one of the last."""

    def once() -> Iterator[Sample]:
        turns = max(TURNS_AT_LEAST, bench.part_of(TURNS))
        noise = bench.wait_until_quiet()
        early, late = bench.client.ask("loop", turns=turns).result
        yield Sample("S8_early_turn_us", 1e6 * early, {}, noise, turns)
        yield Sample("S8_late_turn_us", 1e6 * late, {}, noise, turns)

    yield once


@contextmanager
def worker_loop(bench: Bench) -> Iterator[Once]:
    """Milliseconds of a turn of one step in a worker process: of turns 100 to 1,100 and of the last thousand, each the
    median of ``BLOCKS`` blocks of them."""
    with bench.workers(1) as started:

        def once() -> Iterator[Sample]:
            turns = max(TURNS_AT_LEAST, bench.part_of(TURNS))
            block, first, last = turns // 10 // BLOCKS, turns // 100, turns - 1
            early = [first + block * number for number in range(BLOCKS + 1)]
            late = [last - block * number for number in reversed(range(BLOCKS + 1))]
            noise = bench.wait_until_quiet(are_up=True)
            meter = Meter(bench.stage, bench.client.pid, started)
            instants = bench.client.ask("loop_in_worker", marks=early + late).result
            cost = meter.cost(turns)
            started.check()
            reached = {"S8_early_turn_ms": instants[: len(early)], "S8_late_turn_ms": instants[len(early) :]}
            for figure, seen in reached.items():
                seconds = median(ended - begun for begun, ended in pairwise(seen))
                yield Sample(figure, 1e3 * seconds / block, cost, noise, turns)

        yield once
