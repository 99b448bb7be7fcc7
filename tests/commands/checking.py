"""Rows as the engine leaves them, whole enough for `durable_check` to find nothing wrong with them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.utils import timezone

from django_durable.models import Audit, ClaimRecord, Event, Fire, JournalEntry, LogLine, Payload, Run, Schedule, Tag
from django_durable.models import Worker as WorkerRow
from tests.commands import rows
from tests.commands.conftest import allow_anything

HOUR, ZERO = timedelta(hours=1), timedelta(0)
RUN, JOURNAL, KEY = "django_durable_run", "django_durable_journalentry", "django_durable_idempotencykey"
FIRE = "django_durable_fire"
CLAIMED = ("running", "waiting", "succeeded", "failed")
WORKER = uuid4()


def a_run(*, age: timedelta = ZERO, status: str = "succeeded", **columns: Any) -> Run:
    """As `rows.a_run`; of a status in which only a claim leaves a run, once claimed by WORKER when it was created."""
    claimed = {"claims": 1, "started_at": timezone.now() - age, "started_by": WORKER} if status in CLAIMED else {}
    lease = {"lease_token": uuid4(), "leased_by": WORKER, "lease_expires_at": timezone.now() + HOUR}
    leased = lease if status == "running" else {}
    return rows.a_run(age=age, status=status, **{**claimed, **leased, **columns})


def claimed(times: int, age: timedelta = HOUR, **columns: Any) -> dict[str, Any]:
    """Columns of a run that was claimed so often, first `age` ago."""
    return {"claims": times, "started_at": timezone.now() - age, "started_by": WORKER, **columns}


def an_entry(run: Run, path: str = "double", seq: int = 1, **columns: Any) -> JournalEntry:
    """All of a run are written under one token, its lease's if it has one."""
    return rows.an_entry(run, path, seq, **{"token": run.lease_token or run.pk, **columns})


def a_record(run: Run, number: int, **columns: Any) -> ClaimRecord:
    """Of a claim by WORKER, when the run was created."""
    given = {"place": number % 50, "worker_id": WORKER, "claimed_at": run.created_at, **columns}
    return ClaimRecord.objects.create(run_id=run.pk, number=number, **given)


def sound() -> Run:
    """A run that succeeded an hour ago at its second claim, with a row in each table that holds something of a run."""
    run = with_belongings(a_run(age=HOUR, **claimed(2)))
    a_record(run, 2)
    return run


def with_belongings(run: Run) -> Run:
    an_entry(run)
    Payload.objects.create(run_id=run.pk, kind="input", data='{"number":42}')
    if run.status == "succeeded":
        Payload.objects.create(run_id=run.pk, kind="output", data="84")
    taken = {"consumed_at": run.created_at, "consumed_by": "wait"}
    Event.objects.create(run_id=run.pk, name="packed", payload="null", sent_at=run.created_at, **taken)
    Tag.objects.create(run_id=run.pk, name="blue")
    Audit.objects.create(run_id=run.pk, verb="cancel", status_before="queued")
    LogLine.objects.create(run_id=run.pk, number=1, at=run.created_at, level=20, message="packing", place=0)
    return run


def change(run: Run, assignment: str, *constraints: str) -> UUID:
    """Change the run's row against these ``constraints``."""
    if constraints:
        allow_anything(RUN, *constraints)
    rows.execute(f"UPDATE {RUN} SET {assignment} WHERE id = %s", run.pk)
    return run.pk


def a_schedule(**columns: Any) -> Schedule:
    names = {"workflow": "app.doubling", "name": f"every minute {uuid4().hex}", "expression": "* * * * *"}
    return Schedule.objects.create(**{**names, **columns})


def a_fire(schedule: Schedule, *, minutes: int = 1, run: Run | None = None, **columns: Any) -> Fire:
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes)
    given = {"scheduled_for": at, "fired_at": at, "outcome": "fired", "run_id": run and run.pk, **columns}
    return Fire.objects.create(schedule=schedule, **given)


def a_worker(**columns: Any) -> WorkerRow:
    """A process that has been there for an hour, has nothing to do, and will not be taken for dead soon."""
    now = timezone.now()
    given = {
        "id": uuid4(),
        "host": "h",
        "pid": 1,
        "queues": ["default"],
        "workflows": ["app.doubling", "app.one_a_tenant"],
        "concurrency": 8,
        "started_at": now - HOUR,
        "heartbeat_at": now + HOUR,
    }
    return WorkerRow.objects.create(**{**given, **columns})
