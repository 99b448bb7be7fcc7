"""Events that are sent to runs in every status: each is found, and taken once."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

import django_durable
from django_durable import Context, durable_workflow, get_run
from django_durable.client.handle import RunHandle
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import LIVE, TERMINAL, Status
from django_durable.exceptions import (
    IllegalTransition,
    InvalidName,
    PayloadError,
    RunNotFound,
)
from django_durable.models import Audit, Event
from django_durable.testing import run_until_idle
from tests.client.orders import in_status, order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@pytest.mark.behaviour("WAIT-02a", "WAIT-02b")
def test_an_event_wakes_the_run_that_waits_for_it() -> None:
    run = in_status(Status.WAITING)
    run.send_event("other", 1)
    assert run.refresh().status == Status.WAITING
    run.send_event("packed", {"tracking": ("T", 1)})
    assert run.refresh().status == Status.QUEUED
    run_until_idle()
    assert run.result(timeout=0) == {"tracking": ("T", 1)}
    assert Event.objects.get(name="packed").consumed_by == "packed"
    assert Event.objects.get(name="other").consumed_at is None


def test_the_wake_comes_with_the_sender_s_commit() -> None:
    run = in_status(Status.WAITING)
    with transaction.atomic():
        run.send_event("packed", 1)
        assert run.refresh().status == Status.WAITING
    assert run.refresh().status == Status.QUEUED
    other = in_status(Status.WAITING)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        other.send_event("packed", 1)
        _ = 1 / 0
    assert other.refresh().status == Status.WAITING
    assert not Event.objects.filter(run_id=other.id).exists()


@pytest.mark.parametrize("status", sorted(LIVE))
def test_every_live_run_takes_events(status: Status) -> None:
    run = in_status(status)
    run.send_event("packed", 1)
    assert Event.objects.filter(run_id=run.id).count() == 1
    assert not Audit.objects.exists()


def test_an_event_that_somebody_sends_is_in_the_audit() -> None:
    run = in_status(Status.WAITING)
    run.send_event("packed", 1, reason="by phone", actor="ann")
    django_durable.get_run(run.id).send_event("packed", 2, actor="x" * 200)
    first, second = Audit.objects.order_by("pk")
    assert (first.run_id, first.verb, first.actor, first.reason, first.status_before) == (
        run.id,
        "send_event",
        "ann",
        "packed: by phone",
        "waiting",
    )
    assert (second.actor, second.reason, second.status_before) == ("x" * 150, "packed", "queued")


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_finished_run_refuses_events(status: Status) -> None:
    run = in_status(status)
    with pytest.raises(IllegalTransition, match=f"is {status}: it cannot be sent events"):
        run.send_event("packed")
    assert not Event.objects.exists()


@pytest.mark.parametrize("timeout", [0, -1])
def test_an_event_that_was_sent_before_the_first_claim_is_found_by_a_wait_without_time(timeout: int) -> None:
    @durable_workflow(name="verbs.polling")
    def polling(ctx: Context) -> Any:
        event = ctx.wait_for_event("packed", timeout=timeout, default=None)
        return None if event is None else event.payload

    run, other = polling.enqueue(), polling.enqueue()
    run.send_event("packed", "early")
    run_until_idle()
    assert run.result(timeout=0) == "early"
    assert other.result(timeout=0) is None


@pytest.mark.behaviour("WAIT-02i")
def test_an_event_that_comes_while_the_run_executes_is_not_lost() -> None:
    @durable_workflow(name="verbs.own_event")
    def own_event(ctx: Context) -> Any:
        run_id = ctx.run_id
        ctx.step("send", lambda: get_run(run_id).send_event("packed", "meanwhile"))
        return ctx.wait_for_event("packed", timeout=3600).payload

    run = own_event.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == "meanwhile"


@pytest.mark.behaviour("WAIT-02e")
def test_events_are_first_in_first_out_and_each_taken_once() -> None:
    @durable_workflow(name="verbs.three")
    def three(ctx: Context) -> list[Any]:
        return [ctx.wait_for_event("note", key=turn).payload for turn in range(3)]

    run = three.enqueue()
    for number in (1, 2):
        run.send_event("note", number)
    run_until_idle()
    run.send_event("note", 3)
    run_until_idle()
    assert run.result(timeout=0) == [1, 2, 3]
    assert list(Event.objects.order_by("id").values_list("consumed_by", flat=True)) == ["note[0]", "note[1]", "note[2]"]


def test_the_same_idempotency_key_sends_once() -> None:
    run, other = order.enqueue(), order.enqueue()
    for _ in range(3):
        run.send_event("packed", 1, idempotency_key="k")
    run.send_event("packed", 2, idempotency_key="l")
    other.send_event("packed", 3, idempotency_key="k")
    run.send_event("packed", 4)
    run.send_event("packed", 4)
    assert list(Event.objects.order_by("id").values_list("payload", flat=True)) == ["1", "2", "3", "4", "4"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("", 1), InvalidName),
        (("a\nb", 1), InvalidName),
        (("x" * 201, 1), InvalidName),
        (("packed", object()), PayloadError),
        (("packed", 1, ""), InvalidName),
        (("packed", 1, "x" * 201), InvalidName),
    ],
)
def test_bad_events_are_refused(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    run = order.enqueue()
    with pytest.raises(error):
        run.send_event(*arguments)
    assert not Event.objects.exists()


def test_an_event_for_a_run_that_does_not_exist() -> None:
    with pytest.raises(RunNotFound):
        RunHandle[Any](uuid7()).send_event("packed")
