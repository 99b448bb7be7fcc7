"""A second commit beside the one that is under way, where commits take long.

Who waits for a disk, or for a database that is far away, leaves the processors idle: what has gathered meanwhile is
sent on a connection of its own, and PostgreSQL flushes both at once. Where commits are quick there is nothing to gain:
with 200 coroutines on two cores, PostgreSQL beside them, two commits at a time were 0.93 times as fast as one, and with
a ``commit_delay`` of 3 ms 1.19 times.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from math import inf

from ..core import clock
from ..store.database import PrivateDatabase

logger = logging.getLogger("django_durable.worker")

SLOW_SECONDS = 0.004
"""A commit that takes so long waits for most of it: a full batch took 2.3 ms there, and 5.2 with that delay."""
WEIGHT, MOST_SECONDS = 0.25, 0.05
"""Of the last commit in the average, and what it may bring into it: one that hung says nothing of the next ones."""
LATE_SECONDS = 0.1
"""So long those that are no full batch wait for the relief before somebody leads them beside it."""
REST_SECONDS = 60.0
"""How long there is no relief after its connection has failed: the leader's may be well."""


class Relief:
    """Calls ``relieve`` in a thread of its own where a full batch waits beside a slow commit. That commits on ``db``,
    which has no connection before, and says when it begins a commit and when it is through.

    All but ``close`` needs the committer's mutex.
    """

    def __init__(self, db: PrivateDatabase, relieve: Callable[[], None]) -> None:
        self.db = db
        self.is_under_way = False
        self.late_at = inf
        """From when on nobody waits for it any more, in monotonic seconds; infinity where it is not under way."""
        self._relieve = relieve
        # Where one connection writes at a time a second one waits for the first.
        self._slow = inf if db.dialect.has_one_writer else SLOW_SECONDS
        self._seconds = 0.0
        """How long commits take: an average in which the last ones weigh most."""
        self._rests_until = -inf
        self._may_be_asked = self._may_ask = False
        self._calls = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._is_closing = False

    @property
    def is_slow(self) -> bool:
        """Whether commits take long."""
        return self._seconds >= self._slow

    def note(self, seconds: float) -> None:
        """A commit of the leader's took so long."""
        self._seconds += WEIGHT * (min(seconds, MOST_SECONDS) - self._seconds)

    # Each of the two is asked for once for each commit of the other: what looks like a full batch may be many writes of
    # a run that is in there.

    def leader_begins(self) -> None:
        """The leader begins a commit."""
        self._may_be_asked = True

    def ask(self) -> bool:
        """A full batch waits beside the leader's commit. Whether the relief comes for it."""
        if self.is_under_way or not self._may_be_asked or not self.is_slow:
            return False
        self._may_be_asked = False
        if clock.monotonic() < self._rests_until or not self._is_there():
            return False
        self.is_under_way = True
        self.begins()
        self._calls.release()
        return True

    def begins(self) -> None:
        """The relief begins a commit."""
        self._may_ask = True
        self.late_at = clock.monotonic() + LATE_SECONDS

    def may_be_led_beside(self, is_full: bool) -> bool:
        """Whether a leader is to be called although the relief is under way."""
        if is_full and self._may_ask:
            self._may_ask = False
            return True
        return clock.monotonic() >= self.late_at

    def ends(self, *, has_failed: bool) -> None:
        self.is_under_way, self.late_at = False, inf
        if has_failed:
            self._rests_until = clock.monotonic() + REST_SECONDS

    def close(self) -> None:
        if self._thread is not None:
            self._is_closing = True
            self._calls.release()
            self._thread.join(timeout=5)
        self.db.close()

    def _is_there(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="durable-relief", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # Out of threads. Whoever asks has something better to do.
                logger.warning("slow commits are made one at a time: %s", error)
                self._slow = inf
                return False
            self._thread = thread
        return True

    def _serve(self) -> None:
        while True:
            self._calls.acquire()
            if self._is_closing:
                return
            self._relieve()
