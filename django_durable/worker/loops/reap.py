"""Lost lease → queued, for another worker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from ...conf import durable_settings
from ...core import clock
from ...core.journal.states import Status
from ...queues.base import Queue
from ...store import recovery
from ...store.database import Database
from ...store.recovery import Taken
from ..announcing import maintained

logger = logging.getLogger("django_durable.worker")

BATCH = 1000


class Reap:
    """Takes lapsed leases away, and tells the supervisor how many runs are now suspected of killing their process.

    On SQLite a live holder may have waited for the one write lock: there a lease is taken only if it was seen
    lapsed, under the same token, at least a heartbeat ago.
    """

    def __init__(self, db: Database, queue: Queue, tell: Callable[[int], None] = lambda count: None) -> None:
        self._db = db
        self._queue = queue
        self._tell = tell
        self._seen: dict[UUID, UUID] = {}
        self._seen_at = 0.0

    @property
    def interval(self) -> float:
        return durable_settings().REAP_SECONDS

    def tick(self) -> int:
        if self._db.dialect.has_one_writer:
            return self._tick_twice()
        return self._reap(None)

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
