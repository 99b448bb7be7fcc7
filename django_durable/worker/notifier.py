"""Who has to know that runs are ready or over: the queue, and parents that wait."""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from uuid import UUID

from django.db.utils import Error

from ..exceptions import RunLocked
from ..queues.base import Queue
from ..queues.ready import Ready
from ..store import recovery, unwanted
from ..store.database import PrivateDatabase
from .background import Background, Task

logger = logging.getLogger("django_durable.worker")


class Notifier:
    """Tells them after the commit. What gets lost with the process, the sweep makes up for.

    A parent whose row somebody holds (an open web transaction) is left to a second thread, which may wait: the queue
    and the other parents hear of what happened at once.
    """

    def __init__(self, db: PrivateDatabase, patient_db: PrivateDatabase, ready: Queue) -> None:
        self._db = db
        self._patient_db = patient_db
        self._ready = ready
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
        self.do(partial(self._ready.push, ready))

    def wake(self, run_id: UUID) -> None:
        self.do(partial(self._try_wake, run_id))

    def cancel(self, parent_id: UUID, paths: Collection[str]) -> None:
        """Cancel the children that the run waited for at ``paths``: may wait for their rows."""
        self._patient.do(lambda: self._ready.push(unwanted.cancel_unwanted(self._patient_db, parent_id, paths)))

    def _try_wake(self, run_id: UUID) -> None:
        if (ready := recovery.try_wake(self._db, run_id)) is not None:
            self._ready.push(ready)
        else:
            self._patient.do(partial(self._wake, run_id))

    def _wake(self, run_id: UUID) -> None:
        self._ready.push(recovery.wake(self._patient_db, run_id))


class _Telling(Background):
    """One thread of the notifier, with its own connection."""

    def __init__(self, name: str, db: PrivateDatabase) -> None:
        super().__init__(name)
        self._db = db

    def _perform(self, task: Task) -> None:
        try:
            task()
        except (Error, RunLocked) as error:
            logger.warning("could not tell of what happened, the sweep will: %s", error)
            self._db.close()
        except Exception:
            logger.exception("telling of what happened failed")

    def _finish(self) -> None:
        self._db.close()
