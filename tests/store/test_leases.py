"""Leases that lapse or whose process dies: who is suspect, who is guilty, and what a release leaves alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Paused, Released
from django_durable.core.journal.states import BlockReason, Kind, Status
from django_durable.models import Run
from django_durable.queues.ready import Ready
from django_durable.store import recovery
from django_durable.store.claiming import claim_suspect
from django_durable.store.committing import write_batch
from django_durable.store.database import PrivateDatabase
from django_durable.store.fencing import still_held
from django_durable.store.recovery import Taken
from tests.store.conftest import Connect
from tests.store.parallel import Hooked, Threads, answer, row_locked, session, wait_until_blocked
from tests.store.rows import (
    LEASE,
    PAST,
    WORKFLOW,
    at,
    beating,
    child_entry,
    claim,
    claimant,
    entries,
    fresh,
    journal_row,
    make_run,
    row_of,
    running,
    stale,
    status_of,
    step_entry,
)

pytestmark = pytest.mark.django_db(transaction=True)


def lapsed(**more: Any) -> Run:
    return make_run(Status.RUNNING, lease_expires_at=at(PAST), **more)


def reap(db: PrivateDatabase, **more: Any) -> list[Taken]:
    return recovery.reap(db, **{"limit": 10, "lease": LEASE, "max_crashes": 3, **more})


# --- renewing --------------------------------------------------------------------------------


def test_renewing_extends_the_lease_and_touches_nothing_else(db: PrivateDatabase):
    claim = running(db)
    before = row_of(claim.run_id)
    assert recovery.renew(db, [claim.lease], lease=3600) == {claim.lease.token: recovery.Asked()}
    after = row_of(claim.run_id)
    assert after.pop("lease_expires_at") > before.pop("lease_expires_at") + timedelta(seconds=3500)
    assert after == before


def test_renewing_tells_of_a_cancellation_and_renews_all_the_same(db: PrivateDatabase):
    claim = running(db)
    Run.objects.update(cancel_requested_at=at(PAST))
    assert recovery.renew(db, [claim.lease], lease=LEASE) == {claim.lease.token: recovery.Asked(cancel=True)}


def test_renewing_with_a_stale_token_does_nothing(db: PrivateDatabase):
    claim = running(db)
    before = row_of(claim.run_id)
    assert recovery.renew(db, [stale(claim.lease)], lease=LEASE) == {}
    assert row_of(claim.run_id) == before
    assert recovery.renew(db, [], lease=LEASE) == {}


def test_which_claims_still_stand(db: PrivateDatabase):
    kept, over = running(db), running(db)
    write_batch(db, [(over.lease, Write(outcome=Completed("1")))])
    assert still_held(db, [kept.lease, over.lease, stale(kept.lease)]) == {kept.lease.token}


# --- reaping ---------------------------------------------------------------------------------


def test_a_lapsed_lease_of_a_dead_process_makes_its_run_suspect(db: PrivateDatabase):
    run = lapsed(priority=4, queue="q")
    [taken] = reap(db)
    assert taken == Taken(Ready(run.pk, "q", 4, is_under_way=True), Status.QUEUED, True, WORKFLOW, [])
    after = fresh(run)
    assert (after.suspect, after.crashes, after.lease_token, after.leased_by) == (True, 0, None, None)
    assert recovery.startable([taken]) == []


@pytest.mark.parametrize(
    ("ago", "stopped", "suspect"),
    [
        pytest.param(timedelta(0), False, False, id="beats"),
        pytest.param(timedelta(seconds=LEASE / 2), False, False, id="beat lately"),
        pytest.param(timedelta(seconds=LEASE * 0.98), False, True, id="told of itself a moment after its last renewal"),
        pytest.param(timedelta(seconds=LEASE * 2), False, True, id="is silent"),
        pytest.param(timedelta(0), True, True, id="has stopped"),
    ],
)
def test_only_a_process_that_does_not_live_makes_its_runs_suspect(
    db: PrivateDatabase, ago: timedelta, stopped: bool, suspect: bool
):
    """Found by chaos, seed 20261130: one that died right after a beat seemed to live when its leases lapsed."""
    worker = uuid4()
    beating(worker, ago, stopped_at=at(PAST) if stopped else None)
    beating(uuid4())
    run = lapsed(leased_by=worker)
    [taken] = reap(db)
    assert taken.suspect == fresh(run).suspect == suspect
    assert recovery.startable([taken]) == ([] if suspect else [taken.ready])


@pytest.mark.parametrize("by_supervisor", [True, False], ids=["seen dead", "lapsed"])
def test_a_suspect_that_dies_again_is_counted_until_it_is_blocked(db: PrivateDatabase, by_supervisor: bool):
    run = make_run()

    def die(is_first: bool) -> Taken:
        worker = uuid4()
        if is_first:
            claim(db, run, worker=worker, lease=-1)
        else:
            assert claim_suspect(db, claimant(worker=worker), lease=-1, time=DatabaseClock())
        if by_supervisor:
            # Its last beat was just now: only the supervisor knows better.
            beating(worker)
            [taken] = recovery.reap_worker(db, worker, lease=LEASE, max_crashes=3)
        else:
            [taken] = reap(db)
        return taken

    fates = []
    for turn in range(4):
        taken = die(is_first=turn == 0)
        after = fresh(run)
        fates.append((taken.status, taken.suspect, after.status, after.crashes, after.block_reason))
    queued = ("queued", True, "queued")
    assert fates == [
        (*queued, 0, ""),
        (*queued, 1, ""),
        (*queued, 2, ""),
        ("blocked", True, "blocked", 3, BlockReason.CRASHED),
    ]
    assert recovery.startable([taken]) == []


def guilty_child(**more: Any) -> tuple[Run, Run]:
    """A run that waits for its child, and the child, which has killed its process once too often."""
    parent = make_run(Status.WAITING, waiting_on="child:child", wake_at=None, priority=5)
    journal_row(parent, child_entry())
    return parent, lapsed(parent_id=parent.pk, parent_path="child", suspect=True, crashes=2, **more)


@pytest.mark.parametrize("by_supervisor", [True, False], ids=["seen dead", "lapsed"])
def test_a_child_that_is_reaped_as_cancelled_wakes_its_parent(db: PrivateDatabase, by_supervisor: bool):
    """At once, and not with the next sweep."""
    worker = uuid4()
    parent, child = guilty_child(leased_by=worker, cancel_requested_at=at(PAST))
    if by_supervisor:
        [taken] = recovery.reap_worker(db, worker, lease=LEASE, max_crashes=3)
    else:
        [taken] = reap(db)
    assert (taken.status, status_of(child)) == (Status.CANCELLED, Status.CANCELLED)
    assert recovery.startable([taken]) == [Ready(parent.pk, "default", 5)]
    assert status_of(parent) == Status.QUEUED


def test_children_of_one_map_that_are_reaped_together_ask_for_their_parent_once(db: PrivateDatabase):
    parent = make_run(Status.WAITING, waiting_on="map:each", wake_at=None)
    journal_row(parent, replace(child_entry("each"), kind=Kind.MAP))
    guilty = {"suspect": True, "crashes": 2, "cancel_requested_at": at(PAST)}
    for index in range(3):
        lapsed(parent_id=parent.pk, parent_path=f"each[{index}]", **guilty)
    hooked, asked = Hooked(), []

    def ask() -> None:
        asked.append("the map")
        hooked.before["SELECT j.path"] = ask

    hooked.before["SELECT j.path"] = ask
    assert recovery.startable(reap(hooked)) == [Ready(parent.pk, "default", 0)]
    assert asked == ["the map"]
    hooked.close()


def test_a_child_that_is_reaped_otherwise_wakes_nobody(db: PrivateDatabase):
    parent, child = guilty_child()
    queued = make_run(Status.WAITING, waiting_on="child:child")
    lapsed(parent_id=queued.pk, parent_path="child")
    assert recovery.startable(reap(db)) == []
    assert (status_of(child), status_of(parent), status_of(queued)) == ("blocked", "waiting", "waiting")


def test_a_suspect_whose_process_lives_is_not_guilty(db: PrivateDatabase):
    worker = uuid4()
    beating(worker)
    run = lapsed(leased_by=worker, suspect=True, crashes=2)
    [taken] = reap(db)
    assert (taken.status, fresh(run).crashes, fresh(run).suspect) == (Status.QUEUED, 2, True)


@pytest.mark.parametrize("is_step", [True, False], ids=["step", "progress"])
def test_a_newly_journaled_step_clears_a_suspect(db: PrivateDatabase, is_step: bool):
    make_run(suspect=True, crashes=2)
    [alone] = claim_suspect(db, claimant(), lease=LEASE, time=DatabaseClock())
    write_batch(db, [(alone.lease, Write(entries(step_entry())) if is_step else Write(progress="1"))])
    run = fresh(alone.run_id)
    assert (run.suspect, run.crashes) == ((False, 0) if is_step else (True, 2))
    assert alone.lease.is_suspect is not is_step
    assert write_batch(db, [(alone.lease, Write(outcome=Completed("1")))])[alone.run_id].status == Status.SUCCEEDED
    assert not fresh(alone.run_id).suspect


@pytest.mark.parametrize("outcome", [Released(), Paused()], ids=["released", "paused"])
@pytest.mark.parametrize("has_step", [True, False], ids=["with a step", "as it was"])
def test_a_suspect_that_is_handed_back_is_cleared_by_what_it_journaled_only(
    db: PrivateDatabase, outcome: Any, has_step: bool
):
    make_run(suspect=True, crashes=2)
    [alone] = claim_suspect(db, claimant(), lease=LEASE, time=DatabaseClock())
    write_batch(db, [(alone.lease, Write(entries(step_entry()) if has_step else {}, outcome=outcome))])
    run = fresh(alone.run_id)
    assert (run.suspect, run.crashes) == ((False, 0) if has_step else (True, 2))
    assert run.lease_token is None


def test_a_lost_claim_clears_nobody(db: PrivateDatabase):
    make_run(suspect=True, crashes=2)
    [alone] = claim_suspect(db, claimant(), lease=LEASE, time=DatabaseClock())
    Run.objects.filter(pk=alone.run_id).update(lease_token=uuid4())
    write_batch(db, [(alone.lease, Write(entries(step_entry())))])
    assert fresh(alone.run_id).suspect and alone.lease.is_suspect


def test_reaping_takes_no_more_than_its_limit(db: PrivateDatabase):
    runs = [lapsed() for _ in range(5)]
    assert [len(reap(db, limit=2)) for _ in range(4)] == [2, 2, 1, 0]
    assert {status_of(run) for run in runs} == {Status.QUEUED}


def test_what_was_seen_lapsed_is_reaped_unless_it_was_claimed_again(db: PrivateDatabase):
    """SQLite: a holder may merely have waited for the write lock, so a lease must be seen lapsed twice."""
    kept, claimed_again = lapsed(), lapsed()
    seen = recovery.find_lapsed(db, 10)
    assert seen == {kept.pk: kept.lease_token, claimed_again.pk: claimed_again.lease_token}
    Run.objects.filter(pk=claimed_again.pk).update(lease_token=uuid4())
    assert [taken.ready.id for taken in reap(db, seen=seen)] == [kept.pk]
    assert reap(db, seen={}) == []
    assert len(reap(db, seen=recovery.find_lapsed(db, 10))) == 1


def test_a_row_that_somebody_holds_is_reaped_later(db: PrivateDatabase, connect: Connect, threads: Threads):
    run = lapsed()
    with row_locked(connect(), run.pk):
        reaping = threads.start(reap, db)
        if db.dialect.has_writing_ctes:
            assert answer(reaping) == []
    assert len(answer(reaping) + reap(db)) == 1


# --- a process that ends ---------------------------------------------------------------------


def test_a_dead_process_gives_up_all_its_runs_and_nobody_elses(db: PrivateDatabase):
    worker, other = uuid4(), uuid4()
    runs = [make_run(Status.RUNNING, leased_by=worker) for _ in range(3)]
    spared = make_run(Status.RUNNING, leased_by=other)
    taken = recovery.reap_worker(db, worker, lease=LEASE, max_crashes=3)
    assert {t.ready.id for t in taken} == {run.pk for run in runs}
    assert {(fresh(run).status, fresh(run).suspect) for run in runs} == {("queued", True)}
    assert status_of(spared) == Status.RUNNING


def test_a_release_keeps_what_is_known_of_the_run(db: PrivateDatabase):
    worker = uuid4()
    run = make_run(
        Status.RUNNING,
        leased_by=worker,
        suspect=True,
        crashes=2,
        attempt=2,
        claims=5,
        phase="on_failure",
        cancel_requested_at=at(PAST),
        deadline_at=at(PAST),
        priority=3,
    )
    before = row_of(run)
    assert recovery.release_worker(db, worker) == [Ready(run.pk, "default", 3, is_under_way=True)]
    after = row_of(run)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"status", "queued_at", "lease_token", "leased_by", "lease_expires_at"}
    assert recovery.release_worker(db, worker) == []


def test_a_run_that_hands_itself_back_keeps_its_attempt_and_its_journal(db: PrivateDatabase):
    claimed = running(db, attempt=2)
    before = row_of(claimed.run_id)
    write = Write(entries(step_entry()), outcome=Released())
    ready = write_batch(db, [(claimed.lease, write)])[claimed.run_id].ready
    assert ready == [Ready(claimed.run_id, "default", 0, is_under_way=True)]
    after = row_of(claimed.run_id)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"status", "queued_at", "lease_token", "leased_by", "lease_expires_at"}
    [again] = claim(db, fresh(claimed.run_id))
    assert set(again.journal.entries) == {"step"}


def test_a_release_and_a_cancellation_of_the_same_runs_do_not_deadlock(
    db: PrivateDatabase, connect: Connect, threads: Threads
):
    """Both take the rows in the order of their keys, wherever they lie in the table."""
    worker = uuid4()
    ids = sorted(uuid4() for _ in range(2))
    for run_id in reversed(ids):
        make_run(Status.RUNNING, id=run_id, leased_by=worker)
    canceller = connect()
    with row_locked(canceller, ids[0]):
        releasing = threads.start(recovery.release_worker, db, worker)
        wait_until_blocked(connect(), session(canceller))
        d = canceller.dialect
        canceller.rows(f"SELECT id FROM django_durable_run WHERE id = %(id)s {d.wait_lock}", id=d.key(ids[1]))
    assert {ready.id for ready in answer(releasing)} == set(ids)
