"""What people ask of a schedule: when it fires, that it fires now or for the past, stops, goes on, or is no more."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Protocol, cast
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.db.models.lookups import In

from ..conf import durable_settings
from ..core.ids import uuid7
from ..core.journal.journal import NewRun
from ..core.journal.states import Status
from ..core.kinds.sleeps import seconds_of
from ..core.payloads.failures import in_one_line
from ..core.registry import find
from ..exceptions import DurableError, UnknownWorkflow
from ..models import Fire, Run, Schedule
from ..models.run import ALIVE
from ..queues.ready import Ready
from ..signals import run_enqueued, schedule_fired
from ..store import by_hand, scheduling
from ..store.auditing import Verb
from ..store.database import Database
from .after_commit import after_commit
from .listing import DUE_GRACE
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


class Upcoming(NamedTuple):
    """Instants (UTC) to come, and before them those that a worker fires as soon as there is one."""

    overdue: list[datetime]
    following: list[datetime]


def upcoming(schedule: Schedule, n: int, now: datetime) -> Upcoming:
    """``n`` instants in all, as a worker that looked at ``now`` would plan them: of those that were missed only what
    ``catch_up`` makes up for. Raises InvalidSchedule.
    """
    due = schedule.next_fire_at
    if due is None or due > now:
        return Upcoming([], next_fires(schedule, n))
    plan = scheduling.make_plan(schedule, due, now, grace=missed_after(), limit=n)
    room = n - len(plan.instants)
    later = scheduling.cron_of(schedule).next(room - 1, after=plan.next) if room else []
    return Upcoming(plan.instants, [plan.next, *later][:room])


def missed_after() -> timedelta:
    """So late an instant is missed; before, it is merely late and fires whatever ``catch_up`` says."""
    return timedelta(seconds=2 * durable_settings().REAP_SECONDS)


def late(now: datetime) -> Q:
    """Of enabled schedules those that should have fired more than ``DUE_GRACE`` ago; not those that wait, as they are
    told to, until a run of theirs is over."""
    alias = Database().alias
    fires = Fire.objects.using(alias).filter(schedule=OuterRef(OuterRef("pk")), is_open=True)
    live = Run.objects.using(alias).filter(pk__in=fires.values("run_id"), status__in=ALIVE)
    return Q(next_fire_at__lt=now - timedelta(seconds=DUE_GRACE)) & ~Q(Exists(live), overlap="queue")


JUDGED_BY = 5
"""Runs by which a schedule is judged: the latest."""
FAILURES = frozenset({Status.FAILED, Status.BLOCKED})


def failing() -> Q:
    """Of schedules those of whose latest runs the last one that tells anything failed: one that is not over or was
    cancelled tells nothing. Past the instants since then that were skipped, which an index has in the same order."""
    alias = Database().alias
    fires = Fire.objects.using(alias).filter(schedule=OuterRef(OuterRef("pk")), run_id__isnull=False)
    newest = [Subquery(fires.order_by("-scheduled_for").values("run_id")[n : n + 1]) for n in range(JUDGED_BY)]
    told = Run.objects.using(alias).filter(status__in=[*FAILURES, Status.SUCCEEDED]).values("status")
    return Q(In(Coalesce(*(Subquery(told.filter(pk=run_id)) for run_id in newest)), sorted(FAILURES)))


def needing_somebody(now: datetime) -> QuerySet[Schedule]:
    """The enabled schedules that cannot fire, are ``late`` or are ``failing``."""
    found = Schedule.objects.using(Database().alias).filter(~Q(problem="") | late(now) | failing(), enabled=True)
    return found.order_by("workflow", "name")


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
    savepoint in the caller's, if there is one); what is done when an error comes stays done. Of one window the first
    ``INSTANTS_MOST`` due instants are looked at.

    Raises ValueError for a window or limit that makes no sense, WindowFilled where all of those have their
    runs, InvalidSchedule, UnknownWorkflow, InvalidInput, PayloadUndecodable, ScheduleLocked, and Schedule.DoesNotExist
    where somebody removes it meanwhile.
    """
    _check_window(since, until, limit)
    db, workflow, by = Database(), _workflow_of(schedule), Verb(actor, reason)
    # Before the schedule is locked: in the caller's transaction it stays so to its end, and its ticks wait for it.
    found = _without_run(db, schedule, since, until, limit, INSTANTS_MOST)
    if not found.instants and not found.is_complete:
        raise WindowFilled(since, INSTANTS_MOST)
    run_ids: list[UUID] = []
    for start in range(0, len(found.instants), by_hand.PORTION):
        some = found.instants[start : start + by_hand.PORTION]
        run_ids += _fill(db, workflow, schedule, [(one, scheduled_run(workflow, schedule)) for one in some], by)
    return Backfilled(run_ids, found.is_complete)


