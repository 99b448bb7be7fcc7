"""Where the branches of ``def`` workflows run: a bounded pool of threads that all runs of the process share."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from django.db import connections

T = TypeVar("T")


class Branches(Protocol):
    """``submit`` says whether a thread was free: it does ``work``, which raises nothing, and then gives ``tell`` what
    that returned. Where none is, the run's own thread runs the branch itself."""

    def submit(self, work: Callable[[], T], tell: Callable[[T], None]) -> bool: ...


class NoThreads:
    """Every branch runs in the run's own thread, one after the other: for tests of users."""

    def submit(self, work: Callable[[], T], tell: Callable[[T], None]) -> bool:
        return False


NO_THREADS = NoThreads()


class BranchThreads:
    """At most ``limit`` threads, started when they are first needed."""

    def __init__(self, limit: int) -> None:
        self._free = threading.Semaphore(limit)
        self._executor = ThreadPoolExecutor(limit, thread_name_prefix="durable-branch")

    def submit(self, work: Callable[[], T], tell: Callable[[T], None]) -> bool:
        if not self._free.acquire(blocking=False):
            return False
        # What the run's code has set (its run, a time zone, a language) holds in its branches too.
        self._executor.submit(contextvars.copy_context().run, self._run, work, tell)
        return True

    def _run(self, work: Callable[[], T], tell: Callable[[T], None]) -> None:
        ended = work()
        try:
            # The next branch in this thread may be of another run, hours from now.
            connections.close_all()
        finally:
            # Told last: whoever hears of it finds a thread free for the next branch, and no connection of this one.
            self._free.release()
            tell(ended)

    def close(self) -> None:
        self._executor.shutdown(wait=True)
