"""What this process did, counted in memory and added to the table with each heartbeat."""

from __future__ import annotations

import logging
import re
import threading
from datetime import datetime
from math import inf

from django.db.utils import Error

from ..core import clock
from ..core.histogram import bucket_of
from ..core.journal.outcomes import Failed, Outcome
from ..core.journal.states import TERMINAL, Status
from ..core.names import NAME_MAX
from ..store.claiming import Claim
from ..store.database import PrivateDatabase
from ..store.tallying import STARTED, Key, add, detail_of

logger = logging.getLogger("django_durable.worker")

STEPS_MOST = 20
"""Names of failing steps that a process tells of a workflow in ten minutes; others are counted without their name."""
OTHERS = ""
KEPT_MOST = 10_000
"""Counts that are kept where the database does not take them; then the oldest are given up."""
KEYS = re.compile(r"\[[^\]]*\]")


class Tallies:
    """Statistics, and no more: a process that is killed takes with it what it counted since its last heartbeat, and
    one that cannot tell whether its counts were added adds them again.

    Counted is what workers see: first claims, and ends that they commit. A run that ends while nobody works on it,
    since it is cancelled before its start or while it waits, is in no count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Key, int] = {}
        self._steps: dict[tuple[str, str], set[str]] = {}
        """By workflow and queue the steps that are told by name in these ten minutes."""
        self._ten_minutes = datetime.min
        self._minute = datetime.min
        self._minute_ends = -inf
        """When this minute is over, in monotonic seconds."""

    def started(self, claim: Claim) -> None:
        """Take note of a claim that is about to be worked on: the first one of a run is its start."""
        if claim.claims == 1:
            now = clock.monotonic()
            with self._lock:
                if now >= self._minute_ends:
                    self._begin_minute(now, claim)
                self._count((self._minute, claim.workflow, claim.queue, STARTED, None, None))

    def ended(self, claim: Claim, status: str, outcome: Outcome | None) -> None:
        """Take note that the work under ``claim`` has ended with this ``status`` of its run: perhaps the last one."""
        if status not in TERMINAL:
            return
        now = clock.monotonic()
        # How long something took that was cut short says nothing of the others.
        bucket = None if status == Status.CANCELLED else bucket_of(now - claim.started)
        with self._lock:
            if now >= self._minute_ends:
                self._begin_minute(now, claim)
            self._count((self._minute, claim.workflow, claim.queue, status, bucket, None))
            if isinstance(outcome, Failed) and status == Status.FAILED and (step := failing_step(outcome)):
                told = self._told_as(claim, step)
                self._count((self._minute, claim.workflow, claim.queue, status, None, told))

    def flush(self, db: PrivateDatabase) -> None:
        """Add what has been counted to the table, if anything has; what it refuses is kept for the next time."""
        with self._lock:
            counts, self._counts = self._counts, {}
        if not counts:
            return
        try:
            add(db, counts)
        except Exception as error:
            # Whatever it is: statistics never hurt a worker.
            logger.warning(
                "could not add to the statistics, trying again: %s", error, exc_info=not isinstance(error, Error)
            )
            db.close()
            self._keep(counts)

    def _keep(self, counts: dict[Key, int]) -> None:
        with self._lock:
            for one, count in self._counts.items():
                counts[one] = counts.get(one, 0) + count
            for one in list(counts)[: max(0, len(counts) - KEPT_MOST)]:
                del counts[one]
            self._counts = counts

    def _count(self, one: Key) -> None:
        self._counts[one] = self._counts.get(one, 0) + 1

    def _begin_minute(self, now: float, claim: Claim) -> None:
        """The minute is that of the database's clock, of which every claim knows."""
        moment = claim.journal.now()
        minute = moment.replace(second=0, microsecond=0)
        if detail_of(minute) != self._ten_minutes:
            self._ten_minutes, self._steps = detail_of(minute), {}
        self._minute, self._minute_ends = minute, now + 60.0 - (moment - minute).total_seconds()

    def _told_as(self, claim: Claim, step: str) -> str:
        names = self._steps.setdefault((claim.workflow, claim.queue), set())
        if step not in names and len(names) >= STEPS_MOST:
            return OTHERS
        names.add(step)
        return step


def failing_step(outcome: Failed) -> str | None:
    """The path of the step (child, wait, …) that the run failed with, the innermost. Without the keys: one call that
    fails for a thousand customers is one step. None: its own code raised."""
    culprits = outcome.error.get("culprits") or [outcome.error.get("step")]
    if not isinstance(culprits[0], str):
        return None
    path = KEYS.sub("", culprits[0])
    return path if len(path) <= NAME_MAX else f"…{path[1 - NAME_MAX :]}"
