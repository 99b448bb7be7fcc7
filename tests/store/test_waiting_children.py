"""Parents wait for children: whoever ends last wakes them, once."""

from __future__ import annotations

import pytest

from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Suspended
from django_durable.core.journal.states import Status
from django_durable.queues.ready import Ready
from django_durable.store import recovery
from django_durable.store.claiming import Claim
from django_durable.store.committing import write_batch
from django_durable.store.database import PrivateDatabase
from tests.store.conftest import Connect
from tests.store.parallel import Threads, answer
from tests.store.rows import (
    child_entry,
    make_run,
    running,
    status_of,
)
from tests.store.suspending import child_of, claim_all, finish, suspend

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("count", [1, 5])
def test_the_children_of_a_wait_wake_their_parent_once_when_all_are_over(db: PrivateDatabase, count: int):
    claim = running(db)
    children = [child_of(claim) for _ in range(count)]
    receipt = suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=children)
    assert receipt.status == Status.WAITING
    assert {ready.id for ready in receipt.ready} == {child.id for child in children}
    woken = []
    claims = claim_all(db, *[child.id for child in children])
    for child in claims:
        assert write_batch(db, [(child.lease, Write(outcome=Completed("1")))])[child.run_id].parent_id == claim.run_id
        woken.append([ready.id for ready in recovery.wake(db, claim.run_id)])
    assert woken == [[]] * (count - 1) + [[claim.run_id]]


def test_children_that_end_in_one_batch_wake_their_parent(db: PrivateDatabase):
    claim = running(db)
    children = [child_of(claim) for _ in range(3)]
    suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=children)
    claims = claim_all(db, *[child.id for child in children])
    receipts = write_batch(db, [(child.lease, Write(outcome=Completed("1"))) for child in claims])
    assert {receipt.parent_id for receipt in receipts.values()} == {claim.run_id}
    assert [recovery.wake(db, claim.run_id) != [] for _ in receipts] == [True, False, False]


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_a_child_that_ended_before_its_parent_waits(db: PrivateDatabase, status: str):
    claim = running(db)
    make_run(status, parent_id=claim.run_id, parent_path="child")
    assert suspend(db, claim, child_entry(), outcome=Suspended("child:child")).status == Status.QUEUED


@pytest.mark.parametrize("status", sorted(set(Status) - {"succeeded", "failed", "cancelled"}))
def test_a_live_child_keeps_its_parent_waiting(db: PrivateDatabase, status: str):
    claim = running(db)
    make_run(status, parent_id=claim.run_id, parent_path="child", queue="elsewhere")
    make_run("succeeded", parent_id=claim.run_id, parent_path="another wait")
    assert suspend(db, claim, child_entry(), outcome=Suspended("child:child")).status == Status.WAITING
    assert recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []


def test_a_live_child_of_another_call_keeps_nobody_waiting(db: PrivateDatabase):
    """One that was started aside, say, or a grandchild at the same path."""
    claim = running(db)
    child = child_of(claim)
    make_run("waiting", parent_id=claim.run_id, parent_path="aside")
    make_run("waiting", parent_id=child.id, parent_path="child")
    suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=[child])
    finish(db, child.id)
    assert recovery.wake(db, claim.run_id) == [Ready(claim.run_id, "default", 0)]


def test_two_children_that_end_at_once_cannot_both_leave_their_parent_asleep(
    db: PrivateDatabase, connect: Connect, threads: Threads
):
    """Each looks at its sibling after its own commit, under the parent's lock: the later one sees both."""
    claim = running(db)
    children = [child_of(claim) for _ in range(2)]
    suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=children)
    claims = claim_all(db, *[child.id for child in children])
    sessions = [connect() for _ in claims]

    def end(session: PrivateDatabase, child: Claim) -> list[Ready]:
        write_batch(session, [(child.lease, Write(outcome=Completed("1")))])
        return recovery.wake(session, claim.run_id)

    ends = [threads.start(end, session, child) for session, child in zip(sessions, claims, strict=True)]
    woken = [answer(one) for one in ends]
    assert [Ready(claim.run_id, "default", 0)] in woken
    assert status_of(claim.run_id) == Status.QUEUED
