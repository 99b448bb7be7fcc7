"""Events that no wait has taken yet are bounded, for each run: by number, and by bytes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_durable import Context, Retry, durable_workflow, get_run
from django_durable.core.journal.states import Status
from django_durable.exceptions import DurableError, IllegalTransition, TooManyEvents
from django_durable.models import Audit, Event
from django_durable.testing import run_until_idle
from tests.client.orders import in_status

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@durable_workflow(name="flooded.counting")
def counting(ctx: Context, turns: int) -> list[Any]:
    return [ctx.wait_for_event("note", key=turn).payload for turn in range(turns)]


@pytest.fixture
def _three(settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "MAX_OPEN_EVENTS": 3}


def bytes_of(settings: Any, most: int) -> None:
    settings.DURABLE = {**settings.DURABLE, "MAX_OPEN_EVENT_BYTES": most}


@pytest.mark.usefixtures("_three")
@pytest.mark.parametrize("name", ["note", "other"])
def test_one_more_than_may_wait_is_refused(name: str) -> None:
    run = counting.enqueue(5)
    for number in range(3):
        run.send_event("note", number)
    with pytest.raises(TooManyEvents) as caught:
        run.send_event(name, 3, actor="ann")
    error = caught.value
    assert (error.run_id, error.setting, error.limit) == (run.id, "MAX_OPEN_EVENTS", 3)
    assert (error.events, error.bytes) == (3, 3)
    assert str(error) == (
        f"Run {run.id} has open events: 3, of 3 bytes. MAX_OPEN_EVENTS is 3: send it again when the run has taken some."
    )
    assert isinstance(error, DurableError)
    assert Event.objects.count() == 3
    assert not Audit.objects.exists()


def test_more_bytes_than_may_wait_are_refused(settings: Any) -> None:
    run = counting.enqueue(5)
    bytes_of(settings, 20)
    run.send_event("note", "x" * 8)  # 10 bytes, with its quotes
    run.send_event("note", "x" * 7)
    with pytest.raises(TooManyEvents) as caught:
        run.send_event("note", "four")
    error = caught.value
    assert (error.setting, error.limit, error.events, error.bytes) == ("MAX_OPEN_EVENT_BYTES", 20, 2, 19)
    assert "has open events: 2, of 19 bytes. MAX_OPEN_EVENT_BYTES is 20: send it again" in str(error)
    run.send_event("note", 1)  # the twentieth byte
    with pytest.raises(TooManyEvents):
        run.send_event("note", 1)
    assert Event.objects.count() == 3


def test_bytes_are_those_that_are_stored(settings: Any) -> None:
    """Not characters: an é takes six bytes as JSON."""
    run = counting.enqueue(1)
    bytes_of(settings, 30)
    run.send_event("note", "é" * 4)
    with pytest.raises(TooManyEvents) as caught:
        run.send_event("note", 123456)
    assert caught.value.bytes == len(Event.objects.get().payload) == 26


@pytest.mark.usefixtures("_three")
def test_what_the_run_has_taken_does_not_count() -> None:
    run = counting.enqueue(5)
    for number in range(3):
        run.send_event("note", number)
    with pytest.raises(TooManyEvents):
        run.send_event("note", 3)
    run_until_idle()
    assert not Event.objects.filter(consumed_at=None).exists()
    for number in (3, 4):
        run.send_event("note", number)
    run_until_idle()
    assert run.result(timeout=0) == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("_three")
def test_events_that_it_never_asks_for_do_not_keep_it_from_going_on() -> None:
    run = counting.enqueue(1)
    run_until_idle()
    assert run.status == "waiting"
    for number in range(3):
        run.send_event("progress", number)
    with pytest.raises(TooManyEvents):
        run.send_event("progress", 3)
    run.send_event("note", 7)
    with pytest.raises(TooManyEvents):
        run.send_event("note", 8)
    run_until_idle()
    assert run.result(timeout=0) == [7]


@pytest.mark.usefixtures("_three")
def test_each_run_has_a_bound_of_its_own() -> None:
    run, other = counting.enqueue(1), counting.enqueue(1)
    for number in range(3):
        run.send_event("note", number)
    other.send_event("note", 1)
    with pytest.raises(TooManyEvents):
        run.send_event("note", 3)
    assert Event.objects.filter(run_id=other.id).count() == 1


@pytest.mark.usefixtures("_three")
def test_one_that_was_sent_before_is_answered_as_ever() -> None:
    run = counting.enqueue(1)
    sent = [run.send_event("note", number, idempotency_key=str(number)) for number in range(3)]
    assert [run.send_event("note", number, idempotency_key=str(number)) for number in range(3)] == sent
    with pytest.raises(TooManyEvents):
        run.send_event("note", 3, idempotency_key="3")
    assert Event.objects.count() == 3


@pytest.mark.usefixtures("_three")
def test_a_run_that_is_over_says_so_and_not_that_it_has_too_many() -> None:
    run = in_status(Status.WAITING)
    for number in range(3):
        run.send_event("other", number)
    run.cancel()
    run_until_idle()
    with pytest.raises(IllegalTransition):
        run.send_event("other", 3)


@pytest.mark.usefixtures("_three")
def test_the_sender_s_transaction_goes_on() -> None:
    run, other = counting.enqueue(1), counting.enqueue(1)
    with transaction.atomic():
        for number in range(3):
            run.send_event("note", number)
        with pytest.raises(TooManyEvents):
            run.send_event("note", 3)
        other.send_event("note", 1)
    assert Event.objects.count() == 4


@pytest.mark.usefixtures("_three")
def test_a_step_that_sends_tries_again_and_comes_through() -> None:
    run = counting.enqueue(4)
    for number in range(3):
        run.send_event("note", number)

    @durable_workflow(name="flooded.sender", step_retry=Retry(max_attempts=2, initial=1, jitter=0))
    def sender(ctx: Context) -> None:
        ctx.step("send", lambda: get_run(run.id).send_event("note", 3))

    sending = sender.using(priority=1).enqueue()
    run_until_idle(skip_waits=True)
    assert [step.attempts for step in sending.steps()] == [2]
    assert run.result(timeout=0) == [0, 1, 2, 3]


def test_the_bound_costs_no_statement() -> None:
    run = counting.enqueue(3)
    for number in range(2):
        with CaptureQueriesContext(connection) as captured:
            run.send_event("note", number)
        sent = [query["sql"].split()[0] for query in captured.captured_queries]
        assert sent[:2] == ["SELECT", "INSERT"]
