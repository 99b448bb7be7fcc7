"""What is told after a commit, off the committer's path: the queue, waiting parents, Django's signals."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from uuid import UUID

from django.db.utils import Error

from ..queues.base import Queue
from ..queues.ready import Ready
from ..store import recovery
from ..store.database import PrivateDatabase

logger = logging.getLogger("django_durable.worker")

Task = Callable[[], object]


class Notifier:
    """Runs tasks in order in its own thread. What gets lost with the process, the sweep makes up for."""

    def __init__(self, db: PrivateDatabase, ready: Queue) -> None:
        self._db = db
        self._ready = ready
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="durable-notifier", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish what is there, then end."""
        self._tasks.put(None)
        self._thread.join(timeout=10)
        self._db.close()

    def push(self, ready: list[Ready]) -> None:
        self.do(lambda: self._ready.push(ready))

    def wake(self, run_id: UUID) -> None:
        self.do(lambda: self._ready.push(recovery.wake(self._db, run_id)))

    def do(self, task: Task) -> None:
        self._tasks.put(task)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Error as error:
                logger.warning("could not tell of what happened, the sweep will: %s", error)
                self._db.close()
            except Exception:
                logger.exception("telling of what happened failed")
