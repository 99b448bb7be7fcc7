"""Due → queued."""

from __future__ import annotations

from ...conf import durable_settings
from ...queues.base import Queue
from ...store import recovery
from ...store.database import Database

BATCH = 1000


class Promote:
    """With the database queue a claim takes what is due by itself; lists of ids have to be told."""

    def __init__(self, db: Database, queue: Queue) -> None:
        self._db = db
        self._queue = queue

    @property
    def interval(self) -> float:
        return min(1.0, durable_settings().POLL_SECONDS)

    def tick(self) -> int:
        ready = recovery.promote(self._db, BATCH)
        self._queue.push(ready)
        return len(ready)
