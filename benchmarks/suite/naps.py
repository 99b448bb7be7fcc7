"""S7 beside others: five thousand real runs asleep, and a thousand more of which a hundred come due each second.

So few that everybody has them asleep within half a minute, and comes up with what is due. All of them are started as
the system starts runs, begun by its workers, and asleep by its own means; they tell the harness by ``notes``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import psutil

from benchmarks.systems.copies import DAY
from benchmarks.systems.notes import NAPPING, WOKEN, Notes

from .bench import Bench
from .meter import Meter
from .sample import Once, Sample
from .sleepers import MEGABYTE, late, resident, wait
from .workers import Workers

ASLEEP, DUE, EACH_SECOND = 5_000, 1_000, 100
BEGINS_AFTER, LONGER = 10.0, 3.0
"""Those that come due are all asleep before the first of them is due: after so many seconds, and so many times what as
many took before."""
LOT = 50
"""So many of those that come due are started at a time: who counts its sleep from when its turn has come to write it
down would be late by as long as it waited for that."""
LOOK_SECONDS = 0.05
EARLY_MS = -2.0
"""A sleep may be rounded to whole milliseconds."""


@contextmanager
def naps(bench: Bench) -> Iterator[Once]:
    """Figures of two worker processes: memory of theirs beyond that when they were idle, and how late the code after
    the sleep is reached."""

    def once() -> Iterator[Sample]:
        folder = Path(bench.environment["BENCH_FOLDER"])
        # Processes of their own each time: one that has worked keeps the memory, and would seem to need none.
        with (
            bench.workers(2) as started,
            closing(Notes(NAPPING, folder)) as napping,
            closing(Notes(WOKEN, folder)) as woken,
        ):
            napping.clear()
            woken.clear()
            yield from _measured(bench, started, napping, woken)

    yield once


def _measured(bench: Bench, started: Workers, napping: Notes, woken: Notes) -> Iterator[Sample]:
    idle, asleep, due = _resident(bench, started), bench.part_of(ASLEEP), bench.part_of(DUE)
    began = time.monotonic()
    bench.client.ask("nap", until=time.time() + DAY, apart=0, count=asleep)
    wait(partial(_are_there, napping, asleep), f"not all of {asleep} runs were asleep", LOOK_SECONDS)
    each = (time.monotonic() - began) / asleep
    noise = bench.wait_until_quiet(are_up=True)
    yield Sample("S7_beside_asleep_mb", _resident(bench, started) - idle, {}, noise)
    until = time.time() + BEGINS_AFTER + LONGER * each * due
    for first in range(0, due, LOT):
        count = min(LOT, due - first)
        bench.client.ask("nap", until=until + first / EACH_SECOND, apart=1 / EACH_SECOND, count=count)
        begun = asleep + first + count
        wait(partial(_are_there, napping, begun), f"not all of {due} runs were asleep", LOOK_SECONDS)
    if time.time() > until:
        raise RuntimeError("the first came due before all were asleep")
    meter, most = Meter(bench.stage, bench.client.pid, started), 0.0

    def are_woken() -> bool:
        nonlocal most
        most = max(most, _resident(bench, started) - idle)
        return len(dict(woken.read())) >= due

    wait(are_woken, f"not all of {due} sleepers were woken", LOOK_SECONDS)
    cost = meter.cost(due)
    started.check()
    # Of who noted twice, since it was run again, the last time.
    lags = sorted(1000 * seconds for seconds in dict(woken.read()).values())
    if lags[0] < EARLY_MS:
        raise RuntimeError(f"a sleep ended {-lags[0]:.0f} ms early")
    yield from late("S7_beside", lags, cost, noise)
    yield Sample("S7_beside_more_mb", most, cost, noise, due)


def _are_there(noted: Notes, count: int) -> bool:
    return noted.count() >= count


def _resident(bench: Bench, started: Workers) -> float:
    """Megabytes of the workers, and of a server that the client has started for them (Restate's)."""
    everyone = [*started.all(), *psutil.Process(bench.client.pid).children(recursive=True)]
    return sum(resident(everyone).values()) / MEGABYTE
