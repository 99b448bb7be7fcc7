"""Children that nobody waits for any more, and whose parent's process died before it cancelled them."""

from __future__ import annotations

from django.db import close_old_connections

from ...conf import durable_settings
from ...queues.base import Queue
from ...store import unwanted
from ...store.database import Database

BATCH = 1000


class Unwanted:
    def __init__(self, db: Database, queue: Queue) -> None:
        self._db = db
        self._queue = queue

    @property
    def interval(self) -> float:
        # A process has to die within the milliseconds between two commits, and nothing but work in vain is lost.
        return 12 * durable_settings().REAP_SECONDS

    def tick(self) -> int:
        found = unwanted.find_unwanted(self._db, BATCH)
        if not found:
            return 0
        # The verbs of the outside stand on Django's own connection, and the last error may have broken that.
        close_old_connections()
        ready = unwanted.cancel_all_unwanted(Database(self._db.alias), found)
        self._queue.push(ready)
        return len(ready)
