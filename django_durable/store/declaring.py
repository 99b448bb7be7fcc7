"""Schedules in code → rows. Code of several versions may run at once, so rows follow it with a grace time."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Q, QuerySet

from ..core.payloads.failures import in_one_line
from ..models import Schedule
from .auditing import Verb, audit_schedule, rename
from .database import Database
from .scheduling import database_now, plan_anew
from .sql import schedules as sql

logger = logging.getLogger("django_durable.worker")

Key = tuple[str, str]
SAID, GONE = Verb(reason="the code says so"), Verb(reason="in the code no more")
UNKNOWN = "No worker that is alive knows the workflow"
ANOTHER = "Its workflow has another schedule called"
DEFINITION = ("app_label", "expression", "timezone", "input", "overlap", "catch_up", "jitter")
WRITTEN = (*DEFINITION, "enabled", "enabled_in_code", "next_fire_at", "problem")


@dataclass(slots=True, frozen=True)
class Declared:
    """One schedule as the code says it; ``problem``: why it can never fire."""

    workflow: str
    name: str
    app_label: str
    expression: str
    timezone: str = "UTC"
    input: str | None = None
    overlap: str = "skip"
    catch_up: str = "latest"
    jitter: float = 0
    enabled: bool = True
    problem: str = ""
    former: tuple[Key, ...] = ()
    """The keys that it had under the names that its workflow had."""

    @property
    def key(self) -> Key:
        return self.workflow, self.name


class Declaration(NamedTuple):
    """``ids`` are the rows that the code may fire. ``is_written``: none that differs from it was held by somebody.
    ``refused`` are new, and can never fire."""

    ids: list[int]
    is_written: bool
    refused: list[Declared]


def declare(
    db: Database,
    declared: Iterable[Declared],
    app_labels: Collection[str],
    *,
    replaces: bool,
    interval: float,
    grace: float,
) -> Declaration:
    """Bring the rows of these apps in line with their code. None that somebody holds is waited for.

    ``replaces``: changed definitions are written (at a worker's start; two versions of the code must not write in
    turns). Every ``interval`` seconds a worker confirms its rows; one of these apps that nobody has confirmed for
    ``grace`` seconds is stale and removed. Rows of other apps and of the operator are never touched.

    The row of a workflow that was renamed stays one row, so that each instant fires once: as long as a worker with the
    code of before confirms it, it is that one's, and both fire it; then it is taken over, with its plan.
    """
    wanted = {one.key: one for one in declared}
    rows = _owned(db, wanted, app_labels)
    former = _former(wanted, rows)
    missing = [wanted[key] for key in sorted(wanted) if key not in rows and wanted[key] not in former.values()]
    if missing or _take_over(db, {rows[key].pk: one for key, one in former.items()}, grace):
        _insert(db, missing)
        rows = _owned(db, wanted, app_labels)
        former = _former(wanted, rows)
    mine = {key: row for key, row in rows.items() if key in wanted}
    changed = [row.pk for key, row in mine.items() if _differs(row, wanted[key])] if replaces else []
    is_written = _rewrite(db, changed, wanted)
    ids = sorted(row.pk for row in mine.values())
    if ids:
        db.rows(sql.confirm(db.dialect), ids=db.dialect.list(ids), seconds=interval)
    _remove_stale(db, [row.pk for key, row in rows.items() if key not in wanted and key not in former], grace)
    refused = [one for one in missing if one.problem]
    return Declaration(sorted({*ids, *(rows[key].pk for key in former)}), is_written, refused)


def _former(wanted: Mapping[Key, Declared], rows: Mapping[Key, Schedule]) -> dict[Key, Declared]:
    """The rows that are still stored under a former key, with what they are now: one for each that has no row."""
    found = {}
    for one in wanted.values():
        key = next((key for key in one.former if key in rows and key not in wanted), None)
        if key is not None and one.key not in rows:
            found[key] = one
    return found


def _take_over(db: Database, former: Mapping[int, Declared], grace: float) -> bool:
    """Give those of these rows that no code of before confirms any more their new names; whether there was one."""
    if not former:
        return False
    with db.transaction():
        ids = db.dialect.list(former)
        stale = [pk for (pk,) in db.rows(sql.find_stale(db.dialect), ids=ids, seconds=grace)]
        now = database_now(db)
        for row in Schedule.objects.using(db.alias).filter(pk__in=stale):
            one = former[row.pk]
            logger.info("schedule=%s of %s is now %s of %s", *_told((row.workflow, row.name)), *_told(one.key))
            rename(db, (row.workflow, row.name), one.key)
            row.workflow, row.name = one.key
            _write(db, row, one, now, "workflow", "name")
    return bool(stale)


def _owned(db: Database, wanted: Mapping[Key, Declared], app_labels: Collection[str]) -> dict[Key, Schedule]:
    """Rows of these apps. A row of another app whose workflow is declared here moved with it, and changes hands."""
    keys = {key for one in wanted.values() for key in (one.key, *one.former)}
    rows = Schedule.objects.using(db.alias).exclude(app_label="")
    return {
        (row.workflow, row.name): row for row in rows if row.app_label in app_labels or (row.workflow, row.name) in keys
    }


def _insert(db: Database, missing: Sequence[Declared]) -> None:
    now = database_now(db)
    rows = [_apply(Schedule(workflow=one.workflow, name=one.name), one, now, is_new=True) for one in missing]
    # In the order of their keys: workers that start together wait for each other's rows, and must not in a circle.
    Schedule.objects.using(db.alias).bulk_create(rows, ignore_conflicts=True)


def _told(key: Key) -> tuple[str, str]:
    """Name and workflow, for a line of the log."""
    workflow, name = key
    return in_one_line(name), in_one_line(workflow)


def _rewrite(db: Database, ids: Sequence[int], wanted: Mapping[Key, Declared]) -> bool:
    """Whether all of these rows follow the code now."""
    if not ids:
        return True
    with db.transaction():
        now = database_now(db)
        rows = _free(db, Schedule.objects.filter(pk__in=ids))
        for row in rows:  # under its lock: what a worker has fired meanwhile is in it
            one = wanted[row.workflow, row.name]
            if _differs(row, one):
                _write(db, row, one, now)
                logger.info("schedule=%s of %s follows the code: %s", *_told(one.key), in_one_line(one.expression))
    return len(rows) == len(ids)


def _free(db: Database, schedules: QuerySet[Schedule]) -> list[Schedule]:
    """Those that nobody holds, under their locks. All else that the worker's loops do would wait for the others."""
    skips = db.connection.features.has_select_for_update_skip_locked
    return list(schedules.using(db.alias).select_for_update(no_key=True, skip_locked=skips).order_by("pk"))


