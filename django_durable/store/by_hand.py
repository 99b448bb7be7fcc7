"""What operators do with a schedule: a fire outside of its plan, the runs of a window that is past, the switch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from ..core.journal.journal import NewRun
from ..core.schedules.cron import fires_between
from ..models import Fire, Schedule
from ..queues.ready import Ready
from .auditing import Verb, audit, audit_schedule, rename
from .database import Database
from .locking_schedules import brief_schedule_lock
from .scheduling import BACKFILLED, MANUAL, cron_of, database_now, insert_fire, plan_anew
from .sql import schedules as sql
from .starting import start_runs

PORTION = 100
"""Instants in one transaction of a backfill: so long does the schedule's lock keep its ticks waiting."""
_BEGINNING = datetime(1, 1, 3, tzinfo=UTC)
_SMALLEST, _MILLISECOND = timedelta(microseconds=1), timedelta(milliseconds=1)


def start_by_hand(db: Database, schedule: Schedule, run: NewRun, by: Verb) -> tuple[datetime, list[Ready]]:
    """Start ``run`` as a fire of this moment, whatever ``overlap`` says; the next regular instant stays. Raises
    Schedule.DoesNotExist, ScheduleLocked."""
    with brief_schedule_lock(db, _only(schedule.pk)) as found:
        _the_one(found)
        now = database_now(db)
        # Regular instants are whole seconds: taking one would pass for its fire. A fraction may be another hand's.
        while now.microsecond == 0 or not insert_fire(db, schedule.pk, now, MANUAL, run.id):
            now += _MILLISECOND
        ready = start_runs(db, [run])
        audit(db, [(run.id, "")], "fire", by)
        audit_schedule(db, schedule, "fire", by.about(f"run {run.id}"))
    return now, ready


def switch(db: Database, schedule_id: int, by: Verb, *, enabled: bool) -> Schedule:
    """Turn a schedule on or off. On: it is planned anew from now, what it missed while it was off is not made up for.

    Raises Schedule.DoesNotExist, ScheduleLocked.
    """
    with brief_schedule_lock(db, _only(schedule_id)) as found:
        row = _the_one(found)
        if _stands_so(row, enabled):
            return row
        audit_schedule(db, row, "enable" if enabled else "disable", by)
        row.enabled = enabled
        plan_anew(row, database_now(db))
        row.save(using=db.alias, update_fields=["enabled", "next_fire_at", "problem"])
    return row


PLANNED_BY = frozenset({"expression", "timezone"})
"""What the next instant is computed from; where none of it is changed, that stays as it is."""


def create(db: Database, row: Schedule, by: Verb) -> None:
    """Plan and store a new row of the operators'. Raises IntegrityError where its workflow has one of that name."""
    with db.transaction():
        plan_anew(row, database_now(db))
        row.save(using=db.alias, force_insert=True)
        told = {"expression": row.expression, "timezone": row.timezone}
        audit_schedule(db, row, "create", by.about(_definition(told)), was_enabled=False)


def redefine(db: Database, schedule_id: int, changes: Mapping[str, Any], by: Verb) -> Schedule:
    """Change columns of a row of the operators' under its lock; the row. One that belongs to code is not found.

    Raises Schedule.DoesNotExist, ScheduleLocked, IntegrityError where its workflow has another one of the new name.
    """
    with brief_schedule_lock(db, _only(schedule_id).filter(app_label="")) as found:
        row = _the_one(found)
        told = {name: value for name, value in changes.items() if getattr(row, name) != value}
        if not told:
            return row
        if "name" in told:
            # Its entries are found by its names.
            rename(db, (row.workflow, row.name), (row.workflow, told["name"]))
        for name, value in told.items():
            setattr(row, name, value)
        if row.problem or told.keys() & PLANNED_BY:
            plan_anew(row, database_now(db))
        row.save(using=db.alias, update_fields=[*told, "next_fire_at", "problem"])
        audit_schedule(db, row, "change", by.about(_definition(told)))
    return row


