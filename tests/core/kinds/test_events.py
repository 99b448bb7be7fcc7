"""Events: in the order they were sent, each taken by one wait, whether they came before it or after."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Completed, Suspended
from django_durable.core.journal.states import EntryStatus
from django_durable.core.kinds.events import Event
from django_durable.exceptions import EventTimeout, InvalidName, PayloadUndecodable
from tests.core.driving import NOON, World

MINUTE = timedelta(minutes=1)


def wait(ctx: Context) -> Any:
    event = ctx.wait_for_event("packed")
    return [event.name, event.payload, event.sent_at]


@pytest.mark.behaviour("WAIT-02a")
def test_an_event_that_comes_after_the_wait() -> None:
    world = World()
    assert world.attempt(wait) == Suspended("event:packed")
    entry = world.entries["packed"]
    assert (entry.kind, entry.status, entry.awaits, entry.wake_at) == ("event", "waiting", "packed", None)
    world.now += MINUTE
    world.send("packed", {"tracking": "T-1"})
    assert world.value(wait) == ["packed", {"tracking": "T-1"}, NOON + MINUTE]


@pytest.mark.behaviour("WAIT-02h")
def test_an_event_that_came_before_the_wait() -> None:
    world = World()
    world.send("packed", None)
    world.now += MINUTE
    assert world.value(wait) == ["packed", None, NOON]
    assert world.attempts == 1


def test_it_is_taken_exactly_once() -> None:
    world = World()
    world.send("packed", 1)
    world.send("packed", 2)
    assert world.value(wait) == ["packed", 1, NOON]
    assert [event.payload for event in world.events] == ["2"]
    assert world.value(wait) == ["packed", 1, NOON]
    assert [event.payload for event in world.events] == ["2"]
    assert [write.consumed for write in world.commits if write.consumed] == [{0: "packed"}]


def test_what_was_taken_and_what_it_was_is_one_commit() -> None:
    world = World()
    world.send("packed", 1)
    world.crash_before = 1
    world.value(wait)
    taking = [write for write in world.commits if write.consumed]
    assert len(taking) == 1
    assert taking[0].entries["packed"].status == EntryStatus.SUCCEEDED


@pytest.mark.behaviour("WAIT-02e")
def test_first_in_first_out() -> None:
    def body(ctx: Context) -> list[Any]:
        return [ctx.wait_for_event(f"wait {turn}", event="note").payload for turn in range(3)]

    world = World()
    world.send("note", "a")
    world.send("note", "b")
    assert world.attempt(body) == Suspended("event:wait 2")
    world.send("note", "c")
    assert world.value(body) == ["a", "b", "c"]


@pytest.mark.behaviour("WAIT-02b")
def test_another_name_does_not_wake_it() -> None:
    world = World()
    world.send("sent", 1)
    assert world.attempt(wait) == Suspended("event:packed")
    assert len(world.events) == 1


def test_two_waits_for_one_name_in_a_run() -> None:
    def body(ctx: Context) -> list[Any]:
        first = ctx.wait_for_event("note", key=1)
        other = ctx.wait_for_event("other")
        second = ctx.wait_for_event("note", key=2)
        return [first.payload, other.payload, second.payload]

    world = World()
    for name, payload in [("note", 1), ("note", 2), ("other", 3)]:
        world.send(name, payload)
    assert world.value(body) == [1, 3, 2]


# --- time-outs -------------------------------------------------------------------------------


def impatient(ctx: Context) -> Any:
    try:
        return ctx.wait_for_event("packed", timeout=MINUTE).payload
    except EventTimeout as error:
        return [error.path, error.event]


@pytest.mark.behaviour("WAIT-02f")
def test_timeout() -> None:
    world = World()
    assert world.attempt(impatient) == Suspended("event:packed", wake_after=60)
    world.now += MINUTE - timedelta(microseconds=1)
    assert world.attempt(impatient) == Suspended("event:packed", wake_at=NOON + MINUTE)
    world.now = NOON + MINUTE
    assert world.value(impatient) == ["packed", "packed"]
    assert world.entries["packed"].status == EntryStatus.FAILED


def test_changed_code_that_waits_for_another_event_is_not_woken_by_the_old_one() -> None:
    """Else it would go round and round: the old event is a reason to wake, and nobody is there to take it."""
    world = World()
    world.attempt(impatient)
    world.send("packed", 1)

    def changed(ctx: Context) -> Any:
        return ctx.wait_for_event("packed", event="shipped").payload

    assert world.attempt(changed) == Suspended("event:packed", wake_at=NOON + MINUTE)
    assert world.entries["packed"].awaits == "shipped"


def test_a_timeout_is_final() -> None:
    world = World()
    assert world.value(impatient) == ["packed", "packed"]
    world.send("packed", "late")
    world.now -= MINUTE
    assert world.value(impatient) == ["packed", "packed"]
    assert len(world.events) == 1


def test_the_first_timeout_stands() -> None:
    world = World()
    world.attempt(impatient)
    outcome = world.attempt(lambda ctx: ctx.wait_for_event("packed", timeout=9999))
    assert outcome == Suspended("event:packed", wake_at=NOON + MINUTE)


def test_an_event_that_came_in_time_wins_over_a_timeout_that_is_seen_later() -> None:
    world = World()
    world.attempt(impatient)
    world.send("packed", "in time")
    world.now += timedelta(hours=1)
    assert world.value(impatient) == "in time"


@pytest.mark.behaviour("WAIT-02f")
@pytest.mark.parametrize("default", [None, False, 0, "nothing", Event("packed", 1, NOON)])
def test_default(default: Any) -> None:
    found = []

    def body(ctx: Context) -> None:
        found.append(ctx.wait_for_event("packed", timeout=MINUTE, default=default))

    world = World()
    world.run(body)
    world.run(body)
    assert found == [default, default]


def test_a_default_does_not_shorten_the_wait() -> None:
    def body(ctx: Context) -> Any:
        return ctx.wait_for_event("packed", timeout=MINUTE, default=Event("", 0, NOON)).payload

    world = World()
    world.send("packed", 7)
    assert world.value(body) == 7


@pytest.mark.parametrize("timeout", [0, -5, timedelta(0)])
def test_a_timeout_of_nothing_still_looks_for_what_came_meanwhile(timeout: Any) -> None:
    """An event that was sent after the claim is not in this attempt's memory, so one look is not enough."""

    def body(ctx: Context) -> Any:
        event = ctx.wait_for_event("packed", timeout=timeout, default=None)
        return event and event.payload

    world = World()
    assert world.attempt(body) == Suspended("event:packed", wake_after=0)
    world.send("packed", "between")
    assert world.value(body) == "between"
    world = World()
    assert world.value(body) is None


