"""Which worker claimed a run when: the first claim in its own row, later ones and lost ones beside it."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Suspended
from django_durable.core.journal.states import Status
from django_durable.core.limits import Bounds
from django_durable.models import ClaimRecord, Run
from django_durable.store import recovery
from django_durable.store.claiming import Claimant, claim_next, claim_suspect, read_claims
from django_durable.store.committing import write_batch
from django_durable.store.database import PrivateDatabase
from django_durable.store.limiting import KeyWalk, claim_limited
from django_durable.store.sql import claims as sql
from django_durable.store.sql.claim_records import KEPT
from tests.store.rows import (
    LEASE,
    PAST,
    WORKFLOW,
    at,
    claim,
    claimant,
    claims_of,
    entries,
    fresh,
    make_run,
    row_of,
    sleep_entry,
)

pytestmark = pytest.mark.django_db(transaction=True)


def reap(db: PrivateDatabase) -> list[UUID]:
    return [taken.ready.id for taken in recovery.reap(db, 10, lease=LEASE, max_crashes=3)]


def test_a_first_claim_is_told_by_the_run_alone(db: PrivateDatabase) -> None:
    run, worker = make_run(), uuid4()
    claim(db, run, worker=worker)
    assert fresh(run).started_by == worker
    assert claims_of(run) == []


def test_a_claim_after_a_sleep_has_a_row_and_leaves_the_first_alone(db: PrivateDatabase) -> None:
    """Also where both come in one statement, and the run is found because it has come due."""
    slept, first, second = make_run(), uuid4(), uuid4()
    [claimed] = claim(db, slept, worker=first)
    write_batch(db, [(claimed.lease, Write(entries(sleep_entry(0.0)), outcome=Suspended("sleep:nap", wake_after=0.0)))])
    Run.objects.filter(pk=slept.pk).update(wake_at=at(PAST), started_at=at(PAST))
    new = make_run()
    claims = claim_next(db, claimant(worker=second), 10, lease=LEASE, time=DatabaseClock())
    assert {one.run_id: one.claims for one in claims} == {slept.pk: 2, new.pk: 1}
    assert (fresh(slept).started_by, fresh(new).started_by) == (first, second)
    assert (claims_of(slept), claims_of(new)) == ([(2, second, False)], [])
    assert abs(ClaimRecord.objects.get().claimed_at - at(timedelta(0))) < timedelta(minutes=1)


def test_a_claim_under_a_limit_is_kept_likewise(db: PrivateDatabase) -> None:
    run = make_run(limit_key="key", claims=1, started_at=at(PAST))
    who = Claimant(uuid4(), ("default",), (WORKFLOW,), {WORKFLOW: Bounds(concurrency=1)})
    [claimed] = claim_limited(db, who, 1, KeyWalk(), lease=LEASE, time=DatabaseClock())
    assert claimed.run_id == run.pk
    assert claims_of(run) == [(2, who.id, False)]


@pytest.mark.parametrize("by_supervisor", [True, False], ids=["seen dead", "lapsed"])
def test_lost_claims_are_marked_and_those_that_took_over_are_not(db: PrivateDatabase, by_supervisor: bool) -> None:
    workers, run = [uuid4() for _ in range(3)], make_run()
    for number, worker in enumerate(workers):
        if number == 0:
            claim(db, run, worker=worker, lease=-1)
        else:
            assert claim_suspect(db, claimant(worker=worker), lease=-1, time=DatabaseClock())
        if number < 2 and by_supervisor:
            assert recovery.reap_worker(db, worker, lease=LEASE, max_crashes=3)
        elif number < 2:
            assert reap(db) == [run.pk]
    assert claims_of(run) == [(1, workers[0], True), (2, workers[1], True), (3, workers[2], False)]
    lost = ClaimRecord.objects.get(number=1)
    assert lost.claimed_at == fresh(run).started_at
    assert lost.lost_at is not None
    assert lost.claimed_at <= lost.lost_at


def test_only_those_whose_leases_were_taken_away_are_marked(db: PrivateDatabase) -> None:
    kept, lapsed = make_run(), make_run()
    claim(db, kept)
    claim(db, lapsed, lease=-1)
    assert reap(db) == [lapsed.pk]
    assert claims_of(kept) == []
    assert len(claims_of(lapsed)) == 1


def test_a_release_is_no_loss(db: PrivateDatabase) -> None:
    run, worker = make_run(), uuid4()
    claim(db, run, worker=worker)
    recovery.release_worker(db, worker)
    claim(db, run)
    assert [(number, lost) for number, _, lost in claims_of(run)] == [(2, False)]


def test_a_run_that_sleeps_and_goes_on_for_ever_keeps_its_latest_claims(db: PrivateDatabase) -> None:
    workers, run = [uuid4() for _ in range(KEPT + 3)], make_run()
    for worker in workers:
        claim(db, run, worker=worker, lease=-1)
        assert reap(db) == [run.pk]
        Run.objects.update(suspect=False, crashes=0)
    # Of the first its run still tells, but not that it was lost.
    assert claims_of(run) == [(number, workers[number - 1], True) for number in range(4, KEPT + 4)]
    claim(db, run)
    assert claims_of(run)[-1][::2] == (KEPT + 4, False)


def test_claims_by_a_release_that_kept_nothing_stay_unknown(db: PrivateDatabase) -> None:
    first = make_run(Status.RUNNING, lease_expires_at=at(PAST))
    later = make_run(Status.RUNNING, lease_expires_at=at(PAST), claims=2, started_by=uuid4())
    assert set(reap(db)) == {first.pk, later.pk}
    assert claims_of(first) == claims_of(later) == []
    Run.objects.update(suspect=False)
    worker = uuid4()
    claim(db, first, worker=worker)
    assert row_of(first)["started_by"] is None
    assert claims_of(first) == [(2, worker, False)]


def test_who_lost_its_lease_before_it_had_noted_its_claim_notes_it_no_more(db: PrivateDatabase) -> None:
    """It was frozen between the two statements, and thaws when another has claimed the run."""
    d, run = db.dialect, make_run(claims=1, started_at=at(PAST))
    frozen, heir = claimant(worker=uuid4()), claimant(worker=uuid4())
    rows = db.rows(
        sql.claim_ids(d),
        ids=d.list([run.pk]),
        queues=d.list(frozen.queues),
        workflows=d.list(frozen.workflows),
        worker=d.key(frozen.id),
        lease=-1.0,
    )
    assert [taken.ready.id for taken in recovery.reap(db, 10, lease=LEASE, max_crashes=3)] == [run.pk]
    assert claim_suspect(db, heir, lease=LEASE, time=DatabaseClock())
    told: list[tuple[int, UUID, bool]] = [(3, heir.id, False)]
    assert claims_of(run) == told
    read_claims(db, frozen, rows, clock.monotonic() - 1, DatabaseClock())
    assert claims_of(run) == told
