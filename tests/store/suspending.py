"""Runs that suspend, what wakes them, and children that come to their end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Entry, NewRun, Write
from django_durable.core.journal.outcomes import Completed, Suspended
from django_durable.core.journal.states import EntryStatus
from django_durable.queues.ready import Ready
from django_durable.store import recovery, transitions
from django_durable.store.auditing import Verb
from django_durable.store.claiming import Claim, claim_next
from django_durable.store.committing import write_batch
from django_durable.store.database import Database
from django_durable.store.receipts import Receipt
from tests.store.rows import (
    LEASE,
    claimant,
    entries,
    new_run,
    send,
)

FOR_EVENT = Suspended("event:packed")
SUSPENSION = "SET status = CASE WHEN"
"""In the statement that suspends."""


def suspend(db: Database, claim: Claim, *waits: Any, outcome: Any = FOR_EVENT, **more: Any) -> Receipt:
    return write_batch(db, [(claim.lease, Write(entries(*waits), outcome=outcome, **more))])[claim.run_id]


def send_and_wake(db: Database, run_id: UUID) -> list[Ready]:
    """As ``send_event``: the event is committed, then the run is woken in a transaction of its own."""
    send(run_id)
    return recovery.wake(db, run_id)


def cancel(db: Database, run_id: UUID) -> None:
    transitions.cancel(Database(), [run_id], Verb())


def child_of(claim: Claim, path: str = "child", **more: Any) -> NewRun:
    return new_run(parent_id=claim.run_id, parent_path=path, root_id=claim.root_id, **more)


def finish(db: Database, run_id: UUID) -> Receipt:
    [claim] = claim_all(db, run_id)
    return write_batch(db, [(claim.lease, Write(outcome=Completed("1")))])[run_id]


def claim_all(db: Database, *run_ids: UUID) -> list[Claim]:
    who = claimant()
    claims = claim_next(db, who, 100, lease=LEASE, time=DatabaseClock())
    return [claim for claim in claims if claim.run_id in run_ids]


def abandoned(entry: Entry) -> Entry:
    """As who suspends leaves a wait that nobody is at any more (tests/executor/test_abandoned_waits.py)."""
    return replace(entry, status=EntryStatus.ABANDONED)
