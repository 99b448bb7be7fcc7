"""Leases that are renewed later than by a beat that finds their rows free."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from django.db.utils import OperationalError

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from django_durable.models import Run
from django_durable.store import recovery
from django_durable.store.database import PrivateDatabase
from tests.store.parallel import Hooked
from tests.store.rows import LEASE, PAST, at, claim, fresh, make_run, row_of, running, stale

pytestmark = pytest.mark.django_db(transaction=True)

Travel = Callable[[float], None]


@pytest.fixture
def missed(db: PrivateDatabase, travel: Travel) -> Lease:
    """One that a heartbeat has missed, ten seconds after the claim."""
    lease = running(db).lease
    travel(10)
    lease.missed_beat = True
    return lease


@pytest.fixture
def hooked() -> Iterator[Hooked]:
    db = Hooked()
    yield db
    db.close()


def renew_missed(db: PrivateDatabase, *leases: Lease) -> None:
    recovery.renew_missed(db, leases, lease=LEASE)


def seconds_left(lease: Lease) -> tuple[float, float]:
    """Here, and in the database."""
    ends = fresh(lease.run_id).lease_expires_at
    return lease.ends - clock.monotonic(), (ends - clock.utcnow()).total_seconds()


def test_what_a_beat_has_missed_is_renewed_once(hooked: Hooked, missed: Lease) -> None:
    other = running(hooked).lease
    before = row_of(other.run_id)
    renew_missed(hooked, missed, other)
    here, there = seconds_left(missed)
    assert LEASE - 5 < here <= there + 0.01
    hooked.before["lease_expires_at ="] = partial(pytest.fail, "there is nothing more to renew")
    renew_missed(hooked, missed, other)
    assert row_of(other.run_id) == before


def test_it_counts_from_before_it_was_sent(hooked: Hooked, missed: Lease, travel: Travel) -> None:
    hooked.after["lease_expires_at ="] = lambda: travel(10)
    renew_missed(hooked, missed)
    assert LEASE - 15 < missed.ends - clock.monotonic() <= LEASE - 10


def test_what_is_over_when_the_answer_comes_stays_over(hooked: Hooked, missed: Lease, travel: Travel) -> None:
    """Somebody may have dropped a result because of that."""
    hooked.after["lease_expires_at ="] = lambda: travel(LEASE - 9)
    renew_missed(hooked, missed)
    assert missed.is_over


@pytest.mark.parametrize("seconds", [5, 15])
def test_where_a_beat_comes_between_the_earlier_end_counts(hooked: Hooked, missed: Lease, seconds: float) -> None:
    """Which of both the database has done last nobody knows."""
    known = missed.ends
    hooked.after["lease_expires_at ="] = lambda: missed.renew(known + seconds)
    renew_missed(hooked, missed)
    assert known + 5 <= missed.ends <= known + min(seconds, 11)


def test_where_the_database_is_away_the_next_try_renews_it(hooked: Hooked, missed: Lease) -> None:
    def fail() -> None:
        raise OperationalError("away")

    hooked.before["lease_expires_at ="] = fail
    with pytest.raises(OperationalError):
        renew_missed(hooked, missed)
    assert seconds_left(missed)[1] < LEASE - 5
    renew_missed(hooked, missed)
    assert seconds_left(missed)[1] > LEASE - 5


def test_whose_row_is_not_ours_any_more_is_not_renewed_and_asked_for_once(hooked: Hooked, missed: Lease) -> None:
    taken = stale(missed)
    taken.missed_beat, ends, before = True, taken.ends, row_of(missed.run_id)
    renew_missed(hooked, taken)
    assert (taken.ends, row_of(missed.run_id)) == (ends, before)
    # What somebody holds for minutes must not cost each commit a statement.
    hooked.before["lease_expires_at ="] = partial(pytest.fail, "it was asked for again before the next beat")
    renew_missed(hooked, taken)


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
