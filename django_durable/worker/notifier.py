"""Who has to know that runs are ready or over: the queue, and parents that wait."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from uuid import UUID

from django.db.utils import Error

from ..core.journal.fan_out import map_of
from ..core.registry import limits
from ..exceptions import RunLocked
from ..queues.base import Queue
from ..queues.ready import Ready
from ..store import recovery, unwanted
from ..store.database import Database, PrivateDatabase
from ..store.limiting import admit, hint
from .background import Background, Task

logger = logging.getLogger("django_durable.worker")

RELEASED = 10
"""Of a key with room workers hear of so many runs at each release: more than one, since a hint may have got lost."""


class Notifier:
    """Tells them after the commit. What gets lost with the process, the sweep makes up for.

    A parent whose row somebody holds (an open web transaction) is left to a second thread, which may wait: the queue
    and the other parents hear of what happened at once.
    """

    def __init__(self, db: PrivateDatabase, patient_db: PrivateDatabase, ready: Queue) -> None:
        self._db = db
        self._patient_db = patient_db
        self._ready = ready
        self._asked: set[tuple[UUID, str]] = set()
        """Parents, and where their children were started, that are still to be looked at."""
        self._prompt = _Telling("durable-notifier", db)
        self._patient = _Telling("durable-patient-notifier", patient_db)

    def begin(self) -> None:
        self._prompt.begin()
        self._patient.begin()

    def flush(self, ends: float) -> int:
        """Wait until everybody was told, until ``ends`` (monotonic seconds) at the latest; how much is left to tell."""
        # In this order: what the first leaves undone it hands to the second.
        return self._prompt.flush(ends) + self._patient.flush(ends)

    def stop(self) -> None:
        """Finish what is there, then end."""
        self._prompt.stop()
        self._patient.stop()

    @property
    def is_idle(self) -> bool:
        """Whether everybody has been told."""
        return self._prompt.is_idle and self._patient.is_idle

    def do(self, task: Task) -> None:
        """Run ``task`` in its turn; it may fail where the database is away."""
        self._prompt.do(task)

    def push(self, ready: list[Ready]) -> None:
        self.do(lambda: hint(self._db, self._ready, ready, limits()))

    def release(self, limit_key: str) -> None:
        """A run under this limit is leased no more: the next one may start."""
        self.do(lambda: self._ready.push(admit(self._db, [limit_key], limits(), RELEASED)))

    def wake_parent(self, parent_id: UUID, path: str) -> None:
        """Wake the parent of a child at ``path`` that is over, if that has fulfilled its wait."""
        # One look will do for all the items of a map that have ended before it begins: a fan-out brings thousands.
        asked = (parent_id, map_of(path) or path)
        if asked not in self._asked:
            self._asked.add(asked)
            self.do(partial(self._try_wake, asked, path))

    def cancel(self, parent_id: UUID, paths: Collection[str]) -> None:
        """Cancel the children that the run waited for at ``paths``: may wait for their rows."""
        self._patient.do(partial(self._cancel, parent_id, list(paths)))

    def _try_wake(self, asked: tuple[UUID, str], path: str) -> None:
        # First: whoever ends from here on may not be seen, and asks anew.
        self._asked.discard(asked)
        parent_id = asked[0]
        if (ready := recovery.try_wake_parent(self._db, parent_id, path)) is not None:
            self._ready.push(ready)
        else:
            self._patient.do(partial(self._wake, parent_id))

    def _wake(self, run_id: UUID) -> None:
        self._ready.push(recovery.wake(self._patient_db, run_id))

    def _cancel(self, parent_id: UUID, paths: list[str]) -> None:
        db = Database()
        try:
            self._ready.push(unwanted.cancel_unwanted(db, parent_id, paths))
        finally:
            # This is rare: the thread keeps no connection of Django's for it.
            db.connection.close()


class _Telling(Background):
    """One thread of the notifier, with its own connection."""

    def __init__(self, name: str, db: PrivateDatabase) -> None:
        super().__init__(name)
        self._db = db

    def _perform(self, task: Task) -> None:
        try:
            super()._perform(task)
        except (Error, RunLocked) as error:
            logger.warning("could not tell of what happened, the sweep will: %s", error)
            self._db.close()

    def _finish(self) -> None:
        self._db.close()
