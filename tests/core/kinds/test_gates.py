"""Versions and tombstones: code that changes under live runs."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.journal import Entry
from django_durable.core.journal.outcomes import Blocked, Suspended
from django_durable.core.journal.states import UNNAMED, EntryStatus, Kind
from django_durable.core.kinds.loops import Break, Continue

from ..driving import Pack, World


def old(ctx: Context) -> Any:
    ctx.step("a", lambda: "a")
    ctx.wait_for_event("go")
    return ctx.step("b", lambda: "old b")


def new(ctx: Context) -> Any:
    ctx.step("a", lambda: "a")
    number = ctx.version("better", 3)
    ctx.wait_for_event("go")
    return number, ctx.step("b", lambda: "b" if number == 1 else "new b")


@pytest.mark.behaviour("FLOW-07a", "FLOW-07b")
def test_a_fresh_run_gets_the_latest_and_one_that_was_past_it_the_first() -> None:
    world = World()
    world.send("go")
    assert world.value(new) == (3, "new b")
    world = World()
    assert isinstance(world.attempt(old), Suspended)
    world.send("go")
    assert world.value(new) == (1, "b")


@pytest.mark.behaviour("FLOW-07a")
def test_it_is_pinned_when_it_is_first_asked() -> None:
    world, latest = World(), [2]

    def body(ctx: Context) -> Any:
        number = ctx.version("gate", latest[0])
        ctx.wait_for_event("go")
        return number, ctx.version("other", latest[0])

    assert isinstance(world.attempt(body), Suspended)
    latest[0] = 7
    world.send("go")
    assert world.value(body) == (2, 7)


@pytest.mark.parametrize(("kind", "number"), [("poll", 3), ("event", 3), ("child", 3), ("step", 1)])
def test_a_gate_in_front_of_what_a_resume_has_opened_is_new_where_that_begins_as_if_for_the_first_time(
    kind: str, number: int
) -> None:
    world = World()
    world.entries["at"] = Entry("at", Kind(kind), EntryStatus.RETRYING, 1, error="{}")
    assert world.value(lambda ctx: ctx.version("better", 3)) == number


def test_a_gate_at_the_end_of_what_is_journaled_is_new() -> None:
    world = World()

    def before(ctx: Context) -> Any:
        ctx.step("a", lambda: 1)
        ctx.wait_for_event("go")

    def after(ctx: Context) -> Any:
        ctx.step("a", lambda: 1)
        ctx.wait_for_event("go")
        return ctx.version("gate", 2)

    world.attempt(before)
    world.send("go")
    assert world.value(after) == 2


@pytest.mark.behaviour("FLOW-07g")
@pytest.mark.parametrize(("place", "found"), [(0, 1), (1, 1), (2, 1), (3, 2)])
def test_it_may_stand_anywhere_in_its_scope(place: int, found: int) -> None:
    """Whoever had come to the end of what is journaled had not come past a gate that stands behind it."""

    def body(has_gate: bool) -> Any:
        def scope(ctx: Context) -> Any:
            number = None
            for position in range(4):
                if has_gate and position == place:
                    number = ctx.version("gate", 2)
                if position < 2:
                    ctx.step(f"s{position}", lambda: 1)
                if position == 2:
                    ctx.wait_for_event("go")
            return number

        return lambda ctx: ctx.try_block("block", scope).value

    world = World()
    world.attempt(body(False))
    world.send("go")
    assert world.value(body(True)) == found


@pytest.mark.behaviour("FLOW-07c")
def test_only_the_gate_s_own_scope_counts() -> None:
    """A branch that is further than another says nothing about the other; nor does an outer scope."""
    world = World()

    def branch(has_gate: bool, name: str) -> Any:
        def body(ctx: Context) -> Any:
            number = ctx.version("gate", 2) if has_gate else 0
            if name == "far":
                ctx.step("done", lambda: 1)
            ctx.wait_for_event("go")
            return number

        return body

    def run(has_gate: bool) -> Any:
        def body(ctx: Context) -> Any:
            return ctx.join("both", {"far": branch(has_gate, "far"), "near": branch(has_gate, "near")})

        return body

    world.attempt(run(False))
    del world.entries["both/near/go"]
    world.send("go")
    world.send("go")
    assert world.value(run(True)) == {"far": 1, "near": 2}


@pytest.mark.behaviour("FLOW-07d")
def test_each_turn_of_a_loop_has_a_gate_of_its_own() -> None:
    world = World()

    def turn(has_gate: bool) -> Any:
        def body(ctx: Context, seen: list[int]) -> Any:
            number = ctx.version("gate", 2) if has_gate else 1
            ctx.step("work", lambda: 1)
            ctx.wait_for_event("go")
            return Break([*seen, number]) if len(seen) == 2 else Continue([*seen, number])

        return body

    world.attempt(lambda ctx: ctx.loop("turns", turn(False), []))
    for _ in range(3):
        world.send("go")
    assert world.value(lambda ctx: ctx.loop("turns", turn(True), [])) == [1, 2, 2]


@pytest.mark.behaviour("FLOW-07e")
def test_a_gate_is_retired_by_removed() -> None:
    world = World()
    world.attempt(new)

    def retired(ctx: Context) -> Any:
        ctx.step("a", lambda: "a")
        ctx.removed("better", "gate")
        ctx.wait_for_event("go")
        return ctx.version("next", 2)

    world.send("go")
    assert world.value(retired) == 2
    assert world.flow.unvisited() == []


@pytest.mark.behaviour("FLOW-07f")
def test_another_kind_at_the_place_of_a_gate_is_a_divergence() -> None:
    world = World()
    world.attempt(old)
    outcome = world.run(lambda ctx: ctx.version("a", 2))
    assert isinstance(outcome, Blocked) and "'a' is a step" in outcome.text


@pytest.mark.parametrize("latest", [0, -1, True, "2", 1.0])
def test_versions_are_counted_from_one(latest: Any) -> None:
    world = World()
    world.run(lambda ctx: ctx.version("gate", latest))
    assert isinstance(world.error, TypeError)


def everything(ctx: Context) -> None:
    ctx.now()
    ctx.step("step", lambda: 1)
    ctx.step("keyed", lambda: 1, key=7)
    ctx.sleep("sleep", 0)
    ctx.start_workflow("child", Pack())
    ctx.join("join", {"a": lambda ctx: ctx.step("in", lambda: 1)})
    ctx.race("race", {"a": lambda ctx: ctx.step("in", lambda: 1)})
    ctx.map("map", lambda n: n, [1, 2])
    ctx.loop("loop", lambda ctx, state: Break(ctx.step("in", lambda: 1)))
    ctx.try_block("block", lambda ctx: ctx.step("in", lambda: 1))
    ctx.rollback_checkpoint("mark")
    ctx.version("gate", 2)
    ctx.poll("poll", lambda: 1, every=1)
    ctx.wait_for_event("event")


@pytest.mark.behaviour("FLOW-08a")
def test_entries_of_every_kind_can_be_removed() -> None:
    world = World()
    assert isinstance(world.attempt(everything), Suspended)
    assert {entry.kind for entry in world.entries.values()} == set(Kind) - {Kind.UNDO}

    def body(ctx: Context) -> str:
        # Values have no name, and are no work that is left out; what undoes a step comes and goes with it.
        for kind in set(Kind) - UNNAMED:
            ctx.removed(kind, kind)
        ctx.removed("keyed")
        return "short"

    assert world.value(body) == "short"
    assert world.flow.unvisited() == []


def test_what_the_code_does_not_come_to_is_told() -> None:
    world = World()
    world.attempt(everything)
    assert world.value(lambda ctx: ctx.step("step", lambda: 1)) == 1
    assert set(world.flow.unvisited()) >= {"keyed[7]", "child", "join", "race/a/in", "map[1]", "gate"}


def test_removed_names_the_kind_that_the_entry_has() -> None:
    world = World()
    world.attempt(old)
    outcome = world.run(lambda ctx: ctx.removed("a", "sleep"))
    assert isinstance(outcome, Blocked) and "'a' is a step" in outcome.text
    world = World()
    world.run(lambda ctx: ctx.removed("a", "thing"))
    assert isinstance(world.error, ValueError)
