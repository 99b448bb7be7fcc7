"""Two connections at one moment: the first has acted and not yet committed, the second acts, the first commits.

Beside tests/store/test_postgres_races.py and its neighbours, where the same is shown of other pairs, one statement's
snapshot against its lock.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from django_durable import cancel_runs, pause_runs, resume_runs
from django_durable.client.verbs import fork, rerun
from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Released, Suspended
from django_durable.core.journal.states import PayloadKind, Status
from django_durable.exceptions import RunNotFound
from django_durable.models import Audit, JournalEntry, Payload, Run
from django_durable.queues.ready import Ready
from django_durable.store import recovery, transitions
from django_durable.store.auditing import Verb
from django_durable.store.claiming import Claim, claim_ids, hand_back
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.fencing import still_held
from django_durable.store.pruning import Retention, prune
from tests.commands.checking import an_entry, claimed
from tests.commands.rows import a_run
from tests.invariants import violated
from tests.store.conftest import Connect
from tests.store.parallel import Hooked, Threads, answer, session, wait_until_blocked
from tests.store.rows import (
    LEASE,
    beating,
    child_entry,
    claim,
    claimant,
    entries,
    fresh,
    lease_of,
    make_run,
    row_of,
    running,
    status_of,
    step_entry,
)
from tests.store.suspending import SUSPENSION, child_of, claim_all, suspend

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("possible_tables", "patient")]

DONE = Write(outcome=Completed("1"))
OLD = timedelta(days=40)
KEEP = Retention(default=timedelta(days=30).total_seconds(), by_workflow={})


def take(db: Database, run_id: UUID) -> list[Claim]:
    return claim_ids(db, claimant(), [run_id], lease=LEASE, time=DatabaseClock())


def verbs_of(run_id: UUID) -> list[str]:
    return list(Audit.objects.filter(run_id=run_id).order_by("pk").values_list("verb", flat=True))


@pytest.fixture
def waits_for(connect: Connect, threads: Threads) -> Callable[..., Future[Any]]:
    """Starts a call in a thread of its own; returns when that waits for a lock of the session ``holder``."""
    watching = connect()

    def start(holder: Database, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future = threads.start(call, *arguments)
        wait_until_blocked(watching, session(holder))
        assert not future.done()
        return future

    return start


Start = Callable[..., Future[Any]]


# --- an operator and a claim -----------------------------------------------------------------

ACTS: dict[str, tuple[Callable[..., Any], Callable[..., int], Status]] = {
    "cancel": (transitions.cancel, cancel_runs, Status.CANCELLED),
    "pause": (transitions.pause, pause_runs, Status.PAUSED),
}


@pytest.mark.parametrize("name", ACTS)
def test_a_claim_passes_by_a_run_that_an_operator_is_stopping(db: PrivateDatabase, threads: Threads, name: str):
    act, _, after = ACTS[name]
    run = make_run()
    with transaction.atomic():
        act(Database(), [run.pk], Verb())
        # Not even a wait: an open web transaction must not hold up the others' claims.
        assert answer(threads.start(take, db, run.pk)) == []
    assert take(db, run.pk) == []
    assert (status_of(run), fresh(run).claims) == (after, 0)


@pytest.mark.parametrize("name", ACTS)
def test_an_operator_who_meets_a_claim_asks_its_worker(db: PrivateDatabase, waits_for: Start, name: str):
    _, verb, after = ACTS[name]
    run = make_run()
    with db.transaction():
        [claimed] = take(db, run.pk)
        acting = waits_for(db, verb, [run.pk])
    assert answer(acting) == 1
    assert status_of(run) == Status.RUNNING
    receipt = write_batch(db, [(claimed.lease, Write(outcome=Released()))])[run.pk]
    assert (receipt.cancelling, receipt.pausing) == (name == "cancel", name == "pause")
    expected = Status.QUEUED if name == "cancel" else Status.PAUSED
    assert receipt.status == status_of(run) == expected
    if name == "cancel":
        [ending] = take(db, run.pk)
        assert write_batch(db, [(ending.lease, DONE)])[run.pk].status == after


def test_a_cancellation_that_meets_a_completion_changes_nothing(db: PrivateDatabase, waits_for: Start):
    claimed = running(db)
    with db.transaction():
        write_batch(db, [(claimed.lease, DONE)])
        cancelling = waits_for(db, cancel_runs, [claimed.run_id])
    assert answer(cancelling) == 0
    run = fresh(claimed.run_id)
    assert (run.status, run.cancel_requested_at, verbs_of(run.pk)) == (Status.SUCCEEDED, None, [])


@pytest.mark.parametrize("fails", [False, True], ids=["commits", "rolls back"])
def test_of_two_who_resume_one_run_one_does(waits_for: Start, fails: bool):
    run = make_run(Status.FAILED)
    Payload.objects.create(run_id=run.pk, kind=PayloadKind.ERROR, data='{"type":"E","message":"m","traceback":""}')
    with transaction.atomic():
        assert resume_runs([run.pk], actor="ann") == 1
        second = waits_for(Database(), lambda: resume_runs([run.pk], actor="bob"))
        transaction.set_rollback(fails)
    assert answer(second) == (1 if fails else 0)
    assert status_of(run) == Status.QUEUED
    assert list(Audit.objects.values_list("verb", "actor")) == [("resume", "bob" if fails else "ann")]
    assert violated() == []


# --- leases ----------------------------------------------------------------------------------


def test_a_beat_that_meets_a_reap_renews_nothing_and_hears_of_it_next_time(db: PrivateDatabase, connect: Connect):
    beating = connect()
    [claimed] = claim(db, make_run(), lease=-5)
    with db.transaction():
        assert len(recovery.reap(db, 10, lease=LEASE, max_crashes=3)) == 1
        assert recovery.renew(beating, [claimed.lease], lease=LEASE) == {}
        # Whoever holds the row may still roll back: that it is lost is not said before it is.
        assert still_held(beating, [claimed.lease]) == {claimed.lease.token}
    assert recovery.renew(beating, [claimed.lease], lease=LEASE) == {}
    assert still_held(beating, [claimed.lease]) == set()
    assert status_of(claimed.run_id) == Status.QUEUED


def test_who_hands_back_what_is_being_reaped_changes_nothing(db: PrivateDatabase, connect: Connect, waits_for: Start):
    returning = connect()
    [claimed] = claim(db, make_run(), lease=-5)
    with db.transaction():
        [taken] = recovery.reap(db, 10, lease=LEASE, max_crashes=3)
        handing = waits_for(db, hand_back, returning, [claimed.lease])
        before = db.rows("SELECT queued_at, suspect, crashes FROM django_durable_run")
    answer(handing)
    run = fresh(claimed.run_id)
    assert (run.status, [(run.queued_at, run.suspect, run.crashes)]) == (Status.QUEUED, before)
    assert taken.suspect is run.suspect is True


def test_who_hands_back_what_was_claimed_anew_meanwhile_leaves_it_to_the_heir(
    db: PrivateDatabase, connect: Connect, waits_for: Start
):
    """It is running, as when the hand-back began: only the token tells that it is somebody else's by now."""
    returning = connect()
    # Alive, so that its run is no suspect, which is claimed otherwise.
    worker = beating(uuid4())
    [claimed] = claim(db, make_run(), worker=worker.pk, lease=-5)
    with db.transaction():
        recovery.reap(db, 10, lease=LEASE, max_crashes=3)
        [heir] = take(db, claimed.run_id)
        handing = waits_for(db, hand_back, returning, [claimed.lease])
    before = row_of(claimed.run_id)
    answer(handing)
    assert row_of(claimed.run_id) == before
    assert (before["status"], before["lease_token"]) == (Status.RUNNING, heir.lease.token)


