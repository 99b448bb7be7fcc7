"""Waits by the clock of the database, and the deadline that bounds them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Retried, Suspended
from django_durable.core.journal.states import EntryStatus, Status
from django_durable.models import Event, JournalEntry, Run
from django_durable.store import recovery
from django_durable.store.claiming import claim_next
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.starting import start_runs
from tests.store.rows import (
    LEASE,
    PAST,
    at,
    claimant,
    event_entry,
    fresh,
    journal_row,
    make_run,
    running,
    send,
    sleep_entry,
    step_entry,
)
from tests.store.suspending import abandoned, child_of, finish, suspend

pytestmark = pytest.mark.django_db(transaction=True)


ERROR = {"type": "ValueError", "message": "no", "traceback": ""}


@pytest.fixture
def hour(unmoved_clock: None) -> Callable[[float], None]:
    """Moves the database's clock, as the store's SQL sees it, to so many seconds after now."""
    return lambda seconds: clock.set_offset(timedelta(seconds=seconds))


def database_now(db: Database) -> Any:
    return db.dialect.read_instant(db.rows(f"SELECT {db.dialect.now}")[0][0])


@pytest.mark.behaviour("WAIT-01b")
@pytest.mark.parametrize("outcome", [Suspended("sleep:nap", wake_after=3600), Retried(ERROR, 2, 3600)])
def test_a_wait_ends_not_early_and_not_late_by_the_clock_of_the_database(
    db: PrivateDatabase, hour: Callable[[float], None], outcome: Any
):
    claim = running(db)
    # SQLite's clock has milliseconds.
    before = database_now(db) - timedelta(milliseconds=1)
    suspend(db, claim, sleep_entry(3600), outcome=outcome)
    after = database_now(db) + timedelta(milliseconds=1)
    hours = timedelta(seconds=3600)
    assert before + hours <= fresh(claim.run_id).wake_at <= after + hours
    entry = JournalEntry.objects.get()
    assert before + hours <= entry.wake_at <= after + hours
    hour(3590)
    assert recovery.promote(db, 10) == []
    assert claim_next(db, claimant(), 10, lease=LEASE, time=DatabaseClock()) == []
    hour(3601)
    [again] = claim_next(db, claimant(), 10, lease=LEASE, time=DatabaseClock())
    assert again.journal.now() >= entry.wake_at
    assert again.attempt == (2 if isinstance(outcome, Retried) else 1)


def test_the_clock_of_a_claim_is_never_ahead_of_the_database(db: PrivateDatabase):
    time = DatabaseClock()
    make_run()
    claim_next(db, claimant(), 1, lease=LEASE, time=time)
    known = time.now()
    assert known <= database_now(db) + timedelta(milliseconds=1)
    assert known >= at(-timedelta(minutes=1))


def test_what_has_come_due_is_promoted_oldest_first_and_no_more_than_the_limit(db: PrivateDatabase):
    distances = [timedelta(minutes=-n) for n in range(1, 6)]
    runs = [make_run("waiting" if n % 2 else "scheduled", wake_at=at(d)) for n, d in enumerate(distances)]
    make_run("waiting", wake_at=at(timedelta(minutes=1)))
    make_run("waiting", wake_at=None)
    assert {ready.id for ready in recovery.promote(db, 3)} == {run.pk for run in runs[2:]}
    assert {ready.id for ready in recovery.promote(db, 3)} == {run.pk for run in runs[:2]}
    assert recovery.promote(db, 3) == []
    promoted = fresh(runs[0])
    assert (promoted.wake_at, promoted.waiting_on) == (None, "")


@pytest.mark.parametrize(
    "outcome", [Suspended("sleep:nap", wake_after=3600), Suspended("event:packed"), Retried(ERROR, 2, 3600)]
)
def test_the_deadline_bounds_the_wait(db: PrivateDatabase, outcome: Any):
    deadline = at(timedelta(minutes=10)).replace(microsecond=0)
    claim = running(db, deadline_at=deadline)
    suspend(db, claim, outcome=outcome)
    assert fresh(claim.run_id).wake_at == deadline


def test_a_wait_that_is_shorter_than_the_deadline_is_not_lengthened(db: PrivateDatabase):
    wake_at = at(timedelta(minutes=1)).replace(microsecond=0)
    claim = running(db, deadline_at=at(timedelta(minutes=10)))
    suspend(db, claim, outcome=Suspended("sleep:nap", wake_at=wake_at))
    assert fresh(claim.run_id).wake_at == wake_at


def test_a_wait_without_time_and_deadline_has_none(db: PrivateDatabase):
    claim = running(db)
    suspend(db, claim, event_entry())
    assert fresh(claim.run_id).wake_at is None


@pytest.mark.parametrize("phase", ["on_failure", "compensating"])
def test_the_deadline_does_not_bound_what_comes_after_the_failure(db: PrivateDatabase, phase: str):
    """Else a retry in ``on_failure`` of a run that timed out would be due at once, over and over."""
    claim = running(db, deadline_at=at(PAST), phase=phase)
    suspend(db, claim, outcome=Suspended("retry:%on_failure", wake_after=60))
    assert fresh(claim.run_id).wake_at > at(timedelta(seconds=50))
    assert claim_next(db, claimant(), 10, lease=LEASE, time=DatabaseClock()) == []


@pytest.mark.parametrize("phase", ["on_failure", "compensating"])
def test_a_wait_that_the_failure_cut_short_is_no_reason_to_go_on(db: PrivateDatabase, phase: str):
    """The deadline hit while the run waited for an event: the event comes, and nobody is there to take it."""
    claim = running(db, phase=phase)
    journal_row(fresh(claim.run_id), abandoned(event_entry()))
    send(claim.run_id)
    receipt = suspend(db, claim, step_entry(status=EntryStatus.RETRYING), outcome=Suspended("retry:x", wake_after=60))
    assert receipt.status == Status.WAITING
    assert recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []


def test_a_suspension_clears_the_run_of_suspicion_and_frees_its_lease(db: PrivateDatabase):
    claim = running(db)
    Run.objects.update(suspect=True, crashes=2)
    suspend(db, claim, event_entry())
    run = fresh(claim.run_id)
    assert (run.suspect, run.crashes, run.lease_token, run.leased_by, run.lease_expires_at) == (
        False,
        0,
        None,
        None,
        None,
    )
    assert run.waiting_on == "event:packed"


def test_events_are_consumed_once_and_only_by_their_run(db: PrivateDatabase):
    claim, other = running(db), running(db)
    mine, theirs = send(claim.run_id), send(other.run_id)
    write_batch(db, [(claim.lease, Write(consumed={mine.pk: "first", theirs.pk: "theft"}))])
    write_batch(db, [(claim.lease, Write(consumed={mine.pk: "second"}))])
    assert {e.pk: e.consumed_by for e in Event.objects.all()} == {mine.pk: "first", theirs.pk: ""}


def test_a_child_run_is_told_apart_from_a_root(db: PrivateDatabase):
    claim = running(db)
    child = child_of(claim)
    start_runs(db, [child])
    assert finish(db, child.id).parent_id == claim.run_id
    assert finish(db, make_run().pk).parent_id is None
