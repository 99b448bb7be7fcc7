"""Events and outcomes that leave the scope in which they were had: stored like any value, and events answered once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Completed
from django_durable.core.kinds.events import Answer, Event
from django_durable.core.kinds.loops import Break, Continue
from django_durable.core.kinds.tries import Outcome
from django_durable.core.payloads.codec import decode, encode
from django_durable.exceptions import ContextMisuse, PayloadError, PayloadUndecodable, RaceError
from tests.core.driving import AT_ONCE, NOON, RUN_ID, World

OTHER_RUN = UUID("01890000-0000-7000-8000-000000000009")


def wait(ctx: Context) -> Event:
    return ctx.wait_for_event("ok")


def turns(ctx: Context, event: Event | None) -> Any:
    return Continue(ctx.wait_for_event("ok")) if event is None else Break({"of a turn": event})


CARRIED: dict[str, Callable[[Context], Event]] = {
    "race": lambda ctx: ctx.race("r", {"ok": wait, "late": lambda ctx: ctx.sleep("t", 100)})[1],
    "join": lambda ctx: ctx.join("j", {"ok": wait, "other": lambda ctx: 1})["ok"],
    "block": lambda ctx: ctx.try_block("b", wait).value,
    "value of a loop": lambda ctx: ctx.loop("l", lambda ctx, state: Break(wait(ctx))),
    "state of a loop": lambda ctx: ctx.loop("l", turns)["of a turn"],
    "result of a step": lambda ctx: ctx.step("s", lambda event: event, wait(ctx)),
    "several": lambda ctx: ctx.try_block("b", lambda ctx: ctx.wait_for_events("all", events=["ok"])).value[0],
    "an outcome in a join": lambda ctx: ctx.join("j", {"ok": lambda ctx: ctx.try_block("b", wait)})["ok"].value,
}
carried = pytest.mark.parametrize("carry", CARRIED.values(), ids=CARRIED)


def told(event: Any = None) -> World:
    world = World(step_retry=AT_ONCE)
    world.send("ok", {"by": "ada"} if event is None else event)
    return world


@carried
def test_an_event_is_a_result_like_any_other(carry: Callable[[Context], Event]) -> None:
    world = told()
    events: list[Event] = []

    def body(ctx: Context) -> Event:
        events.append(carry(ctx))
        ctx.sleep("nap", 1)
        return events[-1]

    expected = Event("ok", {"by": "ada"}, NOON)
    assert world.value(body) == expected
    assert events == [expected] * 2
    assert "late" not in str(world.performed)


@pytest.mark.behaviour("WAIT-02n")
@carried
def test_it_is_answered_once_wherever_the_run_crashes(carry: Callable[[Context], Event]) -> None:
    def body(ctx: Context) -> None:
        carry(ctx).complete("heard")
        ctx.step("after", int)

    for commit in range(1, 7):
        world = told()
        world.crash_after = {commit}
        assert isinstance(world.run(body), Completed)
        assert list(world.answers.values()) == ["heard"]
        assert len([write for write in world.commits if write.answers]) == 1
        assert len([path for path in world.entries if "%answer" in path]) == 1


def answering(inside: Any, outside: Any) -> Callable[[Context], None]:
    def branch(ctx: Context) -> Event:
        event = wait(ctx)
        event.complete(inside)
        return event

    def body(ctx: Context) -> None:
        ctx.race("r", {"ok": branch, "late": lambda ctx: ctx.sleep("t", 100)})[1].complete(outside)
        ctx.step("after", int)

    return body


@pytest.mark.parametrize("crash", [1, 2, 3])
def test_who_has_it_next_knows_that_it_was_answered(crash: int) -> None:
    world = told()
    world.crash_after = {crash}
    assert isinstance(world.run(answering("heard", "heard")), Completed)
    assert list(world.answers.values()) == ["heard"]
    world = told()
    world.crash_after = {crash}
    world.run(answering("heard", "what?"))
    assert isinstance(world.error, ContextMisuse)
    assert "'ok' was answered already" in str(world.error)
    assert list(world.answers.values()) == ["heard"]


def test_two_copies_are_one_event() -> None:
    def body(ctx: Context) -> None:
        event = wait(ctx)
        copy = ctx.try_block("copy", lambda ctx: event).value
        copy.complete("one")
        event.complete("two")

    world = told()
    world.run(body)
    assert "answered already" in str(world.error)


def test_one_that_was_kept_past_its_branch_is_answered_by_the_line_that_does() -> None:
    def body(ctx: Context) -> None:
        kept: list[Event] = []
        ctx.try_block("b", lambda ctx: kept.append(wait(ctx)))
        kept[0].complete("heard")

    world = told()
    world.value(body)
    assert list(world.answers.values()) == ["heard"]


def test_nobody_answers_outside_of_the_run() -> None:
    event = told().value(wait)
    with pytest.raises(ContextMisuse, match="'ok' is answered by the code of its run"):
        event.complete("too late")


@pytest.mark.parametrize("is_forked", [False, True])
def test_another_run_answers_only_what_it_was_forked_with(is_forked: bool) -> None:
    event = Event("ok", {"by": "ada"}, NOON, _answer=Answer(None, OTHER_RUN, "ok"))
    world = told()

    def body(ctx: Context) -> None:
        if is_forked:
            wait(ctx)
        ctx.step("of a child", lambda: event).complete("heard")

    world.run(body)
    if is_forked:
        assert world.error is None
    else:
        assert "'ok' was taken by another run" in str(world.error)


@pytest.mark.parametrize(
    "value",
    [
        Event("ok", ("payload", 1), NOON),
        Event("ok", None, NOON, _answer=Answer(None, RUN_ID, "r/ok/ok")),
        Outcome(True, {"a", "b"}),
        Outcome(False, error={"type": "ValueError", "message": "no"}),
    ],
)
def test_they_come_back_exactly(value: Any) -> None:
    again = decode(encode([value]))[0]
    assert again == value and type(again) is type(value)
    assert encode(again) == encode(value)


@pytest.mark.parametrize(
    ("tag", "data"),
    [
        ("taken_event", {"name": 1, "payload": None, "sent_at": NOON}),
        ("taken_event", {"name": "ok", "payload": None, "sent_at": NOON, "place": "ok", "run_id": "ok"}),
        ("outcome", {"ok": "yes"}),
        ("outcome", {"ok": True, "more": 1}),
    ],
)
def test_what_is_none_of_them_is_refused(tag: str, data: Any) -> None:
    with pytest.raises(PayloadUndecodable, match=tag):
        decode(f'{{"$":"{tag}","v":{encode(data)}}}')


def test_the_path_goes_into_them() -> None:
    with pytest.raises(PayloadError) as caught:
        encode(Outcome(True, replace(Event("ok", None, NOON), payload=[object()])), root="it")
    assert caught.value.path == "it.value.payload[0]"


# --- a race that cannot keep what its winner returned --------------------------------------------


def undecidable(ctx: Context) -> Any:
    def fast(ctx: Context) -> object:
        ctx.step("do", int)
        return object()

    def slow(ctx: Context) -> str:
        ctx.sleep("t", 100)
        return "slow"

    return ctx.race("r", {"bad": lambda ctx: 1 / 0, "slow": slow, "fast": fast})


@pytest.mark.behaviour("FLOW-02h")
@pytest.mark.parametrize("last", [0, -1])
def test_what_the_winner_returns_has_to_be_storable(last: int) -> None:
    world = World(step_retry=AT_ONCE, pick=lambda spawned: spawned[last])
    world.run(undecidable)
    assert isinstance(world.error, RaceError)
    [(name, error)] = world.error.errors.items()
    assert (name, error["type"]) == ("fast", "django_durable.exceptions.PayloadError")
    assert world.now == NOON
    assert world.entries["r"].status == "failed"
    assert "waiting" not in {entry.status for entry in world.entries.values()}


def test_a_replay_meets_the_same_error() -> None:
    def body(ctx: Context) -> Any:
        try:
            undecidable(ctx)
        except RaceError as error:
            ctx.sleep("nap", 1000)
            return list(error.errors)

    world = World(step_retry=AT_ONCE)
    assert world.value(body) == ["fast"]
    assert world.performed == ["r/fast/do"]