INSTANTS_MOST = 100_000
"""Due instants of its window that a backfill looks at."""
LOOKED_AT = 5
"""Portions of them that are looked at to say what it would start: few, where all of them have runs."""
PORTION_MOST = 1_000
"""Of a limit beyond it the instants are asked for in several portions."""


class WindowFilled(DurableError, ValueError):
    """So many due instants at the beginning of a window have their runs that what comes after is not looked for."""

    def __init__(self, since: datetime, looked_at: int) -> None:
        self.since, self.looked_at = since, looked_at
        super().__init__(
            f"The first {looked_at} due instants from {since.isoformat()} on have their runs. Begin the window later."
        )


class Missing(NamedTuple):
    """Instants that have started no run, the oldest first. ``is_complete``: there are no others in the window."""

    instants: list[datetime]
    is_complete: bool


def missing(schedule: Schedule, since: datetime, until: datetime, limit: int = 1_000) -> Missing:
    """What ``backfill`` would start runs for, and whether it could; nothing is started.

    Where a great many instants at the window's beginning have runs, those after them are not looked for. Raises what
    ``backfill`` raises but ScheduleLocked.
    """
    _check_window(since, until, limit)
    scheduled_run(_workflow_of(schedule), schedule)
    return _without_run(Database(), schedule, since, until, limit, _portion(limit) * LOOKED_AT)


def _without_run(db: Database, schedule: Schedule, since: datetime, until: datetime, limit: int, most: int) -> Missing:
    """The first ``limit`` of them that are among the first ``most`` due instants."""
    found: list[datetime] = []
    portion = _portion(limit)
    for number, instants in enumerate(by_hand.without_run(db, schedule, since, until, portion)):
        if number * portion >= most:
            return Missing(found, is_complete=False)
        found += instants
        if len(found) > limit:
            return Missing(found[:limit], is_complete=False)
    return Missing(found, is_complete=True)


def _portion(limit: int) -> int:
    return max(min(limit, PORTION_MOST) + 1, by_hand.PORTION)


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
    by, why = in_one_line(actor), in_one_line(reason)
    logger.info("schedule=%s of %s enabled=%s by=%s: %s", row.name, row.workflow, enabled, by, why)


def create(schedule: Schedule, *, reason: str = "", actor: str = "") -> None:
    """Store a new schedule of the operators', planned from now on; in its audit. What is wrong with it is its
    ``problem``. Raises IntegrityError where its workflow has one of that name."""
    by_hand.create(Database(), schedule, Verb(actor, reason))


def change(schedule: Schedule, changes: Mapping[str, Any], *, reason: str = "", actor: str = "") -> None:
    """Set these columns of a schedule of the operators'; in its audit. With another expression or zone it is planned
    from now on, what was due is not made up for. Raises Schedule.DoesNotExist for one that belongs to code,
    ScheduleLocked, IntegrityError where its workflow has another one of that name."""
    by_hand.redefine(Database(), schedule.pk, changes, Verb(actor, reason))


def remove(schedule: Schedule, *, reason: str = "", actor: str = "") -> None:
    """Take a schedule of the operators' away for good, enabled or not; in its audit, with what it was. What is due and
    has not fired does not fire. Runs that it has started stay and go on; which instants they were started for goes with
    the row (``Fire``). Raises Schedule.DoesNotExist for one that belongs to code or is gone already, ScheduleLocked.
    """
    row = by_hand.remove(Database(), schedule.pk, Verb(actor, reason))
    by, why = in_one_line(actor), in_one_line(reason)
    logger.info("schedule=%s of %s removed by=%s: %s", row.name, row.workflow, by, why)


def replan(schedule: Schedule) -> None:
    """Set ``next_fire_at`` and ``problem`` of a row whose definition an operator has changed; does not save it."""
    scheduling.plan_anew(schedule, scheduling.database_now(Database()))
