"""Waits for several events: in the order they were sent, what was taken is kept while the wait goes on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Blocked, Completed, Suspended
from django_durable.core.journal.states import EntryStatus
from django_durable.exceptions import InvalidName
from tests.core.driving import NOON, Crash, World

MINUTE = timedelta(minutes=1)


def waiting(*names: str, **options: Any) -> Callable[[Context], Any]:
    def body(ctx: Context) -> Any:
        events = ctx.wait_for_events("replies", events=names or ("yes", "no"), **options)
        return [[event.name, event.payload] for event in events]

    return body


def consumed(world: World) -> list[dict[int, str]]:
    return [write.consumed for write in world.commits if write.consumed]


@pytest.mark.behaviour("WAIT-02c")
def test_any_of_a_set_of_names() -> None:
    world = World()
    world.send("other", 0)
    assert world.attempt(waiting()) == Suspended("event:replies")
    entry = world.entries["replies"]
    assert (entry.kind, entry.status, entry.awaits, entry.value) == ("event", "waiting", "yes\nno", None)
    world.send("no", 1)
    world.send("yes", 2)
    assert world.value(waiting()) == [["no", 1]]
    assert [event.name for event in world.events] == ["other", "yes"]


@pytest.mark.behaviour("WAIT-02d", "WAIT-02e")
def test_in_the_order_in_which_they_were_sent() -> None:
    world = World()
    for number, name in enumerate(["no", "yes", "no", "yes"]):
        world.send(name, number)
    assert world.value(waiting("yes", "no", count=3)) == [["no", 0], ["yes", 1], ["no", 2]]
    assert [event.payload for event in world.events] == ["3"]


def test_they_know_when_they_were_sent() -> None:
    world = World()
    world.send("yes")
    world.now += MINUTE
    world.send("no")
    found = world.value(
        lambda ctx: [event.sent_at for event in ctx.wait_for_events("r", events=["no", "yes"], count=2)]
    )
    assert found == [NOON, NOON + MINUTE]


@pytest.mark.behaviour("WAIT-02d")
def test_what_was_taken_is_kept_while_the_wait_goes_on() -> None:
    world, body = World(), waiting(count=3)
    world.send("yes", 1)
    assert world.attempt(body) == Suspended("event:replies")
    assert world.events == []
    assert world.entries["replies"].status == EntryStatus.WAITING
    world.send("no", 2)
    world.attempt(body)
    world.send("no", 3)
    assert world.value(body) == [["yes", 1], ["no", 2], ["no", 3]]
    assert [list(one.values()) for one in consumed(world)] == [
        ["replies%event[0]"],
        ["replies%event[1]"],
        ["replies%event[2]"],
    ]
    assert set(world.entries) == {"replies"}


def test_a_replay_takes_nothing_more() -> None:
    world, body = World(), waiting(count=2)
    for number in range(4):
        world.send("yes", number)
    assert world.value(body) == world.value(body) == [["yes", 0], ["yes", 1]]
    assert len(world.events) == 2
    assert len(consumed(world)) == 1


@pytest.mark.parametrize("commit", [1, 2, 3])
def test_a_crash_before_any_commit_loses_none_and_takes_none_twice(commit: int) -> None:
    world, body = World(crash_before=commit), waiting(count=3)
    for number in range(3):
        world.send("yes", number)
        try:
            world.attempt(body)
        except Crash:
            assert len(world.events) == 1
    assert world.value(body) == [["yes", 0], ["yes", 1], ["yes", 2]]
    taken = [event_id for one in consumed(world) for event_id in one]
    assert len(taken) == len(set(taken)) == 3


# --- time-outs -------------------------------------------------------------------------------


@pytest.mark.behaviour("WAIT-02g")
@pytest.mark.parametrize("sent", [0, 1, 2])
def test_fewer_at_the_timeout(sent: int) -> None:
    world, body = World(), waiting(count=3, timeout=MINUTE)
    for number in range(sent):
        world.send("yes", number)
    assert world.attempt(body) == Suspended("event:replies", wake_after=60)
    world.now = NOON + MINUTE
    assert world.value(body) == [["yes", number] for number in range(sent)]
    world.send("yes", "late")
    assert world.value(body) == [["yes", number] for number in range(sent)]
    assert len(world.events) == 1


def test_the_first_timeout_stands_when_an_event_comes() -> None:
    world, body = World(), waiting(count=2, timeout=MINUTE)
    world.attempt(body)
    world.now += MINUTE / 2
    world.send("yes", 1)
    assert world.attempt(body) == Suspended("event:replies", wake_at=NOON + MINUTE)
    assert world.entries["replies"].wake_at == NOON + MINUTE


@pytest.mark.parametrize("timeout", [0, -5, timedelta(0)])
def test_a_timeout_of_nothing_takes_what_is_there(timeout: Any) -> None:
    world, body = World(), waiting(count=9, timeout=timeout)
    world.send("yes", 1)
    assert world.attempt(body) == Suspended("event:replies", wake_after=0)
    world.send("no", "between")
    assert world.value(body) == [["yes", 1], ["no", "between"]]


# --- beside others ---------------------------------------------------------------------------


def test_branches_that_wait_for_the_same_names_share_them_out() -> None:
    world = World()

    def branch(ctx: Context) -> Any:
        return [event.payload for event in ctx.wait_for_events("note", events=["note"], count=2)]

    def body(ctx: Context) -> Any:
        return ctx.join("both", {"a": branch, "b": branch})

    outcome = world.attempt(body)
    for number in range(4):
        assert isinstance(outcome, Suspended)
        world.send("note", number)
        outcome = world.attempt(body)
    assert isinstance(outcome, Completed)
    found = world.value(body)
    assert sorted(found["a"] + found["b"]) == [0, 1, 2, 3]
    assert found["a"] == sorted(found["a"])
    assert world.events == []


# --- changed code ----------------------------------------------------------------------------


def one(ctx: Context) -> Any:
    return ctx.wait_for_event("replies", event="yes").payload


@pytest.mark.parametrize("sent", [0, 1])
def test_a_wait_for_one_that_becomes_a_wait_for_several(sent: int) -> None:
    world = World()
    for _ in range(sent):
        world.send("yes")
    world.attempt(one)
    if sent:
        assert isinstance(world.attempt(waiting()), Blocked)
    else:
        # It has taken nothing yet, so it may go on as the other.
        world.send("no", 1)
        assert world.value(waiting()) == [["no", 1]]


@pytest.mark.parametrize(("sent", "count"), [(1, 2), (1, 1)])
def test_a_wait_for_several_that_becomes_a_wait_for_one(sent: int, count: int) -> None:
    world = World()
    world.send("yes")
    world.attempt(waiting(count=count))
    blocked = world.attempt(one)
    assert isinstance(blocked, Blocked)
    assert blocked.text == "'replies' is a wait for several events in the journal, but the code now asks for one."


def test_other_names_and_another_count_hold_from_then_on() -> None:
    world = World()
    world.send("yes", 1)
    world.send("no", 2)
    world.attempt(waiting("yes", count=3))
    assert world.value(waiting("no", count=2)) == [["yes", 1], ["no", 2]]
    world.entries["replies"].status = EntryStatus.WAITING
    assert world.value(waiting("no", count=1)) == [["yes", 1], ["no", 2]]


# --- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "count", "error"),
    [
        ("yes", 1, TypeError),
        (5, 1, TypeError),
        ([], 1, ValueError),
        (["a\nb"], 1, InvalidName),
        ([["a"]], 1, InvalidName),
        (["yes"], 0, TypeError),
        (["yes"], True, TypeError),
        (["yes"], 1.0, TypeError),
    ],
)
def test_bad_arguments_wait_for_nothing(events: Any, count: Any, error: type[Exception]) -> None:
    world = World()
    world.attempt(lambda ctx: ctx.wait_for_events("replies", events=events, count=count))
    assert isinstance(world.error, error)
    assert world.entries == {}


def test_a_name_given_twice_counts_once() -> None:
    world = World()
    world.attempt(lambda ctx: ctx.wait_for_events("replies", events=iter(["b", "a", "b"])))
    assert world.entries["replies"].awaits == "b\na"


def test_a_path_that_leaves_no_room_for_the_places_of_its_events() -> None:
    world = World()
    world.send("yes")

    def body(ctx: Context) -> Any:
        return ctx.wait_for_events("x" * 200, events=["yes"], key="y" * 200)

    def deep(ctx: Context) -> Any:
        return ctx.join("j" * 95, {"b": body})

    world.attempt(deep)
    assert isinstance(world.error, InvalidName)
    assert len(world.events) == 1
    assert not [path for path in world.entries if "x" in path]
