"""Two workers at one limit, statement by statement: on PostgreSQL, where they do not stand in line by themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from django_durable.core.clock import DatabaseClock
from django_durable.models import Limit, Run
from django_durable.store.claiming import Claim
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.limiting import KeyWalk, claim_limited
from tests.store.conftest import Connect
from tests.store.parallel import Hooked, Threads, answer, session, wait_until_blocked
from tests.store.rows import LEASE, PAST, at
from tests.store.test_limits import end, ending, ids_of, limited, limiter
from tests.store.test_postgres_costs import Touching, touching
from tests.store.test_postgres_races import GATE, Gated
from tests.store.test_postgres_rates import MANY, find_room
from tests.store.test_postgres_rates import claim as grant

__all__ = ["touching"]

pytestmark = pytest.mark.django_db(transaction=True)

LOCK, COUNT = "WHERE l.key", "AS counted"


def take(db: Database) -> list[Claim]:
    return claim_limited(db, limiter(), 10, KeyWalk(), lease=LEASE, time=DatabaseClock())


@pytest.fixture
def gated(transactional_db: None) -> Gated:
    return Gated(LOCK)


def at_the_gate(gated: Gated, connect: Connect, threads: Threads, meanwhile: Callable[[], object]) -> list[Claim]:
    """What a claim gets that had its snapshot before ``meanwhile`` and the key's lock after it."""
    keeper, watching = connect(), connect()
    with keeper.transaction():
        keeper.rows(f"SELECT pg_advisory_xact_lock({GATE})")
        future = threads.start(take, gated)
        wait_until_blocked(watching, session(keeper))
        meanwhile()
        assert not future.done()
    try:
        return answer(future)
    finally:
        gated.close()


@pytest.mark.behaviour("RUN-12a")
def test_who_gets_the_lock_after_another_claimed_counts_anew(
    db: PrivateDatabase, gated: Gated, connect: Connect, threads: Threads
):
    """A statement that locks and counts would count on the snapshot from before it waited (limits.pml: CLAIM=1)."""
    limited(age=9)
    limited(age=8)
    Limit.objects.create(key="a")
    claims: list[Claim] = []
    assert at_the_gate(gated, connect, threads, lambda: claims.extend(take(db))) == []
    assert len(claims) == Run.objects.filter(status="running").count() == 1


def test_who_gets_the_lock_after_a_slot_became_free_may_use_it(
    db: PrivateDatabase, gated: Gated, connect: Connect, threads: Threads
):
    first, second = limited(age=9), limited(age=8)
    Limit.objects.create(key="a")
    claims = at_the_gate(gated, connect, threads, lambda: end(db, *take(db)))
    assert ids_of(claims) == {second.pk}
    assert Run.objects.get(pk=first.pk).status == "succeeded"


@pytest.mark.parametrize("moment", [LOCK, COUNT], ids=["locked", "claimed"])
def test_of_a_key_that_another_holds_nothing_is_claimed_and_nobody_waits(db: PrivateDatabase, moment: str):
    limited("a", age=9)
    limited("a", age=8)
    other = limited("b")
    hooked = Hooked()
    found: list[Claim] = []
    hooked.after[moment] = lambda: (limited("c"), found.extend(take(db)))
    claims = take(hooked)
    hooked.close()
    assert {claim.limit_key for claim in claims} == {"a", "b"}
    assert other.pk in ids_of(claims)
    assert [claim.limit_key for claim in found] == ["c"]


def test_of_a_key_whose_row_is_pruned_at_this_moment_nothing_is_claimed(db: PrivateDatabase):
    limited()
    hooked = Hooked()
    hooked.before[LOCK] = lambda: Limit.objects.all().delete()
    assert take(hooked) == []
    assert len(take(hooked)) == 1
    hooked.close()


def test_of_a_key_whose_run_comes_to_its_end_after_the_first_look_nothing_else_is_claimed(db: PrivateDatabase):
    old = limited(age=1, claims=1, status="waiting", waiting_on="event:go", started_at=at(PAST))
    limited(age=900, priority=9)
    hooked = Hooked()
    asked = {"cancel_requested_at": at(PAST), "queued_at": at(PAST), "waiting_on": ""}
    hooked.before[COUNT] = lambda: Run.objects.filter(pk=old.pk).update(status="queued", **asked)
    assert take(hooked) == []
    hooked.close()
    assert ids_of(take(db)) == {old.pk}


def test_while_somebody_holds_the_row_of_what_ends_nobody_begins_in_its_place(db: PrivateDatabase, connect: Connect):
    last = ending()
    limited()
    holding = connect()
    with holding.transaction():
        holding.rows("SELECT id FROM django_durable_run WHERE id = %(id)s FOR NO KEY UPDATE", id=str(last.pk))
        assert take(db) == []
    assert ids_of(take(db)) == {last.pk}


@pytest.mark.parametrize(("ask", "pages"), [(find_room, 80), (grant, 300)], ids=["room", "claim of ten"])
def test_what_ends_is_found_whatever_else_of_its_key_goes_on(touching: Touching, ask: Callable[..., None], pages: int):
    with connection.cursor() as cursor:
        cursor.execute(MANY, {"status": "queued", "ago": 90_000, "count": 10_000})
        ending()
        cursor.execute("ANALYZE django_durable_run")
    ask(touching, ends=True)
    assert "durable_run_limited_ending" in touching.indexes
    assert touching.pages < pages


def test_a_cancelled_run_between_the_count_and_the_claim_frees_nothing_twice(db: PrivateDatabase):
    limited(age=9)
    limited(age=8)
    hooked = Hooked()
    hooked.before[COUNT] = lambda: Run.objects.filter(queued_at__isnull=False).order_by("queued_at")[0].delete()
    assert len(take(hooked)) == 1
    assert take(db) == []
    hooked.close()
