"""Rows that tests begin with: a run in any status by the columns that such a run has, and what belongs to runs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import DataError, IntegrityError
from django.utils import timezone

from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.flow.lease import Lease
from django_durable.core.ids import uuid7
from django_durable.core.journal.journal import Entry, NewRun
from django_durable.core.journal.states import TERMINAL, EntryStatus, Kind, Status
from django_durable.core.payloads.codec import encode
from django_durable.models import ClaimRecord, Event, JournalEntry, Payload, Run, Worker
from django_durable.store.claiming import Claim, Claimant, claim_ids
from django_durable.store.database import Database

WORKFLOW = "tests.work"
LEASE = 30.0
PAST, FUTURE = timedelta(hours=-1), timedelta(hours=1)


def at(distance: timedelta) -> Any:
    return timezone.now() + distance


def columns(status: str) -> dict[str, Any]:
    """The least that is asked of a run in ``status``, as a run that got there has it."""
    now = at(-timedelta(minutes=1))
    match status:
        case Status.SCHEDULED:
            return {"wake_at": at(FUTURE)}
        case Status.QUEUED:
            return {"queued_at": now}
        case Status.RUNNING:
            lease = {"lease_token": uuid4(), "leased_by": uuid4(), "lease_expires_at": at(FUTURE)}
            return {"queued_at": now, "started_at": now, "claims": 1, **lease}
        case Status.WAITING:
            return {"queued_at": now, "started_at": now, "claims": 1, "waiting_on": "sleep:nap", "wake_at": at(FUTURE)}
        case Status.BLOCKED:
            return {"queued_at": now, "started_at": now, "claims": 1, "block_reason": "diverged", "fingerprint": "old"}
        case _:
            ended = {"finished_at": now} if status in TERMINAL else {}
            return {"queued_at": now, "started_at": now, "claims": 1, **ended}


def make_run(status: str = Status.QUEUED, **more: Any) -> Run:
    run_id = more.pop("id", None) or uuid7()
    given = {"workflow": WORKFLOW, "queue": "default", "root_id": run_id, **columns(status), **more}
    run: Run = Run.objects.create(id=run_id, status=status, **given)
    Payload.objects.create(run_id=run.pk, kind="input", data="[]")
    return run


def new_run(**more: Any) -> NewRun:
    return NewRun(**{"id": uuid7(), "workflow": WORKFLOW, "input": "[]", **more})


def claimant(*workflows: str, queues: Iterable[str] = ("default",), worker: UUID | None = None) -> Claimant:
    return Claimant(worker or uuid4(), tuple(queues), workflows or (WORKFLOW,))


def claim(db: Database, *runs: Run, worker: UUID | None = None, lease: float = LEASE) -> list[Claim]:
    """Claim these queued runs; a claim for each, in their order."""
    ids = [run.pk for run in runs]
    claims = {c.run_id: c for c in claim_ids(db, claimant(worker=worker), ids, lease=lease, time=DatabaseClock())}
    return [claims[run_id] for run_id in ids]


def running(db: Database, **more: Any) -> Claim:
    """A run that has just been claimed."""
    return claim(db, make_run(**more))[0]


def lease_of(run: Run, token: UUID | None = None) -> Lease:
    return Lease(run.pk, token or run.lease_token or uuid4(), clock.monotonic() + LEASE)


def stale(lease: Lease) -> Lease:
    """The same run under a token that is not its own."""
    return Lease(lease.run_id, uuid4(), lease.ends)


class Missing(int):
    """A number that SQLite is told is none, which its column does not take."""

    def __format__(self, spec: str) -> str:
        return "null"


REFUSED_SEQ = Missing() if settings.BACKEND == "sqlite" else 2**40
"""What no database takes for an entry's number. The ``integer`` of PostgreSQL has an end, that of SQLite has none."""
Refused = (DataError, IntegrityError)


def step_entry(
    path: str = "step",
    value: Any = 1,
    seq: int = 1,
    status: EntryStatus = EntryStatus.SUCCEEDED,
    undo: bool = False,
) -> Entry:
    return Entry(path, Kind.STEP, status, seq=seq, attempts=1, value=encode(value), undo=undo)


def event_entry(name: str = "packed", wake_after: float | None = None) -> Entry:
    return Entry(name, Kind.EVENT, EntryStatus.WAITING, seq=1, wake_after=wake_after, awaits=name)


def child_entry(path: str = "child") -> Entry:
    return Entry(path, Kind.CHILD, EntryStatus.WAITING, seq=1)


def sleep_entry(seconds: float) -> Entry:
    return Entry("nap", Kind.SLEEP, EntryStatus.WAITING, seq=1, wake_after=seconds)


def entries(*given: Entry) -> dict[str, Entry]:
    return {entry.path: entry for entry in given}


def journal_row(run: Run, entry: Entry) -> JournalEntry:
    made: JournalEntry = JournalEntry.objects.create(
        run_id=run.pk,
        path=entry.path,
        seq=entry.seq,
        kind=entry.kind,
        status=entry.status,
        awaits=entry.awaits,
        undo=entry.undo,
        started_at=timezone.now(),
        token=uuid4(),
    )
    return made


def send(run_id: UUID, name: str = "packed") -> Event:
    """The event alone, as from a sender that dies before it wakes the run."""
    event: Event = Event.objects.create(run_id=run_id, name=name, payload="null")
    return event


def beating(worker: UUID, ago: timedelta = timedelta(0), **more: Any) -> Worker:
    now = timezone.now()
    given = {"host": "here", "pid": 1, "concurrency": 1, "started_at": now, "heartbeat_at": now - ago, **more}
    made: Worker = Worker.objects.create(id=worker, **given)
    return made


def fresh(run: Run | UUID) -> Run:
    return Run.objects.get(pk=run if isinstance(run, UUID) else run.pk)


def status_of(run: Run | UUID) -> Status:
    return Status(fresh(run).status)


def row_of(run: Run | UUID) -> dict[str, Any]:
    """Every column, to see that nothing was touched."""
    rows = list(Run.objects.filter(pk=run if isinstance(run, UUID) else run.pk).values())
    return rows[0]


def payload(run: Run | UUID, kind: str) -> str | None:
    run_id = run if isinstance(run, UUID) else run.pk
    return Payload.objects.filter(run_id=run_id, kind=kind).values_list("data", flat=True).first()


def claims_of(run: Run | UUID) -> list[tuple[int, UUID, bool]]:
    """Number and worker of the claims that have a row of their own, and whether their leases were taken away."""
    run_id = run if isinstance(run, UUID) else run.pk
    kept = ClaimRecord.objects.filter(run_id=run_id).order_by("number")
    return [(row.number, row.worker_id, row.lost_at is not None) for row in kept]
