"""What people ask of a schedule: when it fires, that it fires now or for the past, that it stops or goes on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol, cast
from uuid import UUID

from ..core.ids import uuid7
from ..core.journal.journal import NewRun
from ..core.kinds.sleeps import seconds_of
from ..core.registry import find
from ..exceptions import UnknownWorkflow
from ..models import Fire, Schedule
from ..queues.ready import Ready
from ..signals import run_enqueued, schedule_fired
from ..store import by_hand, scheduling
from ..store.auditing import Verb
from ..store.database import Database
from .after_commit import after_commit
from .pushing import push_after_commit

logger = logging.getLogger("django_durable.client")


class Schedulable(Protocol):
    """A workflow, as much of it as a run by schedule needs."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> Any: ...
    @property
    def options(self) -> Any: ...
    def limit_key(self, text: str) -> str | None: ...


def next_fires(schedule: Schedule, n: int = 5) -> list[datetime]:
    """The next ``n`` instants (UTC) at which the schedule fires, or would if it were enabled; it need not be saved.

    Raises InvalidSchedule.
    """
    cron = scheduling.cron_of(schedule)
    if schedule.next_fire_at is None or n == 0:
        return cron.next(n)
    return [schedule.next_fire_at, *cron.next(n - 1, after=schedule.next_fire_at)]


def fire_now(schedule: Schedule, reason: str = "", actor: str = "") -> UUID:
    """Start a run of the schedule at once, also of a disabled one and beside a live run; the run's id.

    In the caller's transaction; in the audit of both as ``fire``. Raises UnknownWorkflow, InvalidInput,
    PayloadUndecodable, Schedule.DoesNotExist, and ScheduleLocked where another transaction holds the schedule for long.
    """
    db, workflow = Database(), _workflow_of(schedule)
    run = scheduled_run(workflow, schedule)
    with db.transaction():
        instant, ready = by_hand.start_by_hand(db, schedule, run, Verb(actor, reason))
        _tell_after_commit(db, workflow, schedule, [(instant, run)], ready)
    return run.id


class Backfilled(NamedTuple):
    """What a backfill has started, the oldest instant first. ``is_complete``: it left no instant of its window."""

    run_ids: list[UUID]
    is_complete: bool


def backfill(
    schedule: Schedule, since: datetime, until: datetime, limit: int = 1_000, *, reason: str = "", actor: str = ""
) -> Backfilled:
    """Start a run for each due instant from ``since`` to ``until`` (aware, both included, up to now) that has none.

    At most ``limit`` runs, for the oldest instants; the same call again goes on after them, and starts nothing twice,
    also beside another one. They start at once and side by side: ``overlap``, ``catch_up``, ``jitter`` and ``enabled``
    do not count, and the plan stays. In the audit of all of them as ``backfill``. A hundred runs are one transaction (a
    savepoint in the caller's, if there is one); what is done when an error comes stays done.

    Raises ValueError for a window or limit that makes no sense, InvalidSchedule, UnknownWorkflow, InvalidInput,
    PayloadUndecodable, ScheduleLocked.
    """
    _check_window(since, until, limit)
    db, workflow, by = Database(), _workflow_of(schedule), Verb(actor, reason)
    run_ids: list[UUID] = []
    for instants in by_hand.without_run(db, schedule, since, until):
        room = limit - len(run_ids)
        runs = [(instant, scheduled_run(workflow, schedule)) for instant in instants[:room]]
        run_ids += _fill(db, workflow, schedule, runs, by) if runs else []
        if len(instants) > room:
            return Backfilled(run_ids, is_complete=False)
    return Backfilled(run_ids, is_complete=True)


def _check_window(since: datetime, until: datetime, limit: int) -> None:
    if since.tzinfo is None or until.tzinfo is None:
        raise ValueError("A backfill needs aware datetimes.")
    if since > until:
        raise ValueError(f"The window ends before it begins: {since.isoformat()} is later than {until.isoformat()}.")
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit!r}.")


