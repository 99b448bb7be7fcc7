"""The only place that asks the machine for the time.

Time that decides correctness is the database's. A worker knows it through ``DatabaseClock``: what the
database last said, plus the monotonic time since that answer arrived.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

_offset = timedelta(0)
_offset_seconds = 0.0


def offset() -> timedelta:
    """How far tests have moved the clock; zero in production."""
    return _offset


def offset_seconds() -> float:
    return _offset_seconds


def set_offset(value: timedelta) -> None:
    global _offset, _offset_seconds
    _offset, _offset_seconds = value, value.total_seconds()


def utcnow() -> datetime:
    """The machine's time, aware, UTC. Never for what decides correctness across processes."""
    return datetime.now(UTC) + _offset


def monotonic() -> float:
    """Seconds that only grow, moved along with the tests' clock."""
    return time.monotonic() + _offset_seconds


class DatabaseClock:
    """The database's time as this process knows it.

    The answer of the database was true before it arrived, so ``now()`` lags behind the database by the
    network's latency and never runs ahead of it: nothing that it calls due is early.
    """

    def __init__(self) -> None:
        self._observed = datetime.now(UTC)
        self._at = time.monotonic()

    def observe(self, now: datetime) -> None:
        """Take note of the time that the database has just told."""
        self._at = time.monotonic()
        self._observed = now - _offset

    def now(self) -> datetime:
        return self._observed + timedelta(seconds=time.monotonic() - self._at) + _offset
