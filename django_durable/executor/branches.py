"""Where the branches of ``def`` workflows run: a bounded pool of threads that all runs of the process share."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from django.db import connections


class Branches(Protocol):
    """``submit`` says whether a thread was free. Where none is, the run's own thread runs the branch itself."""

    def submit(self, work: Callable[[], None]) -> bool: ...


class NoThreads:
    """Every branch runs in the run's own thread, one after the other: for tests of users."""

    def submit(self, work: Callable[[], None]) -> bool:
        return False


NO_THREADS = NoThreads()


class BranchThreads:
    """At most ``limit`` threads, started when they are first needed."""

    def __init__(self, limit: int) -> None:
        self._free = threading.Semaphore(limit)
        self._executor = ThreadPoolExecutor(limit, thread_name_prefix="durable-branch")

    def submit(self, work: Callable[[], None]) -> bool:
        if not self._free.acquire(blocking=False):
            return False
        # What the run's code has set (its run, a time zone, a language) holds in its branches too.
        self._executor.submit(contextvars.copy_context().run, self._run, work)
        return True

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            # The next branch in this thread may be of another run, hours from now.
            connections.close_all()
            self._free.release()

    def close(self) -> None:
        self._executor.shutdown(wait=True)
