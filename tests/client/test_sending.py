"""Events on their way in: once under each idempotency key, and the same event's handle for who sends it again."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

import pytest
from django.db import connections, transaction

from django_durable import Context, durable_workflow, get_run
from django_durable.client.events import EventHandle
from django_durable.core.ids import uuid7
from django_durable.core.payloads.codec import decode
from django_durable.exceptions import IllegalTransition, PayloadUndecodable
from django_durable.models import Audit, Event
from django_durable.testing import run_until_idle

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@durable_workflow(name="sending.order")
def order(ctx: Context) -> None:
    event = ctx.wait_for_event("packed")
    event.complete(f"thanks for {event.payload}")


def test_sending_gives_the_event_s_handle() -> None:
    run = order.enqueue()
    first, second = run.send_event("packed", 1), run.send_event("packed", 2)
    assert [first.id, second.id] == list(Event.objects.order_by("id").values_list("id", flat=True))
    assert (first.run_id, first.name) == (run.id, "packed")
    assert first == EventHandle(run.id, first.id, "packed") != second
    assert len({first, second, EventHandle(run.id, first.id, "packed")}) == 2
    assert first != first.id
    assert repr(first) == f"EventHandle(run_id={run.id!r}, id={first.id}, name='packed')"


def test_the_same_key_gives_the_same_event() -> None:
    run, other = order.enqueue(), order.enqueue()
    first = run.send_event("packed", 1, idempotency_key="k")
    assert run.send_event("packed", 1, idempotency_key="k") == first
    assert run.send_event("packed", 1, idempotency_key="l") != first
    assert other.send_event("packed", 1, idempotency_key="k") != first
    assert Event.objects.count() == 3
    run_until_idle()
    assert run.send_event("packed", 1, idempotency_key="k").response(timeout=0) == "thanks for 1"


def test_one_that_was_sent_before_is_found_when_the_run_is_over() -> None:
    """A webhook that is delivered again must not be told to try once more, for ever."""
    run = order.enqueue()
    first = run.send_event("packed", 1, idempotency_key="k")
    run_until_idle()
    assert run.send_event("packed", 1, idempotency_key="k") == first
    for key in ("l", None):
        with pytest.raises(IllegalTransition):
            run.send_event("packed", 1, idempotency_key=key)
    assert Event.objects.count() == 1


def test_one_that_was_sent_before_is_not_in_the_audit_again() -> None:
    run = order.enqueue()
    for _ in range(3):
        run.send_event("packed", 1, idempotency_key="k", actor="ann", reason="by phone")
    assert Audit.objects.filter(run_id=run.id, verb="send_event").count() == 1


def test_two_who_send_at_once_under_one_key() -> None:
    run = order.enqueue()
    begun = threading.Barrier(4)
    found: list[Any] = []

    def send() -> None:
        try:
            begun.wait(60)
            found.append(run.send_event("packed", 1, idempotency_key="k", actor="ann"))
        finally:
            connections.close_all()

    senders = [threading.Thread(target=send) for _ in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert Event.objects.count() == Audit.objects.filter(verb="send_event").count() == 1


def test_a_sender_that_rolls_back_has_sent_nothing() -> None:
    run = order.enqueue()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        run.send_event("packed", 1, idempotency_key="k")
        _ = 1 / 0
    second = run.send_event("packed", 2, idempotency_key="k")
    assert Event.objects.get().payload == "2"
    assert second.id == Event.objects.get().pk


def test_the_time_of_sending_is_the_database_s() -> None:
    run = order.enqueue()
    run.send_event("packed", uuid7())
    event = Event.objects.get()
    assert event.consumed_by == ""
    assert event.consumed_at is event.answered_at is event.response is None
    assert 0 <= (event.sent_at - run.run.created_at).total_seconds() < 60


def test_a_step_that_sends_may_return_what_it_got() -> None:
    @durable_workflow(name="sending.from_step")
    def sender(ctx: Context, run_id: UUID) -> Any:
        event = ctx.step("send", get_run(run_id).send_event, "packed", 1)
        ctx.sleep("nap", 1)
        return event

    run = order.enqueue()
    sending = sender.enqueue(run.id)
    run_until_idle(skip_waits=True)
    event = sending.result(timeout=0)
    assert event == EventHandle(run.id, Event.objects.get().pk, "packed")
    assert event.response(timeout=0) == "thanks for 1"


@pytest.mark.parametrize("data", ["[1,2,3]", "[]", '[{"$":"uuid","v":"x"},1,"a"]', "5"])
def test_a_damaged_handle_is_told_as_such(data: str) -> None:
    with pytest.raises(PayloadUndecodable):
        decode(f'{{"$":"event","v":{data}}}')
