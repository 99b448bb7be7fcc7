"""Lost lease → queued, for another worker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from uuid import UUID

from django.db.utils import Error

from ...conf import durable_settings
from ...core import clock
from ...core.journal.states import Status
from ...queues.base import Queue
from ...store import recovery
from ...store.database import Database
from ...store.recovery import Taken
from ...store.scheduling import database_now
from ..announcing import maintained
from ..heartbeat import retry_seconds

logger = logging.getLogger("django_durable.worker")

BATCH = 1000
RETRIES = 3
"""So many times as long as heartbeats wait between two tries, nobody is taken for dead after the database was away."""


class Reap:
    """Takes lapsed leases away, and tells the supervisor how many runs are now suspected of killing their process.

    On SQLite a live holder may have waited for the one write lock: there a lease is taken only if it was seen
    lapsed, under the same token, at least a heartbeat ago.

    While the database is away every lease lapses and nobody can beat. Once it is back all who live do so within a
    moment: until then nothing is taken, or the whole fleet's runs would be under suspicion. Not where it was away for
    so short a time that no lease has lapsed by that: what is lost then is most often this session alone.
    """

    def __init__(self, db: Database, queue: Queue, tell: Callable[[int], None] = lambda count: None) -> None:
        self._db = db
        self._queue = queue
        self._tell = tell
        self._seen: dict[UUID, UUID] = {}
        self._seen_at = 0.0
        # Who has just come does not know how long the database was away.
        self._was_away = True
        self._answered_at = -inf
        """When the last look was sent that was answered and before which those who live could renew their leases."""
        self._settled_at = -inf
        """From when on a look is such a one: so long after the last outage, however brief."""
        self._rests_until = -inf

    @property
    def interval(self) -> float:
        rest = self._rests_until - clock.monotonic()
        return rest if rest > 0 else durable_settings().REAP_SECONDS

    def tick(self) -> int:
        try:
            if self._was_away:
                self._rest()
            if (now := clock.monotonic()) < self._rests_until:
                return 0
            done = self._tick_twice() if self._db.dialect.has_one_writer else self._reap(None)
        except Error:
            self._was_away = True
            raise
        if now >= self._settled_at:
            self._answered_at = now
        return done

    def _rest(self) -> None:
        """Raises what the database is away with."""
        database_now(self._db)
        self._was_away, self._seen = False, {}
        until = self._settled_at = clock.monotonic() + RETRIES * retry_seconds()
        settings = durable_settings()
        # So long lasts the lease of who was about to beat then, without what there is for a beat that comes late.
        kept = settings.LEASE_SECONDS - settings.HEARTBEAT_SECONDS - settings.lease_margin
        # SQLite answers looks also while nobody can write, and so nobody beat.
        if self._db.dialect.has_one_writer or until >= self._answered_at + kept:
            self._rests_until = until

    def _tick_twice(self) -> int:
        if self._seen and clock.monotonic() - self._seen_at < durable_settings().HEARTBEAT_SECONDS:
            return 0
        done = self._reap(self._seen) if self._seen else 0
        self._seen = recovery.find_lapsed(self._db, BATCH)
        self._seen_at = clock.monotonic()
        return done

    def _reap(self, seen: dict[UUID, UUID] | None) -> int:
        settings = durable_settings()
        taken = recovery.reap(
            self._db, BATCH, lease=settings.LEASE_SECONDS, max_crashes=settings.MAX_CRASHES, seen=seen
        )
        tell_of_taken(taken)
        self._queue.push(recovery.startable(taken))
        if suspects := sum(run.suspect and run.status == Status.QUEUED for run in taken):
            self._tell(suspects)
        return len(taken)


def tell_of_taken(taken: list[Taken]) -> None:
    """One line for each run that lost its lease, and a signal for each that is blocked or over now."""
    for run in taken:
        if run.status == Status.BLOCKED:
            logger.error("blocked run=%s workflow=%s reason=crashed", run.ready.id, run.workflow)
        else:
            logger.warning("reaped run=%s workflow=%s suspect=%s", run.ready.id, run.workflow, run.suspect)
    maintained((run.ready.id, run.workflow, run.status) for run in taken)
