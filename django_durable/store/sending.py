"""Events for runs: stored once under each idempotency key."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from ..core.journal.states import EntryStatus, Kind, Status
from ..models import Event, JournalEntry
from .database import Database
from .sql.events import inbox, insert_event


class Inbox(NamedTuple):
    """How a run stands, and what was sent to it that it has not taken yet."""

    status: Status
    events: int
    bytes: int


def inbox_of(db: Database, run_id: UUID, most: int) -> Inbox | None:
    """Counts no more events than ``most``. None: there is no such run."""
    rows = db.rows(inbox(db.dialect), run_id=db.dialect.key(run_id), most=most)
    return Inbox(Status(rows[0][0]), *rows[0][1:]) if rows else None


def lacks(db: Database, run_id: UUID, name: str) -> bool:
    """Whether the run has come to a wait that takes events of this name, and none is there."""
    if Event.objects.using(db.alias).filter(run_id=run_id, name=name, consumed_at=None).exists():
        return False
    waits = JournalEntry.objects.using(db.alias).filter(run_id=run_id, status=EntryStatus.WAITING, kind=Kind.EVENT)
    return any(name in awaits.splitlines() for awaits in waits.values_list("awaits", flat=True).iterator())


def store_event(db: Database, run_id: UUID, name: str, payload: str, key: str) -> int | None:
    """The id of the new event; None where the run has one under ``key`` ("": none). ``payload`` is encoded text."""
    d = db.dialect
    values = {"run_id": d.key(run_id), "name": name, "payload": payload, "idempotency_key": key}
    rows = db.rows(insert_event(d), **values)
    return rows[0][0] if rows else None


def find_event(db: Database, run_id: UUID, key: str) -> int | None:
    """The id of the event that the run was sent under this idempotency key."""
    events = Event.objects.using(db.alias).filter(run_id=run_id, idempotency_key=key)
    return events.values_list("pk", flat=True).first()
