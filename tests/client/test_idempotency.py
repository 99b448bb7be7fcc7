"""``on_conflict="replace"``: the live run under the key is cancelled, and a new one has the key."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_durable.core import clock
from django_durable.exceptions import IdempotencyConflict
from django_durable.models import Audit, IdempotencyKey, Run
from django_durable.store.database import Database, PrivateDatabase
from tests.app.workflows import doubling
from tests.store.parallel import SECONDS, Threads, answer, session, wait_until_blocked
from tests.store.rows import claim, fresh, status_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def threads() -> Any:
    with Threads() as threads:
        yield threads


@pytest.fixture
def db() -> Any:
    db = PrivateDatabase()
    yield db
    db.close()


@pytest.fixture
def later() -> Any:
    yield clock.set_offset
    clock.set_offset(timedelta(0))


def take(number: int = 1, **options: Any) -> UUID:
    return doubling.using(idempotency_key="order-1", **options).enqueue(number=number).id


def replace(number: int = 1, **options: Any) -> UUID:
    return take(number, on_conflict="replace", **options)


def test_a_free_key_is_taken_as_by_any_other():
    first = replace()
    assert take() == first
    assert IdempotencyKey.objects.get().run_id == first


def test_a_run_that_has_not_started_never_does():
    first = take()
    second = replace()
    assert second != first
    assert (status_of(first), status_of(second)) == ("cancelled", "queued")
    assert "order-1" in Audit.objects.get(run_id=first).reason
    assert take() == second
    assert IdempotencyKey.objects.get().run_id == second


def test_a_running_one_is_asked_to_stop(db: PrivateDatabase):
    first = take()
    Run.objects.update(workflow="tests.work")
    claim(db, fresh(first))
    second = replace()
    assert (status_of(first), status_of(second)) == ("running", "queued")
    assert fresh(first).cancel_requested_at is not None


def test_one_that_is_over_stays_as_it_ended():
    first = take()
    Run.objects.update(status="succeeded", finished_at=fresh(first).created_at)
    second = replace()
    assert second != first
    assert (status_of(first), status_of(second)) == ("succeeded", "queued")


def test_the_input_may_be_another():
    take(1)
    second = replace(2)
    assert take(2) == second
    with pytest.raises(IdempotencyConflict):
        take(1)


def test_the_time_of_the_key_begins_anew(later: Callable[[timedelta], None]):
    take(idempotency_ttl=timedelta(hours=1))
    later(timedelta(minutes=50))
    second = replace(idempotency_ttl=timedelta(hours=1))
    later(timedelta(minutes=100))
    assert take() == second


def test_nothing_is_replaced_by_a_start_that_is_rolled_back():
    first = take()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        replace()
        raise ZeroDivisionError
    assert take() == first
    assert status_of(first) == "queued"


class OpenReplacement:
    """Replaces the run in a transaction that stays open until it is told how to end."""

    def __init__(self, threads: Threads) -> None:
        self.done_so_far, self.end = threading.Event(), threading.Event()
        self.fails = False
        self.run_id: UUID | None = None
        self.session: Any = None
        self.done: Future[None] = threads.start(self._replace)
        assert self.done_so_far.wait(SECONDS)

    def _replace(self) -> None:
        with transaction.atomic():
            self.run_id = replace(2)
            self.session = session(Database())
            self.done_so_far.set()
            assert self.end.wait(SECONDS)
            transaction.set_rollback(self.fails)

    def finish(self, *, fails: bool) -> None:
        self.fails = fails
        self.end.set()
        answer(self.done)


@pytest.mark.behaviour("CHILD-02f")
@pytest.mark.parametrize("fails", [False, True], ids=["commits", "rolls back"])
@pytest.mark.parametrize("by", [take, replace], ids=["return", "replace"])
def test_who_asks_for_a_key_that_is_being_replaced_waits_for_how_that_ends(
    threads: Threads, db: PrivateDatabase, by: Callable[[int], UUID], fails: bool
):
    original = take(2)
    first = OpenReplacement(threads)
    second = threads.start(by, 2)
    wait_until_blocked(db, first.session)
    assert not second.done()
    first.finish(fails=fails)
    run_id = answer(second)
    before = original if fails else first.run_id
    assert (run_id == before) is (by is take)
    assert IdempotencyKey.objects.get().run_id == run_id
    assert list(Run.objects.filter(status="queued").values_list("pk", flat=True)) == [run_id]


@pytest.mark.behaviour("CHILD-02f")
def test_of_many_who_replace_at_once_one_run_stays(threads: Threads):
    take()
    barrier = threading.Barrier(4)

    def together() -> UUID:
        barrier.wait(SECONDS)
        return replace()

    ids = {answer(one) for one in [threads.start(together) for _ in range(4)]}
    assert len(ids) == 4
    [live] = Run.objects.filter(status="queued").values_list("pk", flat=True)
    assert IdempotencyKey.objects.get().run_id == live in ids
    assert Run.objects.filter(status="cancelled").count() == 4
