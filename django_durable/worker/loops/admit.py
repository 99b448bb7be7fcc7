"""Runs with a limit that has room, for the lists."""

from __future__ import annotations

from collections.abc import Sequence

from ...conf import durable_settings
from ...core.registry import limits
from ...queues.base import Queue
from ...store.database import Database
from ...store.limiting import KeyWalk, admit, seconds_to_opening
from .refill import LOW_WATER, WINDOW

IDLE_REST, LONGEST_REST, SHORTEST_REST = 2.5, 1.0, 0.1
"""Where there are rates: whoever starts a run under a full one tells nobody when it opens. ``IDLE_REST`` where nothing
with a limit was queued: a second would make most of what an idle worker asks of the database."""


class Admit:
    """Pushes an id for each free slot, keys in turn. It is told at once of new runs and of slots that become free: this
    is for what got lost, for a limit that was raised, and for rates, which open by themselves.

    Nothing is reserved: an id that finds its limit full is dropped, and one whose claim never comes holds up nobody.
    """

    def __init__(self, db: Database, queue: Queue, queues: Sequence[str]) -> None:
        self._db = db
        self._queue = queue
        self._queues = queues
        self._keys = KeyWalk()
        self._opens_in: float | None = None
        self._is_idle = False

    @property
    def interval(self) -> float:
        rest = durable_settings().REAP_SECONDS
        if all(bounds.rate is None for bounds in limits().values()):
            return rest
        if self._is_idle:
            return min(rest, IDLE_REST)
        opening = LONGEST_REST if self._opens_in is None else max(self._opens_in, SHORTEST_REST)
        return min(rest, LONGEST_REST, opening)

    def tick(self) -> int:
        known = limits()
        if not known or not self._queue.gives_hints:
            return 0
        if keys := self._keys.next(self._db):
            low = {name for name in self._queues if self._queue.length(name) < LOW_WATER}
            ready = admit(self._db, keys, known, WINDOW, ends=self._keys.ends)
            # A long list is no place for them: they would be pushed again before anybody came to them.
            self._queue.push([run for run in ready if run.queue in low])
        self._is_idle = not keys
        self._opens_in = seconds_to_opening(self._db, keys, known)
        return 0
