"""Runs with a limit that has room, for the lists."""

from __future__ import annotations

from collections.abc import Sequence

from ...conf import durable_settings
from ...core.registry import limits
from ...queues.base import Queue
from ...store.database import Database
from ...store.limiting import KeyWalk, admit
from .refill import LOW_WATER, WINDOW


class Admit:
    """Pushes an id for each free slot, keys in turn. It is told at once of new runs and of slots that become free: this
    is for what got lost, and for a limit that was raised.

    Nothing is reserved: an id that finds its limit full is dropped, and one whose claim never comes holds up nobody.
    """

    def __init__(self, db: Database, queue: Queue, queues: Sequence[str]) -> None:
        self._db = db
        self._queue = queue
        self._queues = queues
        self._keys = KeyWalk()

    @property
    def interval(self) -> float:
        return durable_settings().REAP_SECONDS

    def tick(self) -> int:
        known = limits()
        if not known or not self._queue.gives_hints:
            return 0
        if keys := self._keys.next(self._db):
            low = {name for name in self._queues if self._queue.length(name) < LOW_WATER}
            ready = admit(self._db, keys, known, WINDOW)
            # A long list is no place for them: they would be pushed again before anybody came to them.
            self._queue.push([run for run in ready if run.queue in low])
        return 0
