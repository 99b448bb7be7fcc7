"""Runs as the past left them: with ids and times of then."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from django.db import connection
from django.utils import timezone

from django_durable.models import Audit, ClaimRecord, Event, JournalEntry, LogLine, Payload, Run, Tag, Worker
from django_durable.store.pruning import id_at

ZERO = timedelta(0)
_numbers = count()


def old_id(moment: datetime) -> UUID:
    """A UUIDv7 of that moment; later calls give later ids within it."""
    return UUID(int=id_at(moment).int + next(_numbers))


def a_run(
    *,
    age: timedelta = ZERO,
    status: str = "succeeded",
    parent: Run | None = None,
    finished: timedelta | None = None,
    **columns: Any,
) -> Run:
    """A run that was created ``age`` ago and, where it is over, ended ``finished`` ago (default: at once)."""
    created = timezone.now() - age
    is_over = status in ("succeeded", "failed", "cancelled")
    run_id = old_id(created)
    return Run.objects.create(
        id=run_id,
        **{
            "workflow": "app.doubling",
            "queue": "default",
            "status": status,
            "created_at": created,
            "queued_at": created,
            "finished_at": timezone.now() - (age if finished is None else finished) if is_over else None,
            "parent": parent,
            "root_id": parent.root_id if parent else run_id,
            "block_reason": "diverged" if status == "blocked" else "",
            "waiting_on": "sleep:nap" if status == "waiting" else "",
            "wake_at": created if status == "scheduled" else None,
            **columns,
        },
    )


def an_entry(run: Run, path: str = "double", seq: int = 1, **columns: Any) -> JournalEntry:
    defaults = {"kind": "step", "status": "succeeded", "value": "84", "started_at": run.created_at, "token": uuid4()}
    return JournalEntry.objects.create(run_id=run.pk, path=path, seq=seq, **{**defaults, **columns})


def with_belongings(run: Run) -> Run:
    """A row in each table that holds something of a run."""
    an_entry(run)
    Payload.objects.create(run_id=run.pk, kind="input", data='{"number":42}')
    if run.status == "succeeded":
        Payload.objects.create(run_id=run.pk, kind="output", data="84")
    Event.objects.create(run_id=run.pk, name="packed", payload="null", consumed_at=timezone.now())
    Tag.objects.create(run_id=run.pk, name="blue")
    Audit.objects.create(run_id=run.pk, verb="cancel", status_before="queued")
    ClaimRecord.objects.create(run_id=run.pk, place=2, number=2, worker_id=uuid4(), claimed_at=timezone.now())
    LogLine.objects.create(run_id=run.pk, number=1, at=run.created_at, level=20, message="packing", place=0)
    return run


def everything_of(run: Run) -> int:
    tables = (JournalEntry, Payload, Event, Tag, Audit, ClaimRecord, LogLine)
    return sum(table.objects.filter(run_id=run.pk).count() for table in tables)


def execute(statement: str, *parameters: Any) -> None:
    keys = [p.hex if isinstance(p, UUID) and connection.vendor == "sqlite" else p for p in parameters]
    with connection.cursor() as cursor:
        cursor.execute(statement, keys)


def a_process(heartbeat: timedelta, *, stopped: timedelta | None = None) -> Worker:
    now = timezone.now()
    stopped_at = None if stopped is None else now - stopped
    return Worker.objects.create(
        id=uuid4(), host="h", pid=1, concurrency=1, started_at=now, heartbeat_at=now - heartbeat, stopped_at=stopped_at
    )
