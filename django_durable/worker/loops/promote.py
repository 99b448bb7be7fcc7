"""Due → queued."""

from __future__ import annotations

from ...conf import durable_settings
from ...queues.base import Queue
from ...store import recovery
from ...store.database import Database

BATCH = 1000


class Promote:
    """For runs that come due while every slot is taken: a claim with room takes what is due by itself."""

    def __init__(self, db: Database, queue: Queue) -> None:
        self._db = db
        self._queue = queue

    @property
    def interval(self) -> float:
        return durable_settings().REAP_SECONDS

    def tick(self) -> int:
        ready = recovery.promote(self._db, BATCH)
        self._queue.push(ready)
        return len(ready)
