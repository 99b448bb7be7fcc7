"""What a claim under limits locks: as many runs of a key as that has room for, whatever its backlog."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.core.limits import Bounds, Rate
from django_durable.store.claiming import Claim
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.dialects.postgresql import TIES
from django_durable.store.limiting import KeyWalk, claim_limited
from tests.store.conftest import Connect
from tests.store.rows import LEASE, PAST, at, make_run
from tests.store.test_limits import end, ending, ids_of, limited
from tests.store.test_rates import paced

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = EACH = 12
MANY = """
    INSERT INTO django_durable_run (id, workflow, queue, priority, status, phase, attempt, claims, crashes, suspect,
        block_reason, fingerprint, waiting_on, queued_at, parent_path, root_id, detached, limit_key)
    SELECT gen_random_uuid(), 'tests.work', 'default', 0, 'queued', 'forward', 1, 0, 0, false, '', '', '',
        now() - n * interval '1 second', '', gen_random_uuid(), false, 'key ' || key
    FROM generate_series(1, %(each)s) n, generate_series(1, %(keys)s) key"""
HOLD = """
    SELECT id FROM django_durable_run
    WHERE limit_key = %(key)s AND queued_at < now() - %(seconds)s * interval '1 second' FOR UPDATE"""
ONCE = Rate(1, 60)


def take(db: Database, bounds: Bounds, limit: int = KEYS) -> list[Claim]:
    return claim_limited(db, paced(bounds), limit, KeyWalk(), lease=LEASE, time=DatabaseClock())


def backlogs() -> None:
    """As many keys as a claim takes runs, and as many runs of each."""
    with connection.cursor() as cursor:
        cursor.execute(MANY, {"keys": KEYS, "each": EACH})


def locked_in_vain(db: Database) -> int:
    """Runs that have been locked and are queued still: ``xmax`` names who did it last, also when that is over."""
    [(count,)] = db.rows("SELECT count(*) FROM django_durable_run WHERE status = 'queued' AND xmax <> '0'::xid")
    return int(count)


def at_one_instant(count: int) -> list[UUID]:
    """The last of them was stored first."""
    ids, since = [uuid7() for _ in range(count)], at(PAST)
    for run_id in reversed(ids):
        make_run(id=run_id, limit_key="a", queued_at=since)
    return ids


@pytest.mark.parametrize(
    "bounds",
    [Bounds(1), Bounds(rate=ONCE), Bounds(3, ONCE), Bounds(1, Rate(3, 60))],
    ids=["maximum", "rate", "less by rate", "less at a time"],
)
def test_of_each_key_it_locks_what_it_takes(db: PrivateDatabase, bounds: Bounds) -> None:
    backlogs()
    assert len(take(db, bounds)) == KEYS
    assert locked_in_vain(db) == 0


def test_of_a_key_without_bounds_it_locks_no_more_than_it_may_take(db: PrivateDatabase) -> None:
    backlogs()
    assert len(take(db, Bounds(), 2)) == 2
    assert locked_in_vain(db) == 2


def test_beside_what_ends_and_what_goes_on_it_locks_one_more_of_a_key(db: PrivateDatabase) -> None:
    """Who may take either is not known before: each kind is looked for by itself."""
    backlogs()
    last = [ending(key=f"key {number}") for number in range(1, 4)]
    more = [limited(f"key {number}", age=1, claims=1, started_at=at(PAST)) for number in range(4, 7)]
    claims = take(db, Bounds(rate=ONCE), limit=2 * KEYS)
    assert len(claims) == KEYS + 6
    assert ids_of(claims) >= {run.pk for run in last + more}
    assert locked_in_vain(db) <= 6


@pytest.mark.parametrize("bounds", [Bounds(1), Bounds(rate=ONCE), Bounds(2, ONCE)], ids=["maximum", "rate", "both"])
@pytest.mark.parametrize("begun", [{}, {"claims": 1, "started_at": at(PAST)}], ids=["new", "goes on"])
def test_runs_that_somebody_holds_starve_none_of_their_key(
    db: PrivateDatabase, connect: Connect, bounds: Bounds, begun: dict[str, Any]
) -> None:
    for number in range(30):
        limited(age=900 - number, **begun)
    other, next_one, holding = limited("b", age=900), limited(age=90), connect()
    limited(age=9)
    with holding.transaction():
        holding.rows(HOLD, seconds=100, key="a")
        assert ids_of(take(db, bounds)) == {other.pk, next_one.pk}


@pytest.mark.behaviour("RUN-12c")
@pytest.mark.parametrize("bounds", [Bounds(1), Bounds(rate=ONCE)], ids=["maximum", "rate"])
def test_runs_that_were_queued_at_one_instant_start_in_the_order_of_their_ids(
    db: PrivateDatabase, bounds: Bounds
) -> None:
    """As those of an ``enqueue_many`` are, wherever the table has had room for them."""
    ids = at_one_instant(TIES + 1)
    [claim] = take(db, bounds, 100)
    assert claim.run_id == ids[0]
    end(db, claim)
    [claim] = take(db, Bounds(1), 100)
    assert claim.run_id == ids[1]


@pytest.mark.parametrize(("limit", "in_vain"), [(1, 0), (10, 9), (100, TIES)])
def test_of_those_queued_at_one_instant_it_locks_a_few_more(db: PrivateDatabase, limit: int, in_vain: int) -> None:
    at_one_instant(2 * TIES)
    assert len(take(db, Bounds(1), limit)) == 1
    assert locked_in_vain(db) == in_vain
