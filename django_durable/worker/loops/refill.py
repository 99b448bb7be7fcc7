"""Ids that are missing in Redis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...conf import durable_settings
from ...queues.base import Queue
from ...store.database import Database
from ...store.holding import NOTHING, Held
from ...store.workers import first_startable

WINDOW = 1000
LOW_WATER = 100


class Refill:
    """The list is a window on the database: when it runs low, the best startable runs are pushed again.

    An id that is in the list twice is harmless: the second claim finds nothing to do.
    """

    def __init__(
        self, db: Database, queue: Queue, queues: Sequence[str], held: Callable[[], Held] = lambda: NOTHING
    ) -> None:
        self._db = db
        self._queue = queue
        self._queues = queues
        self._held = held

    @property
    def interval(self) -> float:
        return durable_settings().REAP_SECONDS

    def tick(self) -> int:
        if not self._queue.gives_hints:
            return 0
        held = self._held()
        for name in self._queues:
            if name not in held.queues and self._queue.length(name) < LOW_WATER:
                # What nobody may claim would be all that the window shows.
                self._queue.push(first_startable(self._db, name, WINDOW, without=held.workflows))
        return 0