def _write(db: Database, row: Schedule, one: Declared, now: datetime, *more: str) -> None:
    was_enabled = row.enabled
    _apply(row, one, now).save(using=db.alias, update_fields=(*more, *WRITTEN))
    if row.enabled != was_enabled:
        audit_schedule(db, row, "enable" if row.enabled else "disable", SAID, was_enabled=was_enabled)


def _differs(row: Schedule, one: Declared) -> bool:
    same = all(getattr(row, name) == getattr(one, name) for name in DEFINITION)
    unplanned = row.enabled and row.next_fire_at is None and not one.problem
    return not same or unplanned or row.enabled_in_code != one.enabled or row.problem != one.problem


def _apply(row: Schedule, one: Declared, now: datetime, *, is_new: bool = False) -> Schedule:
    moved = (row.expression, row.timezone) != (one.expression, one.timezone)
    switched = is_new or row.enabled_in_code != one.enabled
    for name in DEFINITION:
        setattr(row, name, getattr(one, name))
    if switched:
        row.enabled = row.enabled_in_code = one.enabled
    if one.problem:
        row.problem, row.next_fire_at = one.problem, None
    elif moved or switched or row.problem or row.next_fire_at is None:
        plan_anew(row, now)
    return row


def _remove_stale(db: Database, ids: Sequence[int], grace: float) -> None:
    if not ids:
        return
    with db.transaction():
        stale = [pk for (pk,) in db.rows(sql.find_stale(db.dialect), ids=db.dialect.list(ids), seconds=grace)]
        removed = Schedule.objects.using(db.alias).filter(pk__in=stale)
        for row in removed:
            logger.info("schedule=%s of %s is in the code no more: removed", *_told((row.workflow, row.name)))
            audit_schedule(db, row, "remove", GONE)
        removed.delete()


# --- what is wrong around a row --------------------------------------------------------------


def tidy(db: Database, here: Collection[str], anywhere: Callable[[], Collection[str]]) -> None:
    """Tell in ``problem`` which workflows no live worker knows, and forget when a disabled schedule was due.

    ``here`` are those that this worker knows, ``anywhere`` asks which all the others know.
    """
    rows = list(Schedule.objects.using(db.alias))
    if any(not row.enabled and row.next_fire_at is not None for row in rows):
        _forget_plans(db)
    rows = [row for row in rows if row.enabled and (not row.problem or row.problem.startswith(UNKNOWN))]
    elsewhere = anywhere() if any(row.workflow not in here for row in rows) else ()
    problems: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        is_known = row.workflow in here or row.workflow in elsewhere
        problem = "" if is_known else f"{UNKNOWN} {row.workflow!r}."
        if problem != row.problem:
            problems[problem].append(row.pk)
    for problem, ids in problems.items():
        _say(db, ids, problem)


def _forget_plans(db: Database) -> None:
    """Else turning one on again by hand would look like downtime, and catch up."""
    with db.transaction():
        rows = _free(db, Schedule.objects.filter(enabled=False, next_fire_at__isnull=False))
        Schedule.objects.using(db.alias).filter(pk__in=[row.pk for row in rows]).update(next_fire_at=None)


def _say(db: Database, ids: Sequence[int], problem: str) -> None:
    # Whatever else is wrong with a row by now, a worker that fired it knows better.
    ours = Q(problem="") | Q(problem__startswith=UNKNOWN)
    with db.transaction():
        rows = _free(db, Schedule.objects.filter(ours, pk__in=ids, enabled=True))
        Schedule.objects.using(db.alias).filter(pk__in=[row.pk for row in rows]).update(problem=problem)
