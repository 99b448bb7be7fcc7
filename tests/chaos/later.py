"""Calls that are due at some instant, and are made again until they are settled."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from itertools import count


class Later:
    """Any number of threads may `work`; they return once it is closed and everything is settled."""

    def __init__(self, again: float) -> None:
        self._again = again
        self._due: list[tuple[float, int, Callable[[], bool]]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._under_way = 0
        self._is_closed = False

    def add(self, delay: float, call: Callable[[], bool]) -> None:
        """Make the call in so many seconds. It says whether it is settled; if not, it is made again."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + delay, next(self._numbers), call))
            self._changed.notify()

    def close(self) -> None:
        """Nothing comes from outside any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def work(self) -> None:
        while (call := self._next()) is not None:
            if not call():
                self.add(self._again, call)
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def _next(self) -> Callable[[], bool] | None:
        with self._changed:
            while not (self._is_closed and not self._due and not self._under_way):
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is not None and wait <= 0:
                    self._under_way += 1
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait)
            return None
