"""Starting runs: enqueue, using, enqueue_many, and what each refuses before anything is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

import django_durable
from django_durable import AsyncContext, Context, durable_workflow, signals
from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import Status
from django_durable.exceptions import (
    IdempotencyConflict,
    InvalidInput,
    InvalidName,
    PayloadError,
    RunFailed,
    UnknownWorkflow,
)
from django_durable.models import Run, Tag
from django_durable.testing import run_until_idle, travel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@durable_workflow(name="starting.order", queue="orders", priority=3)
def order(ctx: Context, order_id: int, express: bool = False) -> list[object]:
    return [order_id, express]


# --- enqueue ---------------------------------------------------------------------------------


def test_enqueue() -> None:
    run = order.enqueue(42, express=True)
    assert isinstance(run, RunHandle)
    assert isinstance(run.id, UUID)
    assert run.id.version == 7
    row = Run.objects.get()
    assert (row.pk, row.workflow, row.queue, row.priority, row.status) == (
        run.id,
        "starting.order",
        "orders",
        3,
        "queued",
    )
    assert (row.max_attempts, row.deadline_at, row.parent_id, row.root_id) == (None, None, None, run.id)
    run_until_idle()
    assert run.result(timeout=0) == [42, True]


def test_aenqueue() -> None:
    run = async_to_sync(order.aenqueue)(order_id=1)
    vip = async_to_sync(order.using(queue="vip").aenqueue)(2)
    run_until_idle()
    assert run.result(timeout=0) == [1, False]
    assert vip.refresh().run.queue == "vip"


def test_enqueue_by_name() -> None:
    run = django_durable.enqueue("starting.order", order_id=1)
    run_until_idle()
    assert run.result(timeout=0) == [1, False]
    with pytest.raises(UnknownWorkflow, match=r"Did you mean 'starting\.order'"):
        django_durable.enqueue("starting.odrer", order_id=1)
    with pytest.raises(InvalidInput):
        django_durable.enqueue("starting.order", nothing=1)


STARTS: dict[str, Any] = {
    "enqueue": lambda: order.enqueue(1),
    "using": lambda: order.using(queue="vip", idempotency_key="k").enqueue(1),
    "many": lambda: order.enqueue_many([{"order_id": 1}]),
    "by name": lambda: django_durable.enqueue("starting.order", order_id=1),
}


@durable_workflow(name="starting.in_body")
def in_body(ctx: Context, start: str) -> None:
    STARTS[start]()


@durable_workflow(name="starting.in_async_body")
async def in_async_body(ctx: AsyncContext, start: str) -> None:
    await (order.using(queue="vip") if start == "using" else order).aenqueue(1)


@durable_workflow(name="starting.in_step")
def in_step(ctx: Context, start: str) -> None:
    ctx.step("start", lambda: [STARTS[start](), None][1])


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("workflow", [in_body, in_async_body])
def test_in_a_workflow_s_body_it_is_refused(workflow: Any, start: str) -> None:
    """It would start another run at every replay."""
    run = workflow.enqueue(start)
    run_until_idle()
    with pytest.raises(
        RunFailed, match=r"ContextMisuse: starting\.order was enqueued in a workflow's body.*ctx\.start_"
    ):
        run.result(timeout=0)
    assert run.attempt == 1
    assert not Run.objects.filter(workflow="starting.order").exists()


@pytest.mark.parametrize("start", STARTS)
def test_in_a_step_it_is_welcome(start: str) -> None:
    run = in_step.enqueue(start)
    run_until_idle()
    assert run.status == Status.SUCCEEDED
    assert Run.objects.filter(workflow="starting.order").count() == 1


def test_receivers_of_signals_may_start_runs() -> None:
    def start_order(**facts: Any) -> None:
        order.enqueue(1)

    signals.step_succeeded.connect(start_order, sender=in_step)
    try:
        in_step.enqueue("enqueue")
        run_until_idle()
    finally:
        signals.step_succeeded.disconnect(start_order, sender=in_step)
    assert Run.objects.filter(workflow="starting.order").count() == 2


@pytest.mark.behaviour("RUN-10b")
def test_it_joins_the_caller_s_transaction() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        order.enqueue(1)
        order.enqueue_many([{"order_id": 2}])
        order.using(idempotency_key="k", tags=["t"]).enqueue(3)
        assert Run.objects.count() == 3
        _ = 1 / 0
    assert not Run.objects.exists()
    # And the key is free again.
    order.using(idempotency_key="k").enqueue(4)
    assert Run.objects.count() == 1


@pytest.mark.behaviour("RUN-10a")
@pytest.mark.parametrize(
    ("args", "kwargs", "error"),
    [
        ((), {}, InvalidInput),
        ((1, 2, 3), {}, InvalidInput),
        ((1,), {"oder": 2}, InvalidInput),
        ((object(),), {}, (PayloadError, InvalidInput)),
    ],
)
def test_bad_input_stores_nothing(args: Any, kwargs: Any, error: Any) -> None:
    for start in (order.enqueue, order.using(queue="vip").enqueue, order.using(idempotency_key="k").enqueue):
        with pytest.raises(error):
            start(*args, **kwargs)
    assert not Run.objects.exists()


# --- many ------------------------------------------------------------------------------------


def test_enqueue_many() -> None:
    runs = order.enqueue_many({"order_id": number, "express": bool(number)} for number in range(3))
    assert [run.id for run in runs] == sorted(run.id for run in runs)
    run_until_idle()
    assert [run.result(timeout=0) for run in runs] == [[0, False], [1, True], [2, True]]
    assert order.enqueue_many([]) == []


@pytest.mark.parametrize("bad", [{}, {"order_id": 1, "more": 2}, {"order_id": object()}])
def test_enqueue_many_is_all_or_none(bad: dict[str, Any]) -> None:
    with pytest.raises((InvalidInput, PayloadError)):
        order.enqueue_many([{"order_id": 1}, bad, {"order_id": 2}])
    assert not Run.objects.exists()


def test_enqueue_many_with_options() -> None:
    runs = order.using(queue="vip", tags=["b", "a", "b"]).enqueue_many([{"order_id": 1}, {"order_id": 2}])
    assert {run.run.queue for run in runs} == {"vip"}
    assert sorted(Tag.objects.values_list("run_id", "name")) == sorted(
        (run.id, name) for run in runs for name in ("a", "b")
    )
    with pytest.raises(TypeError, match="enqueue_many takes no idempotency_key"):
        order.using(idempotency_key="k").enqueue_many([{"order_id": 1}])


# --- using -----------------------------------------------------------------------------------


def test_using_changes_what_it_names_and_nothing_else() -> None:
    run = order.using(priority=-5, max_attempts=9, timeout=60, tags=["x"]).enqueue(1).run
    assert (run.queue, run.priority, run.max_attempts) == ("orders", -5, 9)
    assert run.deadline_at is not None
    assert timedelta(seconds=59) < run.deadline_at - run.created_at < timedelta(seconds=61)
    assert order.using(priority=0).enqueue(1).run.priority == 0
    assert Run.objects.for_workflow(order).tagged("x").get() == run


@pytest.mark.behaviour("RUN-02a")
@pytest.mark.parametrize("after", [3600, timedelta(hours=1), "moment"])
def test_run_after(after: Any) -> None:
    with travel() as clock:
        if after == "moment":
            after = datetime.now(UTC) + timedelta(hours=1)
        run = order.using(run_after=after).enqueue(1)
        assert run.status == Status.SCHEDULED
        assert run_until_idle() == 0
        clock.advance(minutes=61)
        run_until_idle()
        assert run.result(timeout=0) == [1, False]


@pytest.mark.parametrize("after", [0, -5, timedelta(days=-1), datetime(2020, 1, 1, tzinfo=UTC)])
def test_a_time_that_has_passed_is_now(after: Any) -> None:
    run = order.using(run_after=after).enqueue(1)
    assert run.status == Status.QUEUED
    run_until_idle()
    assert run.result(timeout=0) == [1, False]


def test_a_run_that_starts_later_has_its_whole_time_from_then_on() -> None:
    run = order.using(run_after=3600, timeout=60).enqueue(1).run
    assert run.deadline_at is not None
    assert run.wake_at is not None
    assert timedelta(seconds=59) < run.deadline_at - run.wake_at < timedelta(seconds=61)


@pytest.mark.behaviour("DATA-01k")
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_concurrency": 5}, TypeError, r"using\(\) has no option max_concurrency"),
        ({"que": "vip", "prio": 1}, TypeError, r"using\(\) has no option que, prio in this version; it knows queue, "),
        ({"queue": "a b"}, TypeError, "queue must be"),
        ({"priority": 101}, TypeError, "priority must be"),
        ({"run_after": datetime(2030, 1, 1)}, TypeError, "run_after takes an aware datetime"),
        ({"run_after": "tomorrow"}, TypeError, "run_after takes a timedelta or seconds"),
        ({"run_after": timedelta.max}, ValueError, "run_after of .* is beyond"),
        ({"idempotency_key": ""}, InvalidName, "is empty"),
        ({"idempotency_key": "x" * 201}, InvalidName, "longer than 200"),
        ({"idempotency_key": 42}, InvalidName, "must be a string"),
        ({"idempotency_ttl": 0}, ValueError, "idempotency_ttl must be more than 0"),
        ({"idempotency_ttl": "7 days"}, TypeError, "idempotency_ttl takes"),
        ({"on_conflict": "explode"}, TypeError, "on_conflict is"),
        ({"timeout": 0}, ValueError, "timeout must be more than 0"),
        ({"timeout": "1h"}, TypeError, "timeout takes"),
        ({"max_attempts": 0}, TypeError, "max_attempts must be an integer of at least 1"),
        ({"max_attempts": True}, TypeError, "max_attempts"),
        ({"max_attempts": 2.0}, TypeError, "max_attempts"),
        ({"tags": "vip"}, TypeError, "tags must be a list of strings, not one string"),
        ({"tags": [""]}, InvalidName, "tag '': is empty"),
        ({"tags": [5]}, InvalidName, "must be a string"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        order.using(**options)


@pytest.mark.parametrize("options", [{"key": "x"}, {"detached": True}])
def test_options_of_children_are_refused_elsewhere(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"is for children: ctx\.run_workflow\(\)"):
        order.using(**options).enqueue(1)
    assert not Run.objects.exists()


# --- idempotency keys ------------------------------------------------------------------------


@pytest.mark.behaviour("CHILD-02a")
def test_one_key_is_one_run() -> None:
    first = order.using(idempotency_key="order-42").enqueue(42)
    again = order.using(idempotency_key="order-42").enqueue(order_id=42)
    assert first == again
    run_until_idle()
    assert order.using(idempotency_key="order-42").enqueue(42).result(timeout=0) == [42, False]
    assert Run.objects.count() == 1


@pytest.mark.behaviour("CHILD-02b")
def test_the_same_key_with_other_input_is_an_error() -> None:
    first = order.using(idempotency_key="order-42").enqueue(42)
    with pytest.raises(IdempotencyConflict, match="it was given with another input") as caught:
        order.using(idempotency_key="order-42").enqueue(43)
    assert (caught.value.run_id, caught.value.key) == (first.id, "order-42")


def test_reject() -> None:
    order.using(idempotency_key="order-42", on_conflict="reject").enqueue(42)
    with pytest.raises(IdempotencyConflict, match="it is taken"):
        order.using(idempotency_key="order-42", on_conflict="reject").enqueue(42)


@pytest.mark.behaviour("CHILD-02d")
def test_keys_are_each_workflow_s_own() -> None:
    other = durable_workflow(name="starting.order:other")(order.fn)
    runs = [
        order.using(idempotency_key="a").enqueue(1),
        order.using(idempotency_key="other:a").enqueue(1),
        other.using(idempotency_key="a").enqueue(1),
    ]
    assert len({run.id for run in runs}) == 3


@pytest.mark.behaviour("CHILD-02c")
def test_a_key_expires() -> None:
    with travel() as clock:
        first = order.using(idempotency_key="k", idempotency_ttl=timedelta(hours=1)).enqueue(1)
        clock.advance(minutes=59)
        assert order.using(idempotency_key="k").enqueue(1) == first
        clock.advance(minutes=2)
        second = order.using(idempotency_key="k").enqueue(2)
        assert second != first
        assert order.using(idempotency_key="k").enqueue(2) == second
