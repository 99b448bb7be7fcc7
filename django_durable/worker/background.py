"""A thread for what follows a commit, so that nothing of it is on the committer's path."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from ..core import clock
from ..core.payloads.surviving import survive

logger = logging.getLogger("django_durable.worker")

Task = Callable[[], object]
END_SECONDS = 1.0


class Background:
    """Runs tasks in order in one thread; one that fails never stops the others."""

    def __init__(self, name: str) -> None:
        self._tasks: queue.Queue[Task | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def do(self, task: Task) -> None:
        self._tasks.put(task)

    @property
    def is_idle(self) -> bool:
        """Whether every task that was given has been done."""
        return self._tasks.unfinished_tasks == 0

    def flush(self, ends: float) -> int:
        """Wait until every task is done, until ``ends`` (monotonic seconds) at the latest; how many are not."""
        with self._tasks.all_tasks_done:
            self._tasks.all_tasks_done.wait_for(lambda: self.is_idle, max(0.0, ends - clock.monotonic()))
            return self._tasks.unfinished_tasks

    def stop(self) -> None:
        """End the thread after the tasks that it has; one that goes on working is left to the end of the process."""
        self._tasks.put(None)
        self._thread.join(timeout=END_SECONDS)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                self._perform(task)
            except BaseException as error:
                survive(error, logger, "what follows a commit failed")
            self._tasks.task_done()
        self._finish()
        self._tasks.task_done()

    def _perform(self, task: Task) -> None:
        """In the thread; may raise."""
        task()

    def _finish(self) -> None:
        """The last act of the thread."""