def test_a_reap_passes_by_what_is_being_handed_back(db: PrivateDatabase, connect: Connect, threads: Threads):
    """A release must not count as a crash, nor make its run a suspect."""
    reaping = connect()
    [claimed] = claim(db, make_run(suspect=False), lease=-5)
    with db.transaction():
        hand_back(db, [claimed.lease])
        assert answer(threads.start(lambda: recovery.reap(reaping, 10, lease=LEASE, max_crashes=3))) == []
    assert recovery.reap(reaping, 10, lease=LEASE, max_crashes=3) == []
    run = fresh(claimed.run_id)
    assert (run.status, run.suspect, run.crashes) == (Status.QUEUED, False, 0)
    assert len(take(db, run.pk)) == 1


@pytest.mark.parametrize(
    "outcome",
    [Released(), Completed("1"), Suspended("sleep:nap", wake_after=60)],
    ids=lambda outcome: type(outcome).__name__,
)
def test_an_outcome_that_meets_a_reap_is_held_first_and_lost_then(db: PrivateDatabase, connect: Connect, outcome: Any):
    writing = connect()
    [claimed] = claim(db, make_run(), lease=-5)
    batch = [(claimed.lease, Write(entries(step_entry()), outcome=outcome))]
    with db.transaction():
        recovery.reap(db, 10, lease=LEASE, max_crashes=3)
        receipt = write_batch(writing, batch)[claimed.run_id]
        assert (receipt.is_held, receipt.is_lost) == (False, False)
    before = row_of(claimed.run_id)
    assert write_batch(writing, batch)[claimed.run_id].is_lost
    assert row_of(claimed.run_id) == before
    assert not JournalEntry.objects.exists()


