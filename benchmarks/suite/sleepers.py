"""S7: a hundred thousand runs asleep, while a thousand come due each second.

They are copies of runs that a worker has parked in ``ctx.sleep``: who wakes one loads its journal and replays it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from .bench import TIMEOUT, Bench
from .meter import Meter
from .sample import Once, Sample
from .workers import Workers

ASLEEP = 100_000
DUE = 30_000
EACH_SECOND = 1_000
IDLE_SECONDS = 10.0
BEGINS_AFTER = 15.0
"""Seconds, so that they are all there before the first comes due: workers look every five at what is asleep."""
LOOK_SECONDS = 0.25
MEGABYTE = 2**20
SAID = {"log_statement": "all", "log_line_prefix": "%d "}
"""Each statement is logged behind the name of its database."""


@contextmanager
def sleepers(bench: Bench) -> Iterator[Once]:
    """Figures of two worker processes: memory that each has beyond that of an idle one, statements of an idle second,
    and how late a run is claimed."""

    def once() -> Iterator[Sample]:
        # Processes of their own each time: one that has worked keeps the memory, and would seem to need none.
        with bench.workers(2) as started:
            yield from _measured(bench, started)

    yield once


def _measured(bench: Bench, started: Workers) -> Iterator[Sample]:
    idle = resident(started.all())
    due = bench.part_of(DUE)
    bench.client.ask("sleep_many", count=bench.part_of(ASLEEP))
    yield _idle_queries(bench)
    noise = bench.wait_until_quiet()
    yield Sample("S7_asleep_more_mb", most_more(idle, resident(started.all())), {}, noise)
    bench.client.ask("wake_later", count=due, each_second=EACH_SECOND, seconds=bench.seconds_of(BEGINS_AFTER))
    meter, more = Meter(bench.stage, bench.client.pid, started), 0.0

    def are_woken() -> bool:
        nonlocal more
        more = max(more, most_more(idle, resident(started.all())))
        return bool(bench.client.ask("have_woken").result)

    wait(are_woken, f"not all of {due} sleepers were woken", LOOK_SECONDS)
    cost = meter.cost(due)
    started.check()
    lags = bench.client.ask("lags").result
    assert len(lags) == due, (len(lags), due)
    yield from late("S7", lags, cost, noise)
    yield Sample("S7_rss_more_mb", more, cost, noise, due)


def late(prefix: str, lags: Sequence[float], cost: dict[str, float], noise: float) -> Iterator[Sample]:
    """``lags``: milliseconds of each that was woken, sorted."""
    due = len(lags)
    yield Sample(f"{prefix}_lag_p50_ms", lags[due // 2], cost, noise, due)
    yield Sample(f"{prefix}_lag_p99_ms", lags[min(due - 1, int(0.99 * due))], cost, noise, due)


def wait(is_so: Callable[[], bool], message: str, pause: float) -> None:
    """Asks every ``pause`` seconds. Raises TimeoutError."""
    ends = time.monotonic() + TIMEOUT
    while not is_so():
        if time.monotonic() > ends:
            raise TimeoutError(f"{message} in {TIMEOUT:.0f} s")
        time.sleep(pause)


def resident(processes: Iterable[psutil.Process]) -> dict[int, int]:
    """Bytes of each."""
    found = {}
    for process in processes:
        try:
            found[process.pid] = process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found


def most_more(idle: dict[int, int], now: dict[int, int]) -> float:
    """By how many megabytes that process has grown that has grown most."""
    return max(now[pid] - idle[pid] for pid in idle.keys() & now.keys()) / MEGABYTE


def _idle_queries(bench: Bench) -> Sample:
    """Of the workers, since the client is silent. PostgreSQL's own counts would come up to ten seconds late."""
    noise = bench.wait_until_quiet()
    log, seconds = bench.stage.postgres.log, bench.seconds_of(IDLE_SECONDS)
    with bench.stage.altered(SAID):
        before = statements(log, bench.database)
        time.sleep(seconds)
        after = statements(log, bench.database)
    return Sample("S7_idle_queries", (after - before) / seconds, {}, noise)


def statements(log: Path, database: str) -> int:
    """How many stand in the server's log as ``SAID`` asks for them: those that a prepared one was executed for too,
    ``BEGIN`` and ``COMMIT`` as well."""
    said = re.compile(rf"^{re.escape(database)} LOG:  (statement|execute)\b", re.MULTILINE)
    return len(said.findall(log.read_text(errors="replace")))
