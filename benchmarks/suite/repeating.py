"""How often a scenario is measured, and what all of its repetitions leave behind."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .bench import Bench, Scenario, Sizes
from .meter import rows_left_dead
from .sample import Sample

ENOUGH_SECONDS, MOST = 4.0, 9
"""A scenario is repeated for so long, and so many times at most: what takes a quarter of a second would otherwise be
measured in one moment of a machine that others use too. Whole processes were seen to be a third slower for that."""
LONG_SECONDS = 15.0
"""After so long the last of the repetitions is left out: those who are slow would be half of all the time, and what
takes seconds is an average of many moments already."""
LEAST = 3
"""Repetitions, however slow and late, the first of which does not count: of one figure nobody sees how far it is from
the next."""
FIRST = 0.25
"""So much of a scenario is its first repetition, which does not count: what it is to warm is warm by then."""


def measured(bench: Bench, scenario: Scenario, repetitions: int) -> Iterator[list[Sample]]:
    """The samples of each time that the scenario is measured: ``repetitions`` times, the first of which is shorter,
    more often where these are soon over, and once less where they take long, or where the whole is late. Those of the
    last one know what all of it left behind.

    Raises Missing where the system has no such thing.
    """
    dead = DeadRows(bench)
    last: list[Sample] = []
    full = bench.sizes
    with scenario(bench) as once:
        done, began, waited = 0, time.perf_counter(), bench.waited
        while _goes_on(done, repetitions, time.perf_counter() - began, bench.waited - waited, is_late=bench.is_late):
            bench.sizes = full if done or repetitions == 1 else first(full)
            if last:
                yield last
            last = list(once())
            dead.left_by(last)
            done += 1
    dead.tell(last)
    yield last


class DeadRows:
    """Row versions that all repetitions of a scenario have left behind, for each operation."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._before = rows_left_dead(bench.stage, bench.database)
        self._operations = 0

    def left_by(self, samples: Sequence[Sample]) -> None:
        """Figures that share their cost are of the same operations."""
        self._operations += sum({id(one.cost): one.operations for one in samples if one.cost}.values())

    def tell(self, samples: Sequence[Sample]) -> None:
        """Once no worker is left: sessions tell of it when they end, or seconds later."""
        left = rows_left_dead(self._bench.stage, self._bench.database) - self._before
        for one in samples:
            if one.cost:
                one.cost["dead_rows"] = round(left / max(1, self._operations), 4)


def _goes_on(done: int, repetitions: int, seconds: float, waited: float, *, is_late: bool = False) -> bool:
    """``waited`` of the ``seconds`` were for a quiet machine: who has company is not slow."""
    if repetitions <= 3:
        # Who asks for one or two tries something out, and gets these.
        return done < repetitions
    if is_late:
        repetitions -= 1
    if done < max(LEAST, repetitions - 1):
        return True
    if done < repetitions:
        return seconds - waited < LONG_SECONDS
    return not is_late and done <= MOST and seconds < ENOUGH_SECONDS


def first(full: Sizes) -> Sizes:
    # Runs of as many steps: only that of one run can be shorter.
    return replace(full.part(FIRST), steps=full.steps)
