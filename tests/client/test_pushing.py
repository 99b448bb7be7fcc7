"""The queue hears of a run when the transaction that started it has committed, and of none that was undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_durable import Context, durable_workflow
from django_durable.client import pushing
from django_durable.client.handle import RunHandle
from django_durable.models import Run
from django_durable.queues.database import DatabaseQueue
from django_durable.queues.ready import Ready

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@durable_workflow(name="pushing.order")
def order(ctx: Context, number: int) -> int:
    return number


STARTS: dict[str, Callable[[], Sequence[RunHandle[Any]]]] = {
    "enqueue": lambda: [order.enqueue(1)],
    "using": lambda: [order.using(queue="vip", tags=["t"]).enqueue(1)],
    "a key": lambda: [order.using(idempotency_key="k").enqueue(1)],
    "many": lambda: order.enqueue_many([{"number": 1}, {"number": 2}]),
}


class Hearing(DatabaseQueue):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[UUID] = []

    def push(self, runs: Sequence[Ready]) -> None:
        self.heard += [run.id for run in runs]


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Hearing:
    queue = Hearing()
    monkeypatch.setattr(pushing, "current_queue", lambda: queue)
    return queue


@pytest.mark.behaviour("RUN-10b")
@pytest.mark.parametrize("start", STARTS)
def test_it_hears_of_them_after_the_commit(queue: Hearing, start: str) -> None:
    """A worker that is faster than the COMMIT would find no row, and drop the id."""
    with transaction.atomic():
        with transaction.atomic():
            runs = STARTS[start]()
        assert queue.heard == []
    assert queue.heard == [run.id for run in runs]


@pytest.mark.parametrize("start", STARTS)
def test_outside_of_a_transaction_it_hears_of_them_at_once(queue: Hearing, start: str) -> None:
    assert [run.id for run in STARTS[start]()] == queue.heard != []


@pytest.mark.parametrize("start", STARTS)
def test_it_hears_of_none_that_was_rolled_back(queue: Hearing, start: str) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        STARTS[start]()
        _ = 1 / 0
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            STARTS[start]()
            _ = 1 / 0
        kept = order.enqueue(3)
    assert queue.heard == [kept.id]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("surrounding", [nullcontext, transaction.atomic])
def test_telling_it_may_fail_and_the_runs_are_there(
    queue: Hearing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, start: str, surrounding: Any
) -> None:
    """The database may go away between the commit and a look at a limit's room: the caller must not start again."""
    monkeypatch.setattr(queue, "push", lambda runs: 1 / 0)
    with surrounding():
        runs = STARTS[start]()
    assert Run.objects.filter(pk__in=[run.id for run in runs], status="queued").count() == len(runs)
    assert "ZeroDivisionError" in caplog.text
