"""The engine's clock goes on inside a transaction, where PostgreSQL's ``now()`` stands at its beginning."""

from __future__ import annotations

import pytest

from django_durable.core.clock import DatabaseClock
from django_durable.store import recovery
from django_durable.store.claiming import claim_next
from django_durable.store.database import Database, PrivateDatabase
from tests.store.rows import LEASE, claimant, fresh, make_run, running

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 0.05


def grow_older(db: Database) -> None:
    """By the server's clock, which is the one that counts."""
    db.rows(f"SELECT pg_sleep({SECONDS})")


def lease_since_the_beginning(db: Database) -> float:
    """How many seconds after the beginning of the transaction the only run's lease ends."""
    return float(db.rows("SELECT extract(epoch FROM lease_expires_at - now()) FROM django_durable_run")[0][0])


def end_in_the_midst(db: Database, column: str) -> None:
    """Let the time in ``column`` come after the beginning of the transaction, and before what follows."""
    grow_older(db)
    db.rows(f"UPDATE django_durable_run SET {column} = clock_timestamp()")
    grow_older(db)


def test_a_lease_is_counted_from_the_claim_and_not_from_the_beginning_of_its_transaction(db: PrivateDatabase):
    make_run()
    with db.transaction():
        grow_older(db)
        [claimed] = claim_next(db, claimant(), 10, lease=LEASE, time=DatabaseClock())
        assert lease_since_the_beginning(db) >= LEASE + SECONDS
        grow_older(db)
        assert set(recovery.renew(db, [claimed.lease], lease=LEASE)) == {claimed.lease.token}
        assert lease_since_the_beginning(db) >= LEASE + 2 * SECONDS


def test_what_comes_due_during_a_transaction_is_due_in_it(db: PrivateDatabase):
    run = make_run("waiting")
    with db.transaction():
        end_in_the_midst(db, "wake_at")
        assert [ready.id for ready in recovery.promote(db, 10)] == [run.pk]


def test_a_lease_that_lapses_during_a_transaction_is_reaped_in_it(db: PrivateDatabase):
    claimed = running(db)
    with db.transaction():
        end_in_the_midst(db, "lease_expires_at")
        assert len(recovery.reap(db, 10, lease=LEASE, max_crashes=3)) == 1
    assert fresh(claimed.run_id).lease_token is None
