"""Waiting without lost wake-ups: what comes while a run suspends, each with its expected end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from uuid import UUID

import pytest
from django.conf import settings

from django_durable.core.journal.outcomes import Suspended
from django_durable.core.journal.states import EntryStatus, Status
from django_durable.queues.ready import Ready
from django_durable.store import recovery
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.receipts import Receipt
from tests.store.conftest import Connect
from tests.store.parallel import Hooked, Threads, answer, session, wait_until_blocked
from tests.store.rows import (
    child_entry,
    event_entry,
    fresh,
    running,
    send,
    sleep_entry,
    status_of,
)
from tests.store.suspending import SUSPENSION, abandoned, cancel, child_of, claim_all, finish, send_and_wake, suspend

pytestmark = pytest.mark.django_db(transaction=True)


FENCE = "AS cancelling"
MOMENTS = [("before", SUSPENSION), ("after", SUSPENSION)]
if settings.BACKEND != "sqlite":  # There the fence is in a transaction that lets nobody else write.
    MOMENTS.insert(0, ("before", FENCE))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("come", [send_and_wake, cancel])
@pytest.mark.parametrize("moment", MOMENTS, ids=" ".join)
def test_no_wake_is_lost_whenever_it_comes(
    connect: Connect, threads: Threads, moment: tuple[str, str], come: Callable[[Database, UUID], object]
):
    """wake.pml on two connections: whatever comes between two statements, the run is queued when both are done."""
    waker, watching, suspending = connect(), connect(), Hooked()
    claim = running(suspending)
    coming: list[Future[object]] = []

    def meanwhile() -> None:
        coming.append(threads.start(come, waker, claim.run_id))
        if FENCE in moment:
            answer(coming[0])
        else:
            # The row is ours: neither may pass by a run that is about to wait.
            wait_until_blocked(watching, session(suspending))
            assert not coming[0].done()

    when, text = moment
    getattr(suspending, when)[text] = meanwhile
    receipt = suspend(suspending, claim, event_entry())
    suspending.close()
    woken = answer(coming[0])
    assert status_of(claim.run_id) == Status.QUEUED
    if come is send_and_wake:
        # One of the two has queued it, and tells the queue.
        told = [receipt.status == Status.QUEUED, woken == [Ready(claim.run_id, "default", 0)]]
        assert sorted(told) == [False, True]


def test_an_event_after_the_suspension_wakes(db: PrivateDatabase, connect: Connect):
    claim = running(db)
    assert suspend(db, claim, event_entry()).status == Status.WAITING
    assert send_and_wake(connect(), claim.run_id) == [Ready(claim.run_id, "default", 0)]
    assert status_of(claim.run_id) == Status.QUEUED
    assert recovery.wake(db, claim.run_id) == []


def test_an_event_before_the_suspension_leaves_no_waiting_run(db: PrivateDatabase):
    claim = running(db)
    assert send_and_wake(db, claim.run_id) == []
    receipt = suspend(db, claim, event_entry())
    assert (receipt.status, receipt.ready) == (Status.QUEUED, [Ready(claim.run_id, "default", 0)])
    assert fresh(claim.run_id).wake_at is None


def test_a_suspension_that_finds_the_row_held_by_a_wake_sees_its_event_in_the_next_batch(
    db: PrivateDatabase, threads: Threads
):
    claim, waker = running(db), Hooked()
    meanwhile: list[Future[Receipt]] = []
    waker.after["WHERE id = %(id)s"] = lambda: meanwhile.append(threads.start(suspend, db, claim, event_entry()))
    if db.dialect.has_writing_ctes:
        waker.before["SET status = 'queued'"] = lambda: answer(meanwhile[0])
    assert send_and_wake(waker, claim.run_id) == []
    waker.close()
    receipt = answer(meanwhile[0])
    if db.dialect.has_writing_ctes:
        assert (receipt.is_held, receipt.is_lost) == (False, False)
        receipt = suspend(db, claim, event_entry())
    assert receipt.status == status_of(claim.run_id) == Status.QUEUED


def test_an_event_of_another_name_or_one_that_is_taken_is_no_reason(db: PrivateDatabase):
    claim = running(db)
    send(claim.run_id, "other")
    taken = send(claim.run_id, "packed")
    receipt = suspend(db, claim, event_entry("packed"), consumed={taken.pk: "earlier"})
    assert receipt.status == Status.WAITING
    assert recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []
    assert send_and_wake(db, claim.run_id) != []


def test_an_event_for_a_wait_that_is_over_is_no_reason(db: PrivateDatabase):
    claim = running(db)
    over = event_entry()
    over.status = EntryStatus.FAILED
    send(claim.run_id)
    assert suspend(db, claim, over, sleep_entry(60)).status == Status.WAITING


def test_an_event_for_a_wait_that_is_abandoned_is_no_reason(db: PrivateDatabase):
    """Nobody takes it: every later suspension would go straight to queued, for ever."""
    claim = running(db)
    suspend(db, claim, event_entry("packed"))
    assert send_and_wake(db, claim.run_id) != []
    [again] = claim_all(db, claim.run_id)
    outcome = Suspended("sleep:nap", wake_after=60)
    receipt = suspend(db, again, abandoned(event_entry("packed")), sleep_entry(60), outcome=outcome)
    assert receipt.status == Status.WAITING
    assert recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []


def test_the_end_of_a_child_that_nobody_waits_for_any_more_is_no_reason(db: PrivateDatabase):
    claim = running(db)
    child = child_of(claim)
    suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=[child])
    finish(db, child.id)
    assert recovery.wake(db, claim.run_id) != []
    [again] = claim_all(db, claim.run_id)
    assert suspend(db, again, abandoned(child_entry()), event_entry("packed")).status == Status.WAITING
    assert recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []


def test_the_event_of_another_run_is_no_reason(db: PrivateDatabase):
    claim, other = running(db), running(db)
    suspend(db, other, event_entry())
    suspend(db, claim, event_entry())
    send(other.run_id)
    assert recovery.wake(db, claim.run_id) == []
    assert [ready.id for ready in recovery.sweep(db, 10)] == [other.run_id]
