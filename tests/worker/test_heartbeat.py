"""Leases are renewed by one thread; a process that cannot renew stops writing before anybody else may start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.utils import OperationalError
from django.utils import timezone

from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.flow.lease import Lease
from django_durable.models import Run
from django_durable.store.claiming import claim_ids
from django_durable.store.database import PrivateDatabase, Row
from django_durable.worker.heartbeat import Heartbeat
from django_durable.worker.slots import Slots
from tests.processes import wait_until
from tests.store.parallel import Hooked
from tests.store.rows import claimant, fresh, make_run, running

pytestmark = pytest.mark.django_db(transaction=True)

Travel = Callable[[float], None]
LEASE = 30.0


@pytest.fixture
def slots() -> Slots:
    return Slots(4)


@pytest.fixture
def lease(db: PrivateDatabase, slots: Slots) -> Lease:
    claim = running(db)
    slots.take(claim)
    return claim.lease


class Unreliable(PrivateDatabase):
    """A database that is away for the next ``failures`` statements."""

    failures = 0

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        if self.failures:
            self.failures -= 1
            raise OperationalError("away")
        return super().rows(sql, **parameters)


@pytest.fixture
def unreliable() -> Iterator[Unreliable]:
    db = Unreliable()
    yield db
    db.close()


def silent(db: PrivateDatabase) -> None:
    pass


@pytest.mark.behaviour("RUN-15a")
def test_a_beat_renews_here_and_in_the_database(
    db: PrivateDatabase, slots: Slots, lease: Lease, travel: Travel
) -> None:
    before, ends = fresh(lease.run_id), lease.ends
    travel(10)
    Heartbeat(db, slots, silent).beat()
    after = fresh(lease.run_id)
    assert after.lease_expires_at - before.lease_expires_at > timedelta(seconds=9.9)
    assert lease.ends - ends > 9.9
    assert after.lease_token == before.lease_token


def test_a_beat_tells_of_the_process(db: PrivateDatabase, slots: Slots) -> None:
    told: list[PrivateDatabase] = []
    Heartbeat(db, slots, told.append).beat()
    assert told == [db]


def test_a_lease_that_was_taken_away_is_lost(db: PrivateDatabase, slots: Slots, lease: Lease) -> None:
    kept = running(db)
    slots.take(kept)
    Run.objects.filter(pk=lease.run_id).update(lease_token=uuid4())
    Heartbeat(db, slots, silent).beat()
    assert (lease.is_lost, kept.lease.is_lost) == (True, False)


def test_a_beat_hears_of_a_cancellation(db: PrivateDatabase, slots: Slots, lease: Lease) -> None:
    Run.objects.filter(pk=lease.run_id).update(cancel_requested_at=timezone.now())
    Heartbeat(db, slots, silent).beat()
    assert lease.cancel_requested
    assert not lease.is_over


def test_a_claim_counts_from_before_it_was_sent(travel: Travel) -> None:
    run, slow = make_run(), Hooked()
    slow.after["lease_token ="] = lambda: travel(10)
    [claim] = claim_ids(slow, claimant(), [run.pk], lease=LEASE, time=DatabaseClock())
    slow.close()
    # The answer took ten seconds: a third of the lease is gone.
    assert claim.lease.ends - clock.monotonic() <= LEASE - 10


def test_a_renewal_counts_from_before_it_was_sent(slots: Slots, lease: Lease, travel: Travel) -> None:
    slow = Hooked()
    slow.after["lease_expires_at ="] = lambda: travel(10)
    Heartbeat(slow, slots, silent).beat()
    slow.close()
    assert lease.ends - clock.monotonic() <= LEASE - 10


def test_where_a_commit_renews_while_a_beat_is_under_way_the_earlier_end_counts(
    slots: Slots, lease: Lease, travel: Travel
) -> None:
    slow, earlier = Hooked(), lease.ends + 5
    travel(10)
    slow.after["lease_expires_at ="] = lambda: lease.renew(earlier)
    Heartbeat(slow, slots, silent).beat()
    slow.close()
    assert lease.ends == earlier


def test_without_a_beat_the_lease_ends_here_before_it_ends_in_the_database(
    unreliable: Unreliable, slots: Slots, lease: Lease, travel: Travel
) -> None:
    unreliable.failures = 1
    with pytest.raises(OperationalError):
        Heartbeat(unreliable, slots, silent).beat()
    assert not lease.is_over
    now, left = clock.utcnow(), lease.ends - clock.monotonic()
    travel(left)
    assert lease.is_over
    # SQLite writes milliseconds.
    assert fresh(lease.run_id).lease_expires_at > now + timedelta(seconds=left - 0.01)


def test_the_thread_outlives_a_database_that_is_away(
    unreliable: Unreliable, slots: Slots, lease: Lease, settings: Any
) -> None:
    # Were it not for the failures the next beat would be a minute away: after one it comes sooner.
    settings.DURABLE = {**settings.DURABLE, "HEARTBEAT_SECONDS": 0.1}
    ends, unreliable.failures = lease.ends, 2
    heartbeat = Heartbeat(unreliable, slots, silent)
    heartbeat.begin()
    wait_until(lambda: lease.ends > ends, message="a beat after two that failed")
    heartbeat.stop()
    assert unreliable.failures == 0