# --- a child and its parent ------------------------------------------------------------------


def test_a_child_that_ends_while_its_parent_suspends_wakes_it(db: PrivateDatabase, connect: Connect, threads: Threads):
    """The child is over before the parent waits, and after it has looked: its wake stands in line for the row."""
    suspending, watching, ending = Hooked(), connect(), connect()
    parent = running(suspending)
    child = child_of(parent)
    write_batch(suspending, [(parent.lease, Write(children=[child]))])
    [claimed] = claim_all(db, child.id)
    woken: list[Future[list[Ready]]] = []

    def end_and_wake() -> list[Ready]:
        write_batch(ending, [(claimed.lease, DONE)])
        return recovery.wake_parent(ending, parent.run_id, "child")

    def meanwhile() -> None:
        woken.append(threads.start(end_and_wake))
        wait_until_blocked(watching, session(suspending))

    suspending.after[SUSPENSION] = meanwhile
    receipt = suspend(suspending, parent, child_entry(), outcome=Suspended("child:child"))
    suspending.close()
    assert receipt.status == Status.WAITING
    assert answer(woken[0]) == [Ready(parent.run_id, "default", 0)]
    assert status_of(parent.run_id) == Status.QUEUED
    assert violated() == []


# --- retention -------------------------------------------------------------------------------


def an_old_run(status: str = "failed") -> Run:
    """Over (or paused) for longer than anything is kept, and with a journal that one could fork from."""
    run = a_run(age=OLD, status=status, **claimed(1, OLD))
    an_entry(run, "first", 1)
    an_entry(run, "second", 2)
    error = {PayloadKind.ERROR: "{}"} if status == "failed" else {}
    for kind, data in {PayloadKind.INPUT: '{"number":42}', **error}.items():
        Payload.objects.create(run_id=run.pk, kind=kind, data=data)
    return run


def test_a_worker_that_thaws_while_its_run_is_pruned_writes_nothing(db: PrivateDatabase):
    stale = lease_of(an_old_run())
    late = [(stale, Write(entries(step_entry()), outcome=Completed("1")))]
    with transaction.atomic():
        assert prune(Database(), 10, KEEP).runs == 1
        assert recovery.renew(db, [stale], lease=LEASE) == {}
        assert write_batch(db, late)[stale.run_id].is_lost
    assert recovery.renew(db, [stale], lease=LEASE) == {}
    assert write_batch(db, late)[stale.run_id].is_lost
    assert not Run.objects.exists() and not JournalEntry.objects.exists()
    assert violated() == []


def test_who_resumes_a_run_that_is_being_pruned_finds_none(waits_for: Start):
    run = an_old_run()
    with transaction.atomic():
        assert prune(Database(), 10, KEEP).runs == 1
        resuming = waits_for(Database(), resume_runs, [run.pk])
    assert answer(resuming) == 0
    assert not Audit.objects.exists()
    assert violated() == []


STARTS: dict[str, Callable[[UUID], UUID]] = {"rerun": rerun, "fork": partial(fork, from_step="second")}


@pytest.mark.parametrize("start", STARTS.values(), ids=list(STARTS))
def test_who_starts_a_run_like_one_that_is_being_pruned_leaves_nothing_of_that(
    waits_for: Start, start: Callable[[UUID], UUID]
):
    run = an_old_run()
    with transaction.atomic():
        assert prune(Database(), 10, KEEP).runs == 1
        starting = waits_for(Database(), start, run.pk)
    with pytest.raises(RunNotFound):
        answer(starting)
    assert not Audit.objects.exists() and not Run.objects.exists()
    assert violated() == []


@pytest.mark.parametrize("start", STARTS.values(), ids=list(STARTS))
def test_a_run_is_not_pruned_while_another_is_started_like_it(threads: Threads, start: Callable[[UUID], UUID]):
    run = an_old_run()
    with transaction.atomic():
        start(run.pk)
        assert answer(threads.start(prune, Database(), 10, KEEP)).runs == 0
    assert {one.run_id for one in Audit.objects.all()} <= {one.pk for one in Run.objects.all()}
    assert prune(Database(), 10, KEEP).runs == 1


def test_nobody_waits_for_who_starts_a_run_like_another(threads: Threads):
    run = an_old_run("paused")
    with transaction.atomic():
        rerun(run.pk)
        assert answer(threads.start(resume_runs, [run.pk])) == 1
    assert status_of(run) == "queued"
