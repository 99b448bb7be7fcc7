"""Schedules fire: for each due instant one row and at most one run, in the transaction that moves the schedule on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast
from uuid import UUID

from ..core.journal.journal import NewRun
from ..core.limits import Meeting
from ..core.payloads.failures import short
from ..core.payloads.surviving import is_ctrl_c
from ..core.schedules.cron import CatchUp, Cron, Overlap, fires_between, latest_fire, next_fire
from ..models import Fire, Run, Schedule
from ..queues.ready import Ready
from . import transitions
from .auditing import Verb
from .database import Database, Row
from .locking import TICK_SECONDS
from .meeting import start_or_meet
from .sql import schedules as sql

FIRED, MANUAL, BACKFILLED, DEBOUNCED = "fired", "manual", "backfilled", "debounced"
OVERLAPS, MISSED = "skipped: overlap", "skipped: missed"
RESUMABLE_SECONDS = 86400.0
"""How long a schedule keeps an eye on a run of its own that failed or was cancelled: it may be resumed."""

MakeRun = Callable[[Schedule, datetime], NewRun]


class Due(NamedTuple):
    """A schedule as the look saw it. ``due_in`` seconds, by the database's clock; ``held``: waits for its own run."""

    schedule_id: int
    due_in: float
    held: bool


@dataclass(slots=True)
class Fired:
    """What one tick did for one schedule; what the queue, parents and receivers must hear after the commit."""

    schedule: Schedule
    started: list[tuple[datetime, NewRun]] = field(default_factory=list)
    skipped: list[tuple[datetime, str]] = field(default_factory=list)
    ready: list[Ready] = field(default_factory=list)
    ended: list[Run] = field(default_factory=list)
    problem: str = ""


def database_now(db: Database) -> datetime:
    return _instant(db, db.rows(sql.now(db.dialect))[0][0])


def _instant(db: Database, value: object) -> datetime:
    return cast(datetime, db.dialect.read_instant(value))


def look(db: Database, workflows: Sequence[str], declared: Sequence[int], *, horizon: float, limit: int) -> list[Due]:
    """The schedules of these workflows that are due within ``horizon`` seconds, one statement."""
    d = db.dialect
    rows = db.rows(
        sql.look(d), workflows=d.list(workflows), declared=d.list(declared), horizon=float(horizon), limit=limit
    )
    return [_due(db, row) for row in rows]


def _due(db: Database, row: Row) -> Due:
    schedule_id, next_at, now, is_held = row
    due_in = 0.0 if next_at is None else (_instant(db, next_at) - _instant(db, now)).total_seconds()
    return Due(schedule_id, due_in, bool(is_held))


# --- one schedule ----------------------------------------------------------------------------


def fire(db: Database, schedule_id: int, make_run: MakeRun, *, grace: float, limit: int) -> Fired | None:
    """Fire the instants of one schedule that are due, at most ``limit``. None: somebody else does, or has done it.
    Raises RunLocked where a run that it is to cancel is held.

    ``grace``: how many seconds late is not missed. ``make_run`` may raise: then this schedule stops with what it
    said as its ``problem``, and the others go on.
    """
    with db.read_committed():
        taken = db.rows(sql.take(db.dialect), id=schedule_id)
        if not taken:
            return None
        due, now = db.dialect.read_instant(taken[0][0]), _instant(db, taken[0][1])
        schedule = Schedule.objects.using(db.alias).get(pk=schedule_id)
        try:
            plan = make_plan(schedule, due, now, grace=timedelta(seconds=grace), limit=limit)
            runs = [(instant, make_run(schedule, instant)) for instant in plan.instants]
            if due is None:
                make_run(schedule, plan.next)  # only to learn of a problem when the row is new, not when it is due
        except BaseException as error:  # nothing is written yet: it is this row's problem
            # A SystemExit of a project's function too: the other schedules would never come to their turn.
            if is_ctrl_c(error):
                raise
            return _stop(db, schedule, error)
        return _Firing(db, schedule, plan).carry_out(runs)


def _stop(db: Database, schedule: Schedule, error: BaseException) -> Fired:
    problem = problem_of(error)
    Schedule.objects.using(db.alias).filter(pk=schedule.pk).update(problem=problem, next_fire_at=None)
    return Fired(schedule, problem=problem)


def problem_of(error: BaseException) -> str:
    """What a person should read in ``problem``. Raises nothing: an error without a text stops one schedule."""
    return storable(short(error, 2000), 2000)


def storable(text: str, length: int) -> str:
    """``text`` as any database takes it: messages quote what was typed, and that may hold NULs or lone surrogates."""
    return text.encode(errors="backslashreplace").decode().replace("\x00", "\\0")[:length]


class Plan(NamedTuple):
    """``instants`` fire now, ``next`` comes later, ``missed`` is the first one that nothing is made up for."""

    instants: list[datetime]
    next: datetime
    missed: datetime | None = None


def cron_of(schedule: Schedule) -> Cron:
    """The row as a Cron, which checks it. Raises InvalidSchedule."""
    return Cron(
        schedule.expression,
        schedule.timezone,
        name=schedule.name,
        overlap=cast(Overlap, schedule.overlap),
        catch_up=cast(CatchUp, schedule.catch_up),
        jitter=schedule.jitter,
    )


