"""What PostgreSQL and Redis say of themselves, and what the table of runs says of the load."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from django_durable.conf import durable_settings
from tests.soak.measures import Kind, Measure, Values

PREFIX = "django_durable_"
"""The engine's own tables: what the steps of a soak write elsewhere is nobody's to delete."""

RUNS, WORKERS, POSTGRES, REDIS = "runs", "workers", "postgres", "redis"

TABLES = """
SELECT relname, n_live_tup, n_dead_tup, vacuum_count + autovacuum_count, pg_table_size(relid), pg_indexes_size(relid)
FROM pg_stat_user_tables WHERE starts_with(relname, %s)"""
OF_A_TABLE = (Kind.LIVE_ROWS, Kind.DEAD_ROWS, Kind.VACUUMS, Kind.TABLE, Kind.INDEXES)

CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
# Those in other databases keep no row from a vacuum of this one, and our own sees what we are asking.
SNAPSHOT = """
SELECT coalesce(max(age(backend_xmin)), 0) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> pg_backend_pid()"""
HEARTBEAT = """
SELECT extract(epoch FROM clock_timestamp() - min(heartbeat_at))::float8
FROM django_durable_worker WHERE stopped_at IS NULL"""
LIVE_RUNS = "SELECT count(*) FROM django_durable_run WHERE finished_at IS NULL"
NOW = "SELECT clock_timestamp() - make_interval(secs => %s)"
ENDED = """
WITH span AS (SELECT %s::timestamptz AS since, clock_timestamp() - make_interval(secs => %s) AS until)
SELECT span.until, extract(epoch FROM span.until - span.since)::float8,
    count(r.id) FILTER (WHERE r.parent_id IS NULL), count(r.id) FILTER (WHERE r.status = 'failed'),
    percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM r.finished_at - r.created_at)::float8)
        FILTER (WHERE r.parent_id IS NULL AND r.status = 'succeeded')
FROM span LEFT JOIN django_durable_run r ON r.finished_at > span.since AND r.finished_at <= span.until
GROUP BY span.since, span.until"""

LAG = 2.0
"""Seconds within which whatever says that it was finished by then is committed, and so is seen."""


def read_tables() -> Values:
    """Rows, vacuums and sizes (with TOAST) of each of the engine's tables."""
    return {
        Measure(kind, table.removeprefix(PREFIX)): float(value)
        for table, *values in _rows(TABLES, PREFIX)
        for kind, value in zip(OF_A_TABLE, values, strict=True)
    }


def read_sessions() -> Values:
    """How many there are, and how many transactions the oldest snapshot is behind: what died since then no vacuum takes
    away."""
    return {
        Measure(Kind.CONNECTIONS, POSTGRES): float(_rows(CONNECTIONS)[0][0]),
        Measure(Kind.SNAPSHOT, POSTGRES): float(_rows(SNAPSHOT)[0][0]),
    }


def read_workers() -> Values:
    """For how long the one that was heard of least lately is silent; nothing where there is none."""
    [(silence,)] = _rows(HEARTBEAT)
    return {} if silence is None else {Measure(Kind.HEARTBEAT, WORKERS): silence}


def read_redis(client: Any) -> Values:
    """Its memory, and how many ids of runs are in its lists."""
    lists = client.scan_iter(match=f"{durable_settings().KEY_PREFIX}:*", _type="list")
    return {
        Measure(Kind.REDIS, REDIS): float(client.info("memory")["used_memory"]),
        Measure(Kind.LISTED, REDIS): float(sum(client.llen(name) for name in lists)),
    }


@dataclass(frozen=True, slots=True)
class Ended:
    """Of the runs that ended in so many ``seconds``: how many that nobody's parent is waiting for, how many of all
    failed, and the latency of those first ones that succeeded, from enqueue to end."""

    seconds: float
    runs: int
    failed: int
    latency: tuple[float, float] | None

    @property
    def rate(self) -> float:
        return self.runs / self.seconds


class Endings:
    """Each `read` tells of the time since the one before, every run once."""

    def __init__(self, lag: float = LAG) -> None:
        self._lag = lag
        self._since: datetime = _rows(NOW, lag)[0][0]

    def read(self) -> Ended:
        [(self._since, seconds, runs, failed, latency)] = _rows(ENDED, self._since, self._lag)
        return Ended(seconds, runs, failed, None if latency is None else (latency[0], latency[1]))


def read_runs(endings: Endings) -> Values:
    ended = endings.read()
    values = {
        Measure(Kind.LIVE_RUNS, RUNS): float(_rows(LIVE_RUNS)[0][0]),
        Measure(Kind.FAILED, RUNS): float(ended.failed),
        Measure(Kind.FINISHED, RUNS): ended.rate,
    }
    if ended.latency is not None:
        values |= dict(zip((Measure(Kind.P50, RUNS), Measure(Kind.P99, RUNS)), ended.latency, strict=True))
    return values


def _rows(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return list(cursor.fetchall())
