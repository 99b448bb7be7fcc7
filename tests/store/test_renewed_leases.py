"""Leases that are renewed between two looks of the reaper: on SQLite it takes what it has seen lapsed twice."""

from __future__ import annotations

import pytest

from django_durable.models import Run
from django_durable.store import recovery
from django_durable.store.database import PrivateDatabase
from tests.store.rows import LEASE, PAST, at, claim, make_run, row_of

pytestmark = pytest.mark.django_db(transaction=True)


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