@pytest.mark.parametrize("timeout", ["1", True, float("nan")])
def test_a_bad_timeout_waits_for_nothing(timeout: Any) -> None:
    world = World()
    world.attempt(lambda ctx: ctx.wait_for_event("packed", timeout=timeout))
    assert isinstance(world.error, TypeError)
    assert world.entries == {}


# --- names and payloads ----------------------------------------------------------------------


@pytest.mark.parametrize("event", ["a\nb", "x" * 201, 5])
def test_bad_event_names(event: Any) -> None:
    world = World()
    world.attempt(lambda ctx: ctx.wait_for_event("packed", event=event))
    assert isinstance(world.error, InvalidName)
    assert world.entries == {}


def test_an_event_s_name_is_not_escaped() -> None:
    world = World()
    world.send("a/b[1]", 5)
    assert world.value(lambda ctx: ctx.wait_for_event("a/b[1]").payload) == 5
    assert world.entries["a%2Fb%5B1%5D"].awaits == "a/b[1]"


@pytest.mark.parametrize("payload", [(1, 2), {3: NOON}, "]", '"', {"$": [1]}, float("inf")], ids=repr)
def test_payloads_come_as_they_were_sent(payload: Any) -> None:
    world = World()
    world.send("packed", payload)
    found = world.value(lambda ctx: [ctx.wait_for_event("packed").payload])
    assert found == [payload]
    assert type(found[0]) is type(payload)


def test_a_payload_that_cannot_be_read_is_not_taken_for_the_user_s_error() -> None:
    world = World()
    world.send("packed", 1)
    world.events[0] = type(world.events[0])(1, "packed", '{"$":"@gone","v":1}', NOON)
    world.attempt(wait)
    assert isinstance(world.error, PayloadUndecodable)


def test_an_event_is_replayed_after_a_crash() -> None:
    def body(ctx: Context) -> Any:
        event = ctx.wait_for_event("packed")
        ctx.step("ship", int)
        return event.payload

    world = World()
    world.send("packed", "T-1")
    world.crash_after = {1}
    assert world.value(body) == "T-1"
    assert isinstance(world.commits[-1].outcome, Completed)
    assert world.attempts == 2
