"""What people ask of a schedule: when it fires, that it fires now, that it stops or goes on."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol, cast
from uuid import UUID

from django.db import transaction

from ..core import clock
from ..core.cron import fires_between, next_fire
from ..core.ids import uuid7
from ..core.journal import NewRun
from ..core.registry import find
from ..core.sleeps import seconds_of
from ..exceptions import UnknownWorkflow
from ..models import Schedule
from ..signals import run_enqueued, schedule_fired
from ..store import scheduling
from ..store.auditing import Verb
from ..store.database import Database
from .pushing import push_after_commit

logger = logging.getLogger("django_durable.client")

_END = datetime.max.replace(tzinfo=UTC)


class Schedulable(Protocol):
    """A workflow, as much of it as a run by schedule needs."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> Any: ...
    @property
    def options(self) -> Any: ...


def next_fires(schedule: Schedule, n: int = 5) -> list[datetime]:
    """The next ``n`` instants (UTC) at which the schedule fires, or would if it were enabled; it need not be saved.

    Raises InvalidSchedule.
    """
    cron = scheduling.cron_of(schedule)
    first = schedule.next_fire_at or next_fire(cron.expression, cron.timezone, clock.utcnow())
    return [first, *fires_between(cron.expression, cron.timezone, first, _END, n - 1)][:n]


def fire_now(schedule: Schedule, reason: str = "", actor: str = "") -> UUID:
    """Start a run of the schedule at once, also of a disabled one and beside a live run; the run's id.

    In the caller's transaction; in the run's audit as ``fire``. Raises UnknownWorkflow, InvalidInput,
    PayloadUndecodable.
    """
    db = Database()
    workflow = cast("Schedulable | None", find(schedule.workflow))
    if workflow is None:
        raise UnknownWorkflow(schedule.workflow)
    run = scheduled_run(workflow, schedule)
    with db.transaction():
        instant, ready = scheduling.start_by_hand(db, schedule, run, Verb(actor, reason))
        push_after_commit(db, ready)
        transaction.on_commit(partial(announce, workflow, schedule, instant, run.id), using=db.alias, robust=True)
    return run.id


def scheduled_run(workflow: Schedulable, schedule: Schedule, instant: datetime | None = None) -> NewRun:
    """The run of one instant, not yet stored; with none there is no jitter. Raises InvalidInput, PayloadUndecodable."""
    text = schedule.input or workflow.signature.write(workflow.name, (), {})
    workflow.signature.read(workflow.name, text)  # the code may have changed since the input was stored
    timeout = workflow.options.timeout
    return NewRun(
        id=uuid7(),
        workflow=workflow.name,
        input=text,
        queue=workflow.options.queue,
        priority=workflow.options.priority,
        run_after=scheduling.delay_of(schedule, instant) or None if instant else None,
        deadline_after=None if timeout is None else seconds_of(timeout, "timeout"),
    )


def announce(workflow: Schedulable, schedule: Schedule, scheduled_for: datetime, run_id: UUID) -> None:
    """Tell the receivers; only after the commit."""
    if run_enqueued.has_listeners(workflow):
        run_enqueued.send_robust(sender=workflow, run_id=run_id)
    if schedule_fired.has_listeners(workflow):
        schedule_fired.send_robust(sender=workflow, schedule=schedule, scheduled_for=scheduled_for, run_id=run_id)


def enable(schedule: Schedule, *, reason: str = "", actor: str = "") -> None:
    """Let it fire from now on; what it would have fired while it was off is not made up for."""
    _switch(schedule, True, reason, actor)


def disable(schedule: Schedule, *, reason: str = "", actor: str = "") -> None:
    """Let it fire no more. Runs that it has started go on, and a deploy does not turn it on again."""
    _switch(schedule, False, reason, actor)


def _switch(schedule: Schedule, enabled: bool, reason: str, actor: str) -> None:
    row = scheduling.switch(Database(), schedule.pk, enabled=enabled)
    schedule.enabled, schedule.next_fire_at, schedule.problem = row.enabled, row.next_fire_at, row.problem
    logger.info("schedule=%s of %s enabled=%s by=%s: %s", row.name, row.workflow, enabled, actor, reason)


def replan(schedule: Schedule) -> None:
    """Set ``next_fire_at`` and ``problem`` of a row whose definition an operator has changed; does not save it."""
    scheduling.plan_anew(schedule, scheduling.database_now(Database()))
