"""Due schedules → runs. No leader: whoever locks a schedule first fires it."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial

from django.db.utils import Error

from ...client.announcing import announce_after_commit
from ...client.redacting import why
from ...client.schedules import announce, missed_after, scheduled_run
from ...conf import durable_settings
from ...core import clock
from ...core.journal.journal import NewRun
from ...core.payloads.failures import in_one_line
from ...core.payloads.surviving import survive
from ...core.registry import limits
from ...exceptions import RunLocked
from ...models import Schedule
from ...queues.base import Queue
from ...signals import run_cancelled
from ...store import recovery, scheduling
from ...store.database import Database
from ...store.limiting import hint
from ...store.scheduling import Due, Fired
from .synchronise import Synchronise, kept_connection

logger = logging.getLogger("django_durable.worker")

BATCH = 200
INSTANTS = 50
"""Of one schedule in one transaction; more are fired by the next tick, which comes at once."""
LONGEST_REST, HELD_REST, SHORTEST_REST = 5.0, 1.0, 0.02


class Fire:
    """Looks at the table every few seconds, and between two looks only when what it saw comes due.

    So a minute without a due schedule costs a dozen small statements, and one with seconds still fires in time.
    """

    def __init__(self, queue: Queue, synchronise: Synchronise) -> None:
        # Django's own connection of this thread: a cancelled predecessor is written with the ORM, in our transaction.
        self._db = Database()
        self._queue = queue
        self._code = synchronise
        self._next_look = 0.0
        self._resting: dict[int, float] = {}
        """Schedules that somebody holds, or whose run: until when the others are not kept waiting for them."""

    @property
    def interval(self) -> float:
        """Until the next look, but a second at most: the clock may be moved, or the row be changed, meanwhile."""
        return min(1.0, max(SHORTEST_REST, self._next_look - clock.monotonic()))

    def tick(self) -> int:
        if clock.monotonic() < self._next_look:
            return 0
        with kept_connection(self._db):
            return self._look_and_fire()

    def _look_and_fire(self) -> int:
        horizon = min(durable_settings().REAP_SECONDS, LONGEST_REST)
        seen = scheduling.look(self._db, list(self._code.known()), self._code.ids, horizon=horizon, limit=BATCH)
        began = clock.monotonic()
        self._resting = {schedule_id: until for schedule_id, until in self._resting.items() if until > began}
        fired = sum(self._fire_alone(one) for one in seen if one.due_in <= 0 and not self._rests(one))
        # What has fired has a next instant that only another look can tell.
        self._next_look = 0.0 if fired else began + min([horizon, *map(self._rest, seen)])
        return fired

    def _fire_alone(self, one: Due) -> bool:
        try:
            has_fired = self.fire(one.schedule_id)
        except (Error, RunLocked) as error:
            if not self._db.connection.is_usable():
                raise
            # This row's statement only (a lock that was not to be had, say): it stays due.
            logger.warning("the database refused schedule %s, trying again: %s", one.schedule_id, error)
            has_fired = False
        if not has_fired:
            self._resting[one.schedule_id] = clock.monotonic() + HELD_REST
        return has_fired

    def _rests(self, one: Due) -> bool:
        return one.held or one.schedule_id in self._resting

    def _rest(self, one: Due) -> float:
        return HELD_REST if self._rests(one) else one.due_in

    def fire(self, schedule_id: int) -> bool:
        """Fire what is due of one schedule. False: somebody else does, or has done it."""
        grace = missed_after().total_seconds()
        fired = scheduling.fire(self._db, schedule_id, self._make_run, grace=grace, limit=INSTANTS)
        if fired is not None:
            log_fired(fired)
            self._tell(fired)
        return fired is not None

    def _make_run(self, schedule: Schedule, instant: datetime) -> NewRun:
        return scheduled_run(self._code.known()[schedule.workflow], schedule, instant)

    def _tell(self, fired: Fired) -> None:
        """It is committed: whoever cannot be told of it neither undoes it nor keeps the others from hearing."""
        workflow = self._code.known()[fired.schedule.workflow]
        for tell in (
            partial(hint, self._db, self._queue, fired.ready, limits()),
            partial(self._wake_parents, fired),
            partial(announce_after_commit, self._db, run_cancelled, fired.ended),
            *(partial(announce, workflow, fired.schedule, instant, run.id) for instant, run in fired.started),
        ):
            try:
                tell()
            except BaseException as error:
                # A refill or a sweep finds what the queue and parents have not heard of.
                survive(error, logger, "schedule %s fired, and could not tell of it", fired.schedule.pk)

    def _wake_parents(self, fired: Fired) -> None:
        self._queue.push(recovery.wake_parents(self._db, [(run.parent_id, run.parent_path) for run in fired.ended]))


def log_fired(fired: Fired) -> None:
    """One line for each instant, and for what stopped a schedule."""
    name, workflow = in_one_line(fired.schedule.name), in_one_line(fired.schedule.workflow)
    for instant, run in fired.started:
        logger.info("fired schedule=%s for=%s run=%s workflow=%s", name, instant, run.id, workflow)
    for instant, reason in fired.skipped:
        logger.info("%s schedule=%s for=%s workflow=%s", reason, name, instant, workflow)
    if fired.problem:
        # The words may be those of a concurrency_key, about the input.
        logger.error("schedule=%s of %s stopped%s", name, workflow, why(fired.problem))