TOLD_OF_REMOVED = ("expression", "timezone", "overlap", "catch_up", "jitter")
"""What the audit keeps of a row that is gone: all of it but its input, which may be secret."""


def remove(db: Database, schedule_id: int, by: Verb) -> Schedule:
    """Delete a row of the operators', and with it its fires; the row as it was. One that belongs to code is not found.

    Raises Schedule.DoesNotExist, ScheduleLocked.
    """
    # Under its lock: a worker that fires it just now is waited for, and its fire goes too. Its run stays.
    with brief_schedule_lock(db, _only(schedule_id).filter(app_label="")) as found:
        row = _the_one(found)
        was = ", ".join(f"{name} {getattr(row, name)}" for name in TOLD_OF_REMOVED)
        audit_schedule(db, row, "remove", by.about(was))
        _only(schedule_id).using(db.alias).delete()
    return row


def _definition(columns: Mapping[str, Any]) -> str:
    """Names and values for the audit. Of the input only that: it may be secret."""
    return ", ".join(name if name == "input" else f"{name} {value}" for name, value in columns.items())


def _stands_so(row: Schedule, enabled: bool) -> bool:
    is_planned = row.next_fire_at is not None and not row.problem
    return row.enabled == enabled and (is_planned or not enabled)


def _only(schedule_id: int) -> QuerySet[Schedule]:
    return Schedule.objects.filter(pk=schedule_id)


def _the_one(found: Sequence[Schedule]) -> Schedule:
    if not found:
        raise Schedule.DoesNotExist
    return found[0]


# --- a window that is past -------------------------------------------------------------------


def without_run(
    db: Database, schedule: Schedule, since: datetime, until: datetime, portion: int = PORTION
) -> Iterator[list[datetime]]:
    """The due instants from ``since`` to ``until``, both included, that have started no run: the oldest first, those
    of ``portion`` due ones at a time. None of them lies in the future. Raises InvalidSchedule.
    """
    cron = cron_of(schedule)
    # Nothing is computed at the calendar's beginning, nor of a day that is not there in every zone.
    after, until = max(since, _BEGINNING) - _SMALLEST, min(until, database_now(db))
    while instants := fires_between(cron.expression, cron.timezone, after, until, portion):
        after = instants[-1]
        fires = Fire.objects.using(db.alias).filter(schedule_id=schedule.pk, run_id__isnull=False)
        fired = set(fires.filter(scheduled_for__in=instants).values_list("scheduled_for", flat=True))
        yield [instant for instant in instants if instant not in fired]


def fill(
    db: Database, schedule: Schedule, runs: Sequence[tuple[datetime, NewRun]], by: Verb
) -> tuple[list[tuple[datetime, NewRun]], list[Ready]]:
    """Start the run of each instant for which none was started meanwhile: those, and which of them are ready.

    Raises Schedule.DoesNotExist, ScheduleLocked.
    """
    # A tick leaves a locked schedule for later; at a fire of ours that is not committed it would have to wait.
    with brief_schedule_lock(db, _only(schedule.pk)) as found:
        _the_one(found)
        started = [(instant, run) for instant, run in runs if _insert_missing(db, schedule.pk, instant, run)]
        ready = start_runs(db, [run for _, run in started]) if started else []
        audit(db, [(run.id, "") for _, run in started], "backfill", by)
        if started:
            audit_schedule(db, schedule, "backfill", by.about(_told([instant for instant, _ in started])))
    return started, ready


def _told(instants: Sequence[datetime]) -> str:
    if len(instants) == 1:
        return f"1 run, {instants[0].isoformat()}"
    return f"{len(instants)} runs, {instants[0].isoformat()} to {instants[-1].isoformat()}"


def _insert_missing(db: Database, schedule_id: int, instant: datetime, run: NewRun) -> bool:
    d = db.dialect
    parameters = {"id": schedule_id, "scheduled_for": d.instant(instant), "run_id": d.key(run.id)}
    return bool(db.rows(sql.insert_missing(d), **parameters, outcome=BACKFILLED))
