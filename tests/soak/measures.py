"""What is read of a soak, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """Sizes are bytes, times and the age of a heartbeat are seconds; that of a snapshot is transactions."""

    RSS = "rss"
    PSS = "pss"
    FDS = "file descriptors"
    THREADS = "threads"
    CONNECTIONS = "connections"
    SNAPSHOT = "oldest snapshot"
    HEARTBEAT = "oldest heartbeat"
    LIVE_ROWS = "live rows"
    DEAD_ROWS = "dead rows"
    VACUUMS = "vacuums"
    TABLE = "table size"
    INDEXES = "index size"
    REDIS = "memory"
    LISTED = "listed ids"
    LIVE_RUNS = "live"
    FAILED = "failed"
    FINISHED = "finished a second"
    P50 = "latency p50"
    P99 = "latency p99"


class Measure(NamedTuple):
    """``of`` a process, all of them, a table, PostgreSQL, Redis, all runs."""

    kind: Kind
    of: str

    def __str__(self) -> str:
        return f"{self.of}: {self.kind}"


Values = dict[Measure, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """All that was read at one moment: seconds since the load began."""

    at: float
    values: Mapping[Measure, float]
