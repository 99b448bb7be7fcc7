"""Tasks that follow a commit, in threads of their own: nothing of them is on the committer's path."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from uuid import UUID

from django.db import close_old_connections, connections
from django.db.utils import Error

from ..queues.base import Queue
from ..queues.ready import Ready
from ..store import recovery
from ..store.database import PrivateDatabase

logger = logging.getLogger("django_durable.worker")

Task = Callable[[], object]


class Background:
    """Runs tasks in order in one thread; one that fails never stops the others."""

    def __init__(self, name: str) -> None:
        self._tasks: queue.Queue[Task | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish what is there, then end."""
        self._tasks.put(None)
        self._thread.join(timeout=10)

    @property
    def is_idle(self) -> bool:
        """Whether every task that was given has been done."""
        return self._tasks.unfinished_tasks == 0

    def do(self, task: Task) -> None:
        self._tasks.put(task)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._perform(task)
            self._tasks.task_done()
        self._finish()

    def _perform(self, task: Task) -> None:
        try:
            task()
        except Exception:
            logger.exception("what follows a commit failed")

    def _finish(self) -> None:
        """The last act of the thread."""


class Notifier(Background):
    """Tells the queue and waiting parents. What gets lost with the process, the sweep makes up for.

    A parent whose row somebody holds (an open web transaction) is left to ``patient``, a thread that may wait: the
    queue and the other parents hear of what happened at once.
    """

    def __init__(self, db: PrivateDatabase, ready: Queue, patient: Notifier | None = None) -> None:
        super().__init__("durable-notifier" if patient else "durable-patient-notifier")
        self._db = db
        self._ready = ready
        self._patient = patient

    def begin(self) -> None:
        super().begin()
        if self._patient is not None:
            self._patient.begin()

    def stop(self) -> None:
        super().stop()
        if self._patient is not None:
            self._patient.stop()

    @property
    def is_idle(self) -> bool:
        return super().is_idle and (self._patient is None or self._patient.is_idle)

    def push(self, ready: list[Ready]) -> None:
        self.do(lambda: self._ready.push(ready))

    def wake(self, run_id: UUID) -> None:
        self.do(lambda: self._wake(run_id))

    def _wake(self, run_id: UUID) -> None:
        if self._patient is None:
            self._ready.push(recovery.wake(self._db, run_id))
        elif (ready := recovery.try_wake(self._db, run_id)) is not None:
            self._ready.push(ready)
        else:
            self._patient.wake(run_id)

    def _perform(self, task: Task) -> None:
        try:
            task()
        except Error as error:
            logger.warning("could not tell of what happened, the sweep will: %s", error)
            self._db.close()
        except Exception:
            logger.exception("telling of what happened failed")

    def _finish(self) -> None:
        self._db.close()


class Announcer(Background):
    """Runs the receivers of Django's signals. They may be slow and use the ORM: hence a thread of their own."""

    def __init__(self) -> None:
        super().__init__("durable-announcer")

    def _perform(self, task: Task) -> None:
        # As Django does between requests: a receiver must not meet a connection that a restart has broken.
        close_old_connections()
        super()._perform(task)
        close_old_connections()

    def _finish(self) -> None:
        connections.close_all()
