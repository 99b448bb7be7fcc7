"""The sweep, for senders, children and cancels that died before the wake."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_durable.core.journal.outcomes import Suspended
from django_durable.core.journal.states import Status
from django_durable.models import Run
from django_durable.queues.ready import Ready
from django_durable.store import recovery
from django_durable.store.claiming import Claim
from django_durable.store.database import Database, PrivateDatabase
from tests.store.conftest import Connect
from tests.store.parallel import Threads, answer, row_locked
from tests.store.rows import (
    PAST,
    at,
    child_entry,
    event_entry,
    running,
    send,
    sleep_entry,
    status_of,
)
from tests.store.suspending import child_of, finish, suspend

pytestmark = pytest.mark.django_db(transaction=True)


def leave_event(db: Database, claim: Claim) -> None:
    suspend(db, claim, event_entry())
    send(claim.run_id)


def leave_child(db: Database, claim: Claim) -> None:
    child = child_of(claim)
    suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=[child])
    finish(db, child.id)


def leave_cancel(db: Database, claim: Claim) -> None:
    suspend(db, claim, sleep_entry(60), outcome=Suspended("sleep:nap", wake_after=60))
    Run.objects.filter(pk=claim.run_id).update(cancel_requested_at=at(PAST))


@pytest.mark.parametrize("leave", [leave_event, leave_child, leave_cancel])
def test_the_sweep_finds_who_overslept(db: PrivateDatabase, leave: Callable[[Database, Claim], None]):
    claim, sleeping = running(db), running(db)
    suspend(db, sleeping, event_entry())
    leave(db, claim)
    assert status_of(claim.run_id) == Status.WAITING
    assert recovery.sweep(db, 10) == [Ready(claim.run_id, "default", 0)]
    assert (status_of(claim.run_id), status_of(sleeping.run_id)) == (Status.QUEUED, Status.WAITING)
    assert recovery.sweep(db, 10) == []


def test_the_sweep_takes_no_more_than_its_limit_and_comes_to_all(db: PrivateDatabase):
    claims = [running(db) for _ in range(5)]
    for claim in claims:
        leave_event(db, claim)
    rounds = [len(recovery.sweep(db, 2)) for _ in range(4)]
    assert rounds == [2, 2, 1, 0]


def test_the_sweep_leaves_a_row_that_somebody_holds_for_its_next_round(
    db: PrivateDatabase, connect: Connect, threads: Threads
):
    """An open web transaction must not keep everybody else asleep."""
    held, free = running(db), running(db)
    leave_event(db, held)
    leave_event(db, free)
    with row_locked(connect(), held.run_id):
        sweeping = threads.start(recovery.sweep, db, 10)
        if db.dialect.has_writing_ctes:
            assert [ready.id for ready in answer(sweeping)] == [free.run_id]
    woken = [ready.id for ready in answer(sweeping) + recovery.sweep(db, 10)]
    assert sorted(woken) == sorted([held.run_id, free.run_id])