def make_plan(schedule: Schedule, due: datetime | None, now: datetime, *, grace: timedelta, limit: int) -> Plan:
    """Which instants a schedule fires at ``now``. Raises InvalidSchedule.

    Everything is computed from the *stored* instant ``due``, never from now: a clock that drifts or an early tick
    cannot fire one twice. What is no later than ``grace`` was not missed, it is merely late.
    """
    cron = cron_of(schedule)
    rule = cron.expression, cron.timezone
    if due is None:
        return Plan([], next_fire(*rule, now))
    missed = None
    if cron.catch_up == "all" or due > now - grace:
        instants = [due, *fires_between(*rule, due, now, limit - 1)]
    elif cron.catch_up == "none":
        instants, missed = fires_between(*rule, now - grace, now, limit), due
    else:
        latest = latest_fire(*rule, due, now)
        instants, missed = [latest or due], latest and due
    return Plan(instants, next_fire(*rule, instants[-1] if instants else now), missed)


def plan_anew(row: Schedule, now: datetime) -> None:
    """Set ``next_fire_at`` and ``problem`` of a row that was made or changed; does not save it."""
    row.next_fire_at, row.problem = None, ""
    if row.enabled:
        try:
            row.next_fire_at = make_plan(row, None, now, grace=timedelta(0), limit=1).next
        except BaseException as error:  # as in fire(): this row's problem alone
            if is_ctrl_c(error):
                raise
            row.problem = problem_of(error)


def delay_of(schedule: Schedule, instant: datetime) -> float:
    """Seconds of jitter, the same for one instant whoever fires it."""
    text = f"{schedule.workflow}\n{schedule.name}\n{instant.timestamp()}"
    part = int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48
    return part * schedule.jitter


class _Firing:
    """The writes of one firing, under the schedule's lock."""

    def __init__(self, db: Database, schedule: Schedule, plan: Plan) -> None:
        self._db, self._schedule, self._plan = db, schedule, plan
        self._fired = Fired(schedule)

    def carry_out(self, runs: Sequence[tuple[datetime, NewRun]]) -> Fired:
        last, following = self._schedule.last_scheduled_for, self._plan.next
        self._db.rows(sql.settle(self._db.dialect), id=self._schedule.pk, seconds=RESUMABLE_SECONDS)
        if self._plan.missed is not None:
            self._skip(self._plan.missed, MISSED)
        for instant, run in runs:
            if not self._fire(instant, run):
                following = instant
                break
            last = instant
        Schedule.objects.using(self._db.alias).filter(pk=self._schedule.pk).update(
            next_fire_at=following, last_scheduled_for=last, problem=""
        )
        return self._fired

    def _fire(self, instant: datetime, run: NewRun) -> bool:
        """False: the instant has to wait until the schedule's live run has ended."""
        overlap = self._schedule.overlap
        live = [] if overlap == "allow" else self._live()
        if live and overlap == "queue":
            return False
        if live and overlap == "skip":
            self._skip(instant, OVERLAPS)
            return True
        if insert_fire(self._db, self._schedule.pk, instant, FIRED, run.id):
            self._cancel([run_id for run_id, asked_at in live if asked_at is None])
            self._start(instant, run)
        return True

    def _start(self, instant: datetime, run: NewRun) -> None:
        done = start_or_meet(self._db, [run], patience=TICK_SECONDS)
        self._take_cancelled(done.cancelled)
        self._fired.ready += done.ready
        if done.new:
            self._fired.started.append((instant, run))
        elif run.meeting == Meeting.DEBOUNCE:
            self._settle_for(instant, DEBOUNCED, run_id=done.run_ids[0])
        else:
            self._settle_for(instant, OVERLAPS, run_id=None, is_open=False)

    def _settle_for(self, instant: datetime, outcome: str, **columns: Any) -> None:
        """The run of this instant never came to be: its workflow has one that stands for it."""
        fire = Fire.objects.using(self._db.alias).filter(schedule_id=self._schedule.pk, scheduled_for=instant)
        fire.update(outcome=outcome, **columns)
        self._fired.skipped.append((instant, outcome))

    def _live(self) -> list[tuple[UUID, object]]:
        rows = self._db.rows(sql.live(self._db.dialect), id=self._schedule.pk)
        return [(self._db.dialect.read_key(run_id), asked_at) for run_id, asked_at in rows]

    def _skip(self, instant: datetime, why: str) -> None:
        if insert_fire(self._db, self._schedule.pk, instant, why):
            self._fired.skipped.append((instant, why))

    def _cancel(self, run_ids: Sequence[UUID]) -> None:
        if not run_ids:
            return
        by = Verb(reason=f"schedule {self._schedule.name!r} fired again")
        # A row that somebody holds undoes this firing: the instant stays due, and the other schedules do not wait.
        self._take_cancelled(transitions.cancel(self._db, run_ids, by, patience=TICK_SECONDS))

    def _take_cancelled(self, done: transitions.Cancelling) -> None:
        self._fired.ready += transitions.as_ready(done.queued)
        self._fired.ended += done.ended


def insert_fire(
    db: Database, schedule_id: int, scheduled_for: datetime, outcome: str, run_id: UUID | None = None
) -> bool:
    """Write the one fire of this instant; False where it has fired before."""
    d = db.dialect
    rows = db.rows(
        sql.insert_fire(d),
        id=schedule_id,
        scheduled_for=d.instant(scheduled_for),
        run_id=d.key(run_id),
        outcome=outcome,
        is_open=run_id is not None,
    )
    return bool(rows)
