"""Claim, post to a pool, and know how long to wait."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from uuid import UUID

from django.db.utils import Error

from ..conf import durable_settings
from ..core import clock
from ..core.clock import DatabaseClock
from ..queues.base import Queue
from ..store.claiming import Claim, Claimant, claim_ids, claim_next, claim_suspect, seconds_to_next_due
from ..store.database import PrivateDatabase
from .slots import Slots

logger = logging.getLogger("django_durable.worker")

HELD_SECONDS = 0.02
"""How long after a claim that skipped a held row the id is tried once more; after that the sweep finds the run."""
GATHER_SECONDS = 0.002
"""How long a busy claimer waits for a few slots to come free together: claims are cheaper by the batch."""


class Claimer:
    """Never claims more than there are free slots: what is claimed starts at once."""

    def __init__(
        self,
        db: PrivateDatabase,
        queue: Queue,
        who: Claimant,
        slots: Slots,
        limit: int,
        start: Callable[[Sequence[Claim]], None],
        *,
        is_isolated: bool = False,
        longest_wait: float = 60.0,
    ) -> None:
        self._db = db
        self._queue = queue
        self._who = who
        self._slots = slots
        self._limit = limit
        self._start = start
        self._is_isolated = is_isolated
        self._longest_wait = longest_wait
        self._time = DatabaseClock()
        self._next_look = 0.0
        self._again: list[UUID] = []
        """Hinted ids that were not to be had: most are somebody else's by now, but a row may merely have been held."""
        self._stop = threading.Event()
        self.is_idle = threading.Event()
        """Set when the last look at the database found nothing to claim."""
        self._thread = threading.Thread(target=self._run, name="durable-claimer", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Claim nothing from now on; returns when the last claim has been handed over."""
        self._stop.set()
        self._queue.close()
        self._thread.join(timeout=10)

    def look_again(self) -> None:
        """Look at the database with the next tick; ``is_idle`` is set once nothing was found."""
        self.is_idle.clear()
        self._next_look = 0.0

    def _run(self) -> None:
        pause = 0.1
        while not self._stop.is_set():
            try:
                self.tick()
                pause = 0.1
            except Error as error:
                logger.warning("the database refused a claim, trying again: %s", error)
                self._db.close()
                self._stop.wait(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, 5.0)
            except Exception:
                logger.exception("the claimer stumbled")
                self._stop.wait(1.0)

    def tick(self) -> int:
        """One look for work; how many runs were claimed."""
        free = self._slots.wait_for_room(durable_settings().POLL_SECONDS)
        if free <= 0:
            return 0
        if 0 < free < self._limit // 4:
            free = self._slots.wait_for_room(GATHER_SECONDS, self._limit // 4)
        claims = self._claim_suspect() if self._is_isolated else self._claim(free)
        if claims:
            self.is_idle.clear()
            for claim in claims:
                self._slots.take(claim)
            self._start(claims)
        return len(claims)

    def _claim(self, free: int) -> list[Claim]:
        looks = clock.monotonic() >= self._next_look
        wait = 0.0 if looks else min(max(0.0, self._next_look - clock.monotonic()), self._longest_wait)
        again, self._again = self._again[: free - 1], []
        ids = again + self._queue.pop(self._who.queues, free - len(again), min(wait, HELD_SECONDS) if again else wait)
        if self._stop.is_set():
            return []
        lease = durable_settings().LEASE_SECONDS
        claims = claim_ids(self._db, self._who, ids, lease=lease, time=self._time) if ids else []
        self._again = list(set(ids) - {claim.run_id for claim in claims} - set(again))
        # An id that cannot be claimed may be one that comes due soon: the database knows when.
        looks |= len(claims) < len(ids) or not (ids or self._queue.gives_hints)
        if len(claims) < free and looks:
            claims += self._look(free - len(claims), lease)
        return claims

    def _look(self, room: int, lease: float) -> list[Claim]:
        """Ask the database itself: the only source of the database queue, the sweep for ids that Redis lost."""
        claims = claim_next(self._db, self._who, room, lease=lease, time=self._time)
        if len(claims) < room:
            self._next_look = clock.monotonic() + self._seconds_to_look()
            if not claims:
                self.is_idle.set()
        return claims

    def _seconds_to_look(self) -> float:
        """Until the next look: the poll, or with hints the sweep, or when the next run comes due before that.

        Whoever lets a run wait for less than a sweep says so through the queue; a timer is never longer than one.
        """
        settings = durable_settings()
        if not self._queue.gives_hints:
            return settings.POLL_SECONDS * random.uniform(0.9, 1.1)
        sweep = settings.REAP_SECONDS * random.uniform(0.9, 1.1)
        due = seconds_to_next_due(self._db, self._who)
        return sweep if due is None else min(sweep, max(due, HELD_SECONDS))

    def _claim_suspect(self) -> list[Claim]:
        settings = durable_settings()
        claims = claim_suspect(self._db, self._who, lease=settings.LEASE_SECONDS, time=self._time)
        if not claims:
            self.is_idle.set()
            self._stop.wait(min(settings.POLL_SECONDS, 0.5))
        return claims
