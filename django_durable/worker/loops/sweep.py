"""Wakes that were never sent, because whoever should have sent them died first."""

from __future__ import annotations

from ...conf import durable_settings
from ...queues.base import Queue
from ...store import recovery
from ...store.database import Database

BATCH = 1000


class Sweep:
    def __init__(self, db: Database, queue: Queue) -> None:
        self._db = db
        self._queue = queue

    @property
    def interval(self) -> float:
        # Only what died makes work here, and it is seldom: half as often as the reaper.
        return 2 * durable_settings().REAP_SECONDS

    def tick(self) -> int:
        ready = recovery.sweep(self._db, BATCH)
        self._queue.push(ready)
        return len(ready)
