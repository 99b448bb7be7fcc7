"""Schedules, workflows that are in no registry, and a fire loop over them, tick by tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone

from django_durable.core import clock
from django_durable.core.schedules.cron import next_fire
from django_durable.models import Fire, Run, Schedule
from django_durable.queues.current import current_queue
from django_durable.store.database import Database
from django_durable.store.scheduling import database_now
from django_durable.worker.loops.fire import Fire as FireLoop
from django_durable.worker.loops.synchronise import Synchronise
from django_durable.workflows.definition import Workflow
from django_durable.workflows.options import WorkflowOptions

NIGHTLY = "app.nightly"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def nightly(ctx: object, day: str = "today", *, note: str | None = None) -> None:
    pass


def make_workflow(
    *crons: Any, name: str = NIGHTLY, app: str = "app", fn: Callable[..., Any] = nightly, **options: Any
) -> Workflow[Any, Any]:
    """A workflow as its module would define it; not registered, so that no other test sees it."""
    workflow: Workflow[Any, Any] = Workflow(fn, WorkflowOptions(name=name, **options))
    # Past the options' own checks: what is wrong may come from a row, or from another version of them.
    object.__setattr__(workflow.options, "cron", list(crons))
    workflow.__dict__["app_label"] = app
    return workflow


def known(*given: Workflow[Any, Any]) -> Mapping[str, Workflow[Any, Any]]:
    return {name: workflow for workflow in given for name in (workflow.name, *workflow.aliases)}


def code_of(*given: Workflow[Any, Any]) -> Synchronise:
    """The synchronising loop of a worker that has just started with this code."""
    names = known(*given)
    return Synchronise(lambda: names)


def fire_loop(*given: Workflow[Any, Any]) -> FireLoop:
    """The fire loop of a worker with this code, which has just started."""
    code = code_of(*(given or (make_workflow(),)))
    code.tick()
    return FireLoop(current_queue(), code)


def make_schedule(expression: str = "0 * * * *", **more: Any) -> Schedule:
    """An operator's row, planned from now on."""
    given = {"workflow": NIGHTLY, "name": "operator's", "expression": expression, **more}
    row = Schedule(**given)
    if "next_fire_at" not in more and "problem" not in more:
        row.next_fire_at = next_of(row)
    row.save()
    return row


def next_of(row: Schedule, after: datetime | None = None) -> datetime:
    return next_fire(row.expression, row.timezone, after or database_now(Database()))


def move_to(when: datetime) -> None:
    """The database's clock, and with it Python's, shows ``when`` (and a little)."""
    clock.set_offset(clock.offset() + (when - database_now(Database())) + timedelta(milliseconds=2))


def advance(step: timedelta) -> None:
    clock.set_offset(clock.offset() + step)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def tick_until_done(loop: FireLoop) -> int:
    """Ticks until nothing is due; how many did something."""
    count = 0
    while loop.tick():
        count += 1
        assert count < 100
    return count


def fires(row: Schedule) -> list[tuple[datetime, str]]:
    return list(
        Fire.objects.filter(schedule_id=row.pk).order_by("scheduled_for").values_list("scheduled_for", "outcome")
    )


def outcomes(row: Schedule) -> list[str]:
    return [outcome for _, outcome in fires(row)]


def runs() -> list[Run]:
    return list(Run.objects.order_by("pk"))


def end(status: str, *given: Run) -> None:
    """The runs (all of them, if none is given) end."""
    chosen = Run.objects.filter(pk__in=[run.pk for run in given or runs()])
    lease = {"lease_token": None, "leased_by": None, "lease_expires_at": None}
    chosen.update(status=status, finished_at=timezone.now() + clock.offset(), wake_at=None, **lease)


def resume(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(status="queued", finished_at=None, queued_at=timezone.now())


def fresh(row: Schedule) -> Schedule:
    return Schedule.objects.get(pk=row.pk)
