"""Idempotency keys: one key, one run, whoever else takes it at the same moment and however that ends."""

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
from django_durable.models import IdempotencyKey, Run
from django_durable.store.database import Database
from tests.app.workflows import doubling, sleepy
from tests.store.conftest import Connect
from tests.store.parallel import SECONDS, Threads, answer, session, wait_until_blocked

pytestmark = pytest.mark.django_db(transaction=True)


def take(number: int = 1, key: str = "order-1", **options: Any) -> UUID:
    return doubling.using(idempotency_key=key, **options).enqueue(number=number).id


class Changed(Exception):
    """Raised by a taker that changes its mind."""


class OpenTaker:
    """Takes the key in a transaction that stays open until it is told how to end."""

    def __init__(self, threads: Threads) -> None:
        self.taken, self.end = threading.Event(), threading.Event()
        self.fails = False
        self.run_id: UUID | None = None
        self.session: Any = None
        self.done: Future[None] = threads.start(self._take)
        assert self.taken.wait(SECONDS)

    def _take(self) -> None:
        try:
            with transaction.atomic():
                self.run_id = take()
                self.session = session(Database())
                self.taken.set()
                assert self.end.wait(SECONDS)
                if self.fails:
                    raise Changed
        except Changed:
            pass

    def finish(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.end.set()
        answer(self.done)


@pytest.mark.behaviour("CHILD-02a")
def test_the_same_key_finds_the_same_run():
    first = take()
    assert take() == first
    assert take(key="order-2") != first
    assert sleepy.using(idempotency_key="order-1").enqueue(seconds=1).id != first
    assert Run.objects.count() == 3


@pytest.mark.behaviour("CHILD-02b")
def test_another_input_under_the_key_is_an_error_and_starts_nothing():
    first = take()
    with pytest.raises(IdempotencyConflict) as caught:
        take(2)
    assert caught.value.run_id == first
    assert Run.objects.count() == 1


def test_a_taken_key_may_be_rejected():
    take()
    with pytest.raises(IdempotencyConflict):
        take(on_conflict="reject")


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.behaviour("CHILD-02f")
@pytest.mark.parametrize("fails", [False, True], ids=["commits", "rolls back"])
def test_who_takes_a_key_that_is_being_taken_waits_for_how_that_ends(threads: Threads, connect: Connect, fails: bool):
    first = OpenTaker(threads)
    second = threads.start(take)
    wait_until_blocked(connect(), first.session)
    assert not second.done()
    first.finish(fails=fails)
    run_id = answer(second)
    assert (run_id == first.run_id) is not fails
    assert [run.pk for run in Run.objects.all()] == [run_id]
    assert IdempotencyKey.objects.get().run_id == run_id


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.behaviour("CHILD-02f")
def test_of_many_who_take_a_key_at_once_one_starts_a_run(threads: Threads):
    barrier = threading.Barrier(6)

    def together() -> UUID:
        barrier.wait(SECONDS)
        return take()

    ids = {answer(one) for one in [threads.start(together) for _ in range(6)]}
    assert {run.pk for run in Run.objects.all()} == ids
    assert len(ids) == 1


@pytest.fixture
def later(unmoved_clock: None) -> Callable[[timedelta], None]:
    return clock.set_offset


@pytest.mark.behaviour("CHILD-02c")
def test_an_expired_key_is_free_again(later: Callable[[timedelta], None]):
    first = take(idempotency_ttl=timedelta(hours=1))
    later(timedelta(minutes=59))
    assert take() == first
    later(timedelta(minutes=61))
    # Another input is no conflict now, and the time begins anew.
    second = take(2, idempotency_ttl=timedelta(hours=1))
    assert second != first
    later(timedelta(minutes=61 + 59))
    assert take(2) == second
    assert IdempotencyKey.objects.count() == 1


def test_of_many_who_see_a_key_expired_one_takes_it_over(threads: Threads, later: Callable[[timedelta], None]):
    old = take()
    later(timedelta(days=8))
    barrier = threading.Barrier(6)

    def together() -> UUID:
        barrier.wait(SECONDS)
        return take()

    ids = {answer(one) for one in [threads.start(together) for _ in range(6)]}
    assert len(ids) == 1
    assert {run.pk for run in Run.objects.all()} == ids | {old}


@pytest.mark.parametrize("fails", [False, True], ids=["commits", "rolls back"])
def test_who_sees_a_key_expired_waits_for_who_is_taking_it_over(
    threads: Threads, connect: Connect, later: Callable[[timedelta], None], fails: bool
):
    take()
    later(timedelta(days=8))
    first = OpenTaker(threads)
    second = threads.start(take)
    wait_until_blocked(connect(), first.session)
    assert not second.done()
    first.finish(fails=fails)
    run_id = answer(second)
    assert (run_id == first.run_id) is not fails
    assert Run.objects.count() == 2
    assert IdempotencyKey.objects.get().run_id == run_id


# --- a run that is gone ----------------------------------------------------------------------


@pytest.mark.behaviour("CHILD-02e")
def test_a_key_whose_run_is_gone_is_free_again():
    first = take()
    Run.objects.filter(pk=first).delete()
    second = take(2)
    assert second != first
    assert take(2) == second
    with pytest.raises(IdempotencyConflict):
        take()


def test_of_many_who_find_the_run_of_a_key_gone_one_starts_another(threads: Threads):
    Run.objects.filter(pk=take()).delete()
    barrier = threading.Barrier(6)

    def together() -> UUID:
        barrier.wait(SECONDS)
        return take()

    ids = {answer(one) for one in [threads.start(together) for _ in range(6)]}
    assert len(ids) == 1
    assert {run.pk for run in Run.objects.all()} == ids


@pytest.mark.parametrize("fails", [False, True], ids=["commits", "rolls back"])
def test_who_finds_the_run_of_a_key_gone_waits_for_who_is_taking_it_over(
    threads: Threads, connect: Connect, fails: bool
):
    """Its run is not in the snapshot of who waits, and is there all the same."""
    Run.objects.filter(pk=take()).delete()
    first = OpenTaker(threads)
    second = threads.start(take)
    wait_until_blocked(connect(), first.session)
    assert not second.done()
    first.finish(fails=fails)
    run_id = answer(second)
    assert (run_id == first.run_id) is not fails
    assert [run.pk for run in Run.objects.all()] == [run_id]
    assert IdempotencyKey.objects.get().run_id == run_id
