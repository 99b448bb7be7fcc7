"""S7: a hundred thousand runs asleep, while a thousand come due each second.

They are copies of runs that a worker has parked in ``ctx.sleep``: who wakes one loads its journal and replays it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import psycopg

from .meter import Meter
from .scenarios import TIMEOUT, Bench, Once, Sample
from .workers import Workers

ASLEEP = 100_000
DUE = 30_000
EACH_SECOND = 1_000
IDLE_SECONDS = 10.0
BEGINS_AFTER = 15.0
"""Seconds, so that they are all there before the first comes due: workers look every five at what is asleep."""
LOOK_SECONDS = 0.25
MEGABYTE = 2**20


@contextmanager
def sleepers(bench: Bench) -> Iterator[Once]:
    """Figures of two worker processes: memory that each has beyond that of an idle one, transactions of an idle
    second, and how late a run is claimed."""

    def once() -> Iterator[Sample]:
        # Processes of their own each time: one that has worked keeps the memory, and would seem to need none.
        with bench.workers(2) as started:
            yield from _measured(bench, started)

    yield once


def _measured(bench: Bench, started: Workers) -> Iterator[Sample]:
    idle = resident(started)
    due = bench.part_of(DUE)
    bench.client.ask("sleep_many", count=bench.part_of(ASLEEP))
    noise = bench.wait_until_quiet()
    yield Sample("S7_idle_transactions", _transactions_a_second(bench), {}, noise)
    yield Sample("S7_asleep_more_mb", most_more(idle, resident(started)), {}, noise)
    bench.client.ask("wake_later", count=due, each_second=EACH_SECOND, seconds=bench.seconds_of(BEGINS_AFTER))
    meter, more = Meter(bench.stage, bench.client.pid, started), 0.0
    ends = time.monotonic() + TIMEOUT
    while not bench.client.ask("have_woken").result:
        if time.monotonic() > ends:
            raise TimeoutError(f"not all of {due} sleepers were woken in {TIMEOUT:.0f} s")
        more = max(more, most_more(idle, resident(started)))
        time.sleep(LOOK_SECONDS)
    cost = meter.cost(due)
    started.check()
    lags = bench.client.ask("lags").result
    assert len(lags) == due, (len(lags), due)
    yield Sample("S7_lag_p50_ms", lags[due // 2], cost, noise, due)
    yield Sample("S7_lag_p99_ms", lags[min(due - 1, int(0.99 * due))], cost, noise, due)
    yield Sample("S7_rss_more_mb", more, cost, noise, due)


def resident(started: Workers) -> dict[int, int]:
    """Bytes of each process."""
    found = {}
    for process in started.all():
        try:
            found[process.pid] = process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found


def most_more(idle: dict[int, int], now: dict[int, int]) -> float:
    """By how many megabytes that process has grown that has grown most."""
    return max(now[pid] - idle[pid] for pid in idle.keys() & now.keys()) / MEGABYTE


def _transactions_a_second(bench: Bench) -> float:
    """Of the workers, since the client is silent and autovacuum, whose transactions count as well, is off meanwhile.
    Only ``pg_stat_statements`` counts statements, which not every PostgreSQL has."""
    with bench.stage.connect() as connection, _without_autovacuum(connection):
        counts = []
        for pause in (bench.seconds_of(IDLE_SECONDS), 0.0):
            row = connection.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s", [bench.database]
            ).fetchone()
            assert row is not None
            counts.append((int(str(row[0])), time.monotonic()))
            time.sleep(pause)
    (before, began), (after, ended) = counts
    return (after - before) / (ended - began)


@contextmanager
def _without_autovacuum(connection: psycopg.Connection[tuple[object, ...]]) -> Iterator[None]:
    connection.execute("ALTER SYSTEM SET autovacuum = off")
    connection.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        connection.execute("ALTER SYSTEM RESET autovacuum")
        connection.execute("SELECT pg_reload_conf()")
