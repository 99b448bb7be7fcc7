"""Leases that are renewed other than by a beat that finds its row free: by a commit, or late."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import DatabaseError, transaction

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Outcome, Released
from django_durable.models import Run
from django_durable.store import recovery
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from tests.store.parallel import Hooked
from tests.store.rows import LEASE, PAST, at, claim, entries, fresh, make_run, row_of, running, stale, step_entry

pytestmark = pytest.mark.django_db(transaction=True)

Travel = Callable[[float], None]


def a_step(outcome: Outcome | None = None) -> Write:
    return Write(entries(step_entry()), outcome=outcome)


@pytest.fixture
def left(db: PrivateDatabase, travel: Travel) -> Lease:
    """One whose row a heartbeat found held, ten seconds after the claim."""
    lease = running(db).lease
    travel(10)
    lease.missed_beat = True
    return lease


def seconds_left(lease: Lease) -> tuple[float, float]:
    """Here, and in the database."""
    ends = fresh(lease.run_id).lease_expires_at
    return lease.ends - clock.monotonic(), (ends - clock.utcnow()).total_seconds()


def test_a_write_renews_what_a_beat_has_left(db: PrivateDatabase, left: Lease) -> None:
    other = running(db).lease
    before = row_of(other.run_id)
    receipts = write_batch(db, [(left, a_step()), (other, a_step())])
    assert receipts[left.run_id].is_held and receipts[other.run_id].is_held
    here, there = seconds_left(left)
    assert LEASE - 5 < here <= there + 0.01
    assert not left.missed_beat
    # Once: its next write finds nothing to renew, nor did that of its neighbour.
    renewed = row_of(left.run_id)
    assert write_batch(db, [(left, a_step())])[left.run_id].is_held
    assert (row_of(left.run_id), row_of(other.run_id)) == (renewed, before)


def test_a_renewal_by_a_write_counts_from_before_it_was_sent(left: Lease, travel: Travel) -> None:
    slow = Hooked()
    slow.after["lease_expires_at ="] = lambda: travel(10)
    write_batch(slow, [(left, a_step())])
    slow.close()
    assert 0 < left.ends - clock.monotonic() <= LEASE - 10


def test_a_write_that_fails_renews_nothing(left: Lease) -> None:
    def fail() -> None:
        raise DatabaseError("no")

    db, ends = Hooked(), left.ends
    db.after["lease_expires_at ="] = fail
    with pytest.raises(DatabaseError):
        write_batch(db, [(left, a_step())])
    db.close()
    assert (left.ends, left.missed_beat) == (ends, True)
    assert seconds_left(left)[1] < LEASE - 5


@pytest.mark.parametrize("outcome", [Completed("1"), Released()], ids=["ends", "is handed back"])
def test_nothing_is_renewed_of_a_run_that_is_given_up(db: PrivateDatabase, left: Lease, outcome: Outcome) -> None:
    assert write_batch(db, [(left, a_step(outcome))])[left.run_id].is_held
    assert fresh(left.run_id).lease_expires_at is None


def test_a_write_that_the_fence_refuses_renews_nothing(db: PrivateDatabase, left: Lease) -> None:
    taken = stale(left)
    taken.missed_beat, ends, before = True, taken.ends, row_of(left.run_id)
    assert write_batch(db, [(taken, a_step())])[left.run_id].is_lost
    assert (taken.ends, row_of(left.run_id)) == (ends, before)


def test_a_write_within_a_transaction_of_the_callers_renews_nothing(left: Lease) -> None:
    """Whether that is committed nobody knows yet."""
    ends = left.ends
    with transaction.atomic():
        assert write_batch(Database(), [(left, a_step())])[left.run_id].is_held
    assert (left.ends, left.missed_beat) == (ends, True)
    assert seconds_left(left)[1] < LEASE - 5


def test_a_lease_that_was_seen_lapsed_and_is_renewed_since_stays(db: PrivateDatabase):
    """Its holder had to wait for the write lock, and got it before the reaper's second look: the token is the same."""
    late, [held] = make_run(), claim(db, make_run())
    [lapsed] = claim(db, late)
    Run.objects.update(lease_expires_at=at(PAST))
    seen = recovery.find_lapsed(db, 10)
    assert set(seen) == {held.run_id, lapsed.run_id}
    assert set(recovery.renew(db, [held.lease], lease=LEASE)) == {held.lease.token}
    before = row_of(held.run_id)
    taken = recovery.reap(db, 10, lease=LEASE, max_crashes=3, seen=seen)
    assert [run.ready.id for run in taken] == [lapsed.run_id]
    assert row_of(held.run_id) == before
