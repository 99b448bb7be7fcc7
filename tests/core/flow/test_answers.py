"""Events that are answered: at most once each, with the run's next durable write, from any line of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Completed, Suspended
from django_durable.core.kinds.events import Event
from django_durable.core.kinds.loops import Break, Continue
from django_durable.exceptions import ContextMisuse, InvalidName, JournalFull, PayloadError
from tests.core.driving import AT_ONCE, NOON, Crash, World


def answering(*responses: Any) -> Callable[[Context], Any]:
    def body(ctx: Context) -> None:
        event = ctx.wait_for_event("question")
        for response in responses:
            event.complete(response)
        ctx.step("after", int)

    return body


def asked(*names: str) -> World:
    world = World(step_retry=AT_ONCE)
    for name in names or ("question",):
        world.send(name)
    return world


def answers(world: World) -> list[Any]:
    return list(world.answers.values())


def test_the_answer_goes_with_the_next_durable_write() -> None:
    seen: list[Any] = []

    def body(ctx: Context) -> None:
        event = ctx.wait_for_event("question")
        event.complete({"for": ("you", 2)})
        seen.append(answers(world))
        ctx.step("after", int)
        seen.append(answers(world))

    world = asked()
    world.value(body)
    assert seen == [[], [{"for": ("you", 2)}]]
    entry = world.entries["%answer[question]"]
    assert (entry.kind, entry.status, entry.awaits) == ("value", "succeeded", "question")


def test_with_the_outcome_where_nothing_else_is_written() -> None:
    world = asked()
    world.value(lambda ctx: ctx.wait_for_event("question").complete())
    assert answers(world) == [None]


def test_with_a_suspension() -> None:
    def body(ctx: Context) -> None:
        ctx.wait_for_event("question").complete("soon")
        ctx.sleep("nap", 60)

    world = asked()
    assert isinstance(world.attempt(body), Suspended)
    assert answers(world) == ["soon"]


@pytest.mark.behaviour("WAIT-02m")
def test_a_replay_does_not_answer_again() -> None:
    world = asked()
    world.value(answering("yes"))
    world.value(answering("yes"))
    assert [write.answers for write in world.commits if write.answers] == [{"question": '"yes"'}]


def test_the_first_answer_stands_where_a_replay_comes_to_another() -> None:
    world = asked()
    world.value(answering("yes"))
    world.value(answering("no"))
    assert answers(world) == ["yes"]
    assert world.entries["%answer[question]"].value == '"yes"'


@pytest.mark.behaviour("WAIT-02l")
def test_a_crash_before_the_write_gives_it_anew() -> None:
    world = asked()
    world.crash_before = 2
    assert isinstance(world.run(answering("yes")), Completed)
    assert answers(world) == ["yes"]


def test_the_same_answer_again_changes_nothing() -> None:
    world = asked()
    world.value(answering({"a": 1}, {"a": 1}))
    assert answers(world) == [{"a": 1}]


@pytest.mark.parametrize("replays", [False, True])
def test_another_answer_is_refused(replays: bool) -> None:
    world = asked()
    if replays:
        world.crash_after = {2}
    world.run(answering("yes", "no"))
    assert isinstance(world.error, ContextMisuse)
    assert "answered already" in str(world.error)


def test_an_answer_that_cannot_be_stored() -> None:
    world = asked()
    world.attempt(answering([object()]))
    assert isinstance(world.error, PayloadError)
    assert world.error.path == "response to event 'question'[0]"
    world = asked()
    world.max_payload_bytes = 10
    world.attempt(answering("x" * 10))
    assert isinstance(world.error, PayloadError)
    assert not world.answers


def test_each_of_several_has_its_own() -> None:
    def body(ctx: Context) -> None:
        events = ctx.wait_for_events("all", events=["a", "b"], count=2)
        for event in reversed(events):
            event.complete(f"re: {event.name}")

    world = asked("b", "a")
    world.value(body)
    world.value(body)
    assert world.answers == {0: "re: b", 1: "re: a"}


@pytest.mark.behaviour("WAIT-02m")
def test_code_that_answers_another_one_first_leaves_every_event_its_own_answer() -> None:
    def body(*answered: str) -> Callable[[Context], None]:
        def code(ctx: Context) -> None:
            for name in ("a", "b"):
                event = ctx.wait_for_event(name)
                if name in answered:
                    event.complete(f"re: {name}")
            ctx.wait_for_event("go")

        return code

    world = asked("a", "b")
    world.attempt(body("b"))
    assert answers(world) == ["re: b"]
    world.attempt(body("a", "b"))
    assert sorted(answers(world)) == ["re: a", "re: b"]
    assert {path for path in world.entries if "answer" in path} == {"%answer[a]", "%answer[b]"}


def test_an_answer_s_path_fits_whatever_the_event_was_taken_at() -> None:
    """Two long ones, which begin with the same; and one that a scope around it took."""
    names = ["%" * 150, "%" * 151]

    def body(ctx: Context) -> None:
        events = [ctx.wait_for_event(name) for name in ("a", *names)]
        events[1].complete(1)
        ctx.try_block("block" * 30, lambda ctx: [events[0].complete(0), events[2].complete(2)][0])

    world = asked("a", *names)
    world.value(body)
    assert sorted(answers(world)) == [0, 1, 2]
    scope = "block" * 30 + "/"
    assert f"{scope}%answer[%2Fa]" in world.entries
    assert len([path for path in world.entries if "answer" in path]) == 3


# --- where -----------------------------------------------------------------------------------


def in_block(ctx: Context, event: Event) -> None:
    ctx.try_block("block", lambda ctx: (event.complete("in"), ctx.step("work", int))[1])


def in_turn(ctx: Context, event: Event) -> None:
    def turn(ctx: Context, n: int) -> Any:
        if n == 1:
            event.complete("in")
        ctx.step("work", int)
        return Break() if n == 2 else Continue(n + 1)

    ctx.loop("turns", turn, 0)


def in_branch(ctx: Context, event: Event) -> None:
    def branch(ctx: Context) -> None:
        event.complete("in")
        ctx.step("work", int)

    ctx.join("both", {"a": branch, "b": lambda ctx: ctx.step("work", int)})


@pytest.mark.parametrize("inside", [in_block, in_turn, in_branch])
def test_in_a_nested_scope_with_the_next_write_of_that(inside: Callable[[Context, Event], None]) -> None:
    def body(ctx: Context) -> None:
        inside(ctx, ctx.wait_for_event("question"))

    world = asked()
    world.value(body)
    assert answers(world) == ["in"]
    [write] = [write for write in world.commits if write.answers]
    assert any(path.endswith("/work") for path in write.entries)
    world.value(body)
    assert len([write for write in world.commits if write.answers]) == 1
    assert world.flow.unvisited() == []


def test_two_branches_that_say_different_things() -> None:
    def body(ctx: Context) -> None:
        event = ctx.wait_for_event("question")
        ctx.join("both", {name: lambda ctx, name=name: event.complete(name) for name in "ab"})

    world = asked()
    world.run(body)
    assert isinstance(world.error, ContextMisuse)


def test_not_in_a_step() -> None:
    def body(ctx: Context) -> None:
        event = ctx.wait_for_event("question")
        ctx.step("work", event.complete, "in")

    world = asked()
    world.attempt(body)
    assert "inside a step" in str(world.error)
    assert not world.answers


def test_not_once_the_run_waits() -> None:
    def body(ctx: Context) -> None:
        event = ctx.wait_for_event("question")
        try:
            ctx.sleep("nap", 60)
        finally:
            event.complete("too late")

    world = asked()
    assert isinstance(world.attempt(body), Suspended)
    assert not world.answers


def test_an_event_that_no_run_has_taken() -> None:
    with pytest.raises(ContextMisuse, match="was not taken by a run"):
        Event("question", 1, NOON).complete("yes")


def test_another_run_cannot_answer() -> None:
    from dataclasses import replace

    kept: list[Event] = []
    world = asked()
    world.value(lambda ctx: kept.append(ctx.wait_for_event("question")))
    other = asked()

    def body(ctx: Context) -> None:
        other.flow.run = replace(other.flow.run, run_id=None)  # type: ignore[arg-type]
        ctx.try_block("block", lambda ctx: kept[0].complete("yes"))

    other.attempt(body)
    assert isinstance(other.error, ContextMisuse)
    assert "another run" in str(other.error)


def test_an_event_is_compared_by_what_it_says() -> None:
    found = []
    world = asked()
    world.value(lambda ctx: found.append(ctx.wait_for_event("question")))
    assert found == [Event("question", None, NOON)]
    assert repr(found[0]) == f"Event(name='question', payload=None, sent_at={NOON!r})"


def test_a_scope_that_leaves_no_room_for_the_answer() -> None:
    def body(ctx: Context) -> None:
        ctx.wait_for_event("w", event="question").complete("yes")

    world = asked()
    world.attempt(lambda ctx: ctx.join("j" * 200, {"b" * 90: body}, key="k" * 200))
    assert isinstance(world.error, InvalidName)


def test_a_replay_that_passes_by_a_block_misses_no_answer_and_takes_no_other_for_it() -> None:
    def body(ctx: Context) -> None:
        first, second = (ctx.wait_for_event("question", key=turn) for turn in range(2))
        ctx.try_block("block", lambda ctx: first.complete("first"))
        first.complete("first")
        ctx.step("after", int)
        second.complete("second")

    world = asked("question", "question")
    world.crash_after = {3}
    world.run(body)
    assert answers(world) == ["first", "second"]
    world.value(body)
    assert world.flow.unvisited() == []


def test_an_answer_in_a_crash_right_after_its_write() -> None:
    world = asked()
    world.crash_after = {2}
    with pytest.raises(Crash):
        world.attempt(answering("yes"))
    assert answers(world) == ["yes"]
    world.value(answering("yes"))
    assert answers(world) == ["yes"]


def test_one_that_did_not_get_into_the_journal_was_not_given() -> None:
    refused: list[str] = []

    def body(ctx: Context) -> None:
        event = ctx.wait_for_event("question")
        for _ in range(2):
            try:
                event.complete(1)
            except JournalFull as error:
                refused.append(type(error).__name__)

    world = World(max_entries=1)
    world.send("question")
    world.value(body)
    assert (refused, answers(world)) == (["JournalFull"] * 2, [])
