"""What a measurement costs besides time: CPU of each party, write transactions, WAL, dead rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import psutil
import redis

from .stage import Stage
from .workers import Workers


@dataclass(frozen=True)
class Reading:
    cpu: dict[str, float]
    write_transactions: int
    wal_bytes: int


class Meter:
    """Two readings, and what lies between them, for each of so many operations."""

    def __init__(self, stage: Stage, client_pid: int, workers: Workers | None = None) -> None:
        self._stage = stage
        self._groups = {"client": [psutil.Process(client_pid)], "workers": workers.all() if workers else []}
        self._groups["postgres"] = [psutil.Process(_postmaster(stage))]
        self._groups["redis"] = [psutil.Process(_redis(stage))]
        self._begun = self._read()

    def cost(self, operations: int) -> dict[str, float]:
        """For each operation: CPU of each party in microseconds (``cpu_us_workers``), the rest in numbers.

        No share of a core: the wait for the first of them is part of the time here, but not of what a rate is made of.
        """
        now, begun = self._read(), self._begun
        found = {f"cpu_us_{party}": 1e6 * (now.cpu[party] - begun.cpu[party]) / operations for party in now.cpu}
        found["write_transactions"] = (now.write_transactions - begun.write_transactions) / operations
        found["wal_bytes"] = (now.wal_bytes - begun.wal_bytes) / operations
        return {name: round(value, 4) for name, value in found.items()}

    def _read(self) -> Reading:
        cpu = {party: sum(map(_cpu, _with_children(group))) for party, group in self._groups.items()}
        with self._stage.connect() as connection:
            row = connection.execute(
                "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,"
                " pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
            ).fetchone()
        assert row is not None
        transactions, wal = row
        return Reading(cpu, int(str(transactions)), int(str(wal)))


def rows_left_dead(stage: Stage, database: str) -> int:
    """Row versions that updates and deletes have left behind so far, vacuumed or not.

    Sessions report when they end, or a second later: read it once the workers are gone.
    """
    with stage.connect(database) as connection:
        row = connection.execute(
            "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables"
        ).fetchone()
    assert row is not None
    return int(str(row[0]))


def _with_children(group: Iterable[psutil.Process]) -> set[psutil.Process]:
    found: set[psutil.Process] = set()
    for process in group:
        found.add(process)
        try:
            found.update(process.children(recursive=True))
        except psutil.NoSuchProcess:
            continue
    return found


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    # Of children, only those that have ended and been waited for: the others are counted by themselves.
    return float(times.user + times.system + times.children_user + times.children_system)


def _postmaster(stage: Stage) -> int:
    return int((stage.postgres.data / "postmaster.pid").read_text().split()[0])


def _redis(stage: Stage) -> int:
    with redis.Redis.from_url(stage.redis.url) as connection:
        return int(connection.info("server")["process_id"])