def _fill(
    db: Database, workflow: Schedulable, schedule: Schedule, runs: Sequence[tuple[datetime, NewRun]], by: Verb
) -> list[UUID]:
    with db.transaction():
        started, ready = by_hand.fill(db, schedule, runs, by)
        _tell_after_commit(db, workflow, schedule, started, ready)
    return [run.id for _, run in started]


def _workflow_of(schedule: Schedule) -> Schedulable:
    workflow = cast("Schedulable | None", find(schedule.workflow))
    if workflow is None:
        raise UnknownWorkflow(schedule.workflow)
    return workflow


def scheduled_for(run_id: UUID) -> datetime | None:
    """The due instant (UTC) for which a schedule has started the run, or when it was fired by hand; else None."""
    fires = Fire.objects.using(Database().alias).filter(run_id=run_id)
    return fires.values_list("scheduled_for", flat=True).first()


def scheduled_run(workflow: Schedulable, schedule: Schedule, instant: datetime | None = None) -> NewRun:
    """The run of one instant, not yet stored; with none it starts at once, beside whatever is live. Raises
    InvalidInput, PayloadUndecodable."""
    text = schedule.input or workflow.signature.write(workflow.name, (), {})
    workflow.signature.read(workflow.name, text)  # the code may have changed since the input was stored
    timeout, debounce = workflow.options.timeout, workflow.options.debounce
    delay = scheduling.delay_of(schedule, instant) if instant else 0.0
    if instant and debounce is not None:
        delay += seconds_of(debounce, "debounce")
    return NewRun(
        id=uuid7(),
        workflow=workflow.name,
        input=text,
        queue=workflow.options.queue,
        priority=workflow.options.priority,
        run_after=delay or None,
        deadline_after=None if timeout is None else seconds_of(timeout, "timeout"),
        limit_key=workflow.limit_key(text),
        meeting=workflow.options.meeting,
    )


def _tell_after_commit(
    db: Database,
    workflow: Schedulable,
    schedule: Schedule,
    started: Sequence[tuple[datetime, NewRun]],
    ready: Sequence[Ready],
) -> None:
    push_after_commit(db, ready)
    for instant, run in started:
        after_commit(db, partial(announce, workflow, schedule, instant, run.id))


def announce(workflow: Schedulable, schedule: Schedule, scheduled_for: datetime, run_id: UUID) -> None:
    """Tell the receivers; only after the commit."""
    if run_enqueued.has_listeners(workflow):
        run_enqueued.send_robust(sender=workflow, run_id=run_id)
    if schedule_fired.has_listeners(workflow):
        schedule_fired.send_robust(sender=workflow, schedule=schedule, scheduled_for=scheduled_for, run_id=run_id)


def enable(schedule: Schedule, *, reason: str = "", actor: str = "") -> None:
    """Let it fire from now on; what it would have fired while it was off is not made up for. In its audit.
    Raises ScheduleLocked."""
    _switch(schedule, True, reason, actor)


def disable(schedule: Schedule, *, reason: str = "", actor: str = "") -> None:
    """Let it fire no more. Runs that it has started go on, and a deploy does not turn it on again. In its audit.
    Raises ScheduleLocked."""
    _switch(schedule, False, reason, actor)


def _switch(schedule: Schedule, enabled: bool, reason: str, actor: str) -> None:
    row = by_hand.switch(Database(), schedule.pk, Verb(actor, reason), enabled=enabled)
    schedule.enabled, schedule.next_fire_at, schedule.problem = row.enabled, row.next_fire_at, row.problem
    logger.info("schedule=%s of %s enabled=%s by=%s: %s", row.name, row.workflow, enabled, actor, reason)


def replan(schedule: Schedule) -> None:
    """Set ``next_fire_at`` and ``problem`` of a row whose definition an operator has changed; does not save it."""
    scheduling.plan_anew(schedule, scheduling.database_now(Database()))
