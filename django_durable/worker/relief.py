"""A second commit beside the one that is under way, where commits take long.

Who waits for a disk, or for a database that is far away, leaves the processors idle: what has gathered meanwhile is
sent on a connection of its own, and PostgreSQL flushes both at once. Where commits are quick there is nothing to gain:
with 200 coroutines on two cores, PostgreSQL beside them, two commits at a time were 0.93 times as fast as one, and with
a ``commit_delay`` of 3 ms 1.19 times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf

from ..store.database import PrivateDatabase

SLOW_SECONDS = 0.004
"""A commit that takes so long waits for most of it: a full batch took 2.3 ms there, and 5.2 with that delay."""
WEIGHT = 0.25
"""Of the last commit, in the average."""


class Relief:
    """Calls ``relieve`` in a thread of its own where a full batch waits beside a slow commit. That commits on ``db``,
    which has no connection before, and sets ``is_under_way`` back.

    Each call needs the committer's mutex, but for the last.
    """

    def __init__(self, db: PrivateDatabase, relieve: Callable[[], None]) -> None:
        self.db = db
        self.is_under_way = False
        self._relieve = relieve
        # Where one connection writes at a time a second one waits for the first.
        self._slow = inf if db.dialect.has_one_writer else SLOW_SECONDS
        self._seconds = 0.0
        """How long commits take: an average in which the last ones weigh most."""
        self._may_be_asked = False
        self._calls = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._is_closing = False

    def note(self, seconds: float) -> None:
        """A commit took so long."""
        self._seconds += WEIGHT * (seconds - self._seconds)

    def begins(self) -> None:
        """The leader begins another commit."""
        self._may_be_asked = True

    def ask(self) -> None:
        """A full batch waits beside the leader's commit. Once for each of these: it may turn out to be further writes
        of the runs that are in there."""
        if self._seconds < self._slow or self.is_under_way or not self._may_be_asked:
            return
        self._may_be_asked, self.is_under_way = False, True
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="durable-relief", daemon=True)
            self._thread.start()
        self._calls.release()

    def close(self) -> None:
        if self._thread is not None:
            self._is_closing = True
            self._calls.release()
            self._thread.join(timeout=5)
        self.db.close()

    def _serve(self) -> None:
        while True:
            self._calls.acquire()
            if self._is_closing:
                return
            self._relieve()
