"""Rows for the pages, among them such as somebody means harm with."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

from django.utils import timezone

from django_durable.admin.finding import least_id
from django_durable.core.ids import uuid7
from django_durable.core.journal.log import fit_message
from django_durable.core.payloads.codec import encode
from django_durable.models import (
    Audit,
    ClaimRecord,
    Event,
    Fire,
    JournalEntry,
    LogLine,
    Payload,
    Run,
    Schedule,
    Tag,
    Worker,
)


def make_run(status: str = "queued", **more: object) -> Run:
    """A run by the columns that its status asks for."""
    now, run_id = timezone.now(), uuid7()
    columns: dict[str, object] = {"queued_at": now, "started_at": now - timedelta(seconds=90), "claims": 1}
    match status:
        case "queued":
            columns = {"queued_at": now}
        case "scheduled":
            columns = {"wake_at": now + timedelta(hours=1)}
        case "running":
            columns |= {"lease_token": uuid4(), "leased_by": uuid4(), "lease_expires_at": now + timedelta(seconds=30)}
        case "waiting":
            columns |= {"waiting_on": "event:packed"}
        case "blocked":
            columns |= {"block_reason": "diverged"}
        case "succeeded" | "failed" | "cancelled":
            columns |= {"finished_at": now}
    columns = {"workflow": "app.doubling", "queue": "default", "root_id": run_id, **columns, **more}
    run: Run = Run.objects.create(id=run_id, status=status, **columns)
    return run


def make_old(status: str, ago: timedelta, **more: object) -> Run:
    """A run whose id says that it was created so long ago."""
    run = make_run(status, **more)
    run_id = UUID(int=least_id(timezone.now() - ago).int | run.pk.int & ((1 << 76) - 1))
    Run.objects.filter(pk=run.pk).update(id=run_id, root_id=run_id)
    found: Run = Run.objects.get(pk=run_id)
    return found


def make_entry(run: Run, path: str, seq: int = 1, **more: object) -> None:
    now = timezone.now()
    columns = {"kind": "step", "status": "succeeded", "attempts": 1, "started_at": now, "finished_at": now, **more}
    JournalEntry.objects.create(run=run, path=path, seq=seq, token=uuid4(), **columns)


def make_line(run: Run, message: str, number: int = 1, level: int = 20, **more: object) -> None:
    columns = {"at": timezone.now(), "place": number, **more}
    LogLine.objects.create(run=run, number=number, level=level, message=fit_message(message), **columns)


def make_schedule(**more: object) -> Schedule:
    columns = {"workflow": "app.doubling", "name": "daily", "expression": "0 6 * * *", **more}
    schedule: Schedule = Schedule.objects.create(**columns)
    return schedule


def make_worker(**more: object) -> Worker:
    now = timezone.now()
    columns = {
        "id": uuid7(), "host": "box", "pid": 7, "queues": ["default"], "workflows": ["app.doubling"],
        "concurrency": 32, "started_at": now, "heartbeat_at": now, **more,
    }  # fmt: skip
    worker: Worker = Worker.objects.create(**columns)
    return worker


def make_full_run(text: str, status: str = "failed") -> Run:
    """A run with something in every part of its page, all of it ``text``, and a schedule and a worker likewise."""
    name, error = text[:200], encode({"type": text, "message": text, "traceback": text})
    parent = make_run("waiting", workflow=name, queue=text[:100])
    more = {"blocked": {"block_reason": "diverged"}, "waiting": {"waiting_on": f"event:{name}"}}.get(status, {})
    run = make_run(status, workflow=name, queue=text[:100], parent=parent, parent_path=name, **more)
    child = make_run("failed", workflow=name, parent=run, parent_path=name)
    make_entry(run, name, 1, value=encode({text: [text]}), error=error)
    make_entry(run, f"{name}/", 2, status="waiting", kind="event", awaits=name, finished_at=None)
    make_entry(run, f"{name}/c", 3, kind="child", value=encode(str(child.pk)))
    for kind, value in {"input": [text], "output": text, "progress": {"done": 1, "total": 2, "message": text}}.items():
        Payload.objects.create(run=run, kind=kind, data=encode(value))
    Payload.objects.create(run=run, kind="error", data=error)
    Payload.objects.create(run=run, kind="notes", data=encode([[name, text]]))
    Payload.objects.create(run=run, kind="block", data=encode({"message": text}))
    Event.objects.create(
        run=run, name=name, payload=encode({text: text}), idempotency_key=name, consumed_at=timezone.now(),
        consumed_by=name,
    )  # fmt: skip
    Audit.objects.create(run=run, verb=text[:20], actor=text[:150], reason=text, status_before=text[:10])
    Audit.objects.create(
        workflow=name, schedule=name, verb=text[:20], actor=text[:150], reason=text, status_before=text[:10]
    )
    make_line(run, text, scope=name)
    Tag.objects.create(run=run, name=name)
    schedule = make_schedule(workflow=name, name=name, expression=name, timezone=text[:64], problem=text)
    Fire.objects.create(
        schedule=schedule, scheduled_for=timezone.now(), fired_at=timezone.now(), run_id=run.pk, outcome="started"
    )
    worker = make_worker(host=name, queues=[text[:100]], workflows=[name], version=text[:64])
    Run.objects.filter(pk=run.pk).update(claims=2, started_at=timezone.now(), started_by=worker.pk)
    ClaimRecord.objects.create(run_id=run.pk, place=2, number=2, worker_id=worker.pk, claimed_at=timezone.now())
    return run
