"""Branches that wait while others work, and what a line knows of whether it replays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Completed, Suspended
from django_durable.core.journal.states import EntryStatus
from django_durable.core.kinds.loops import Break, Continue

from ..driving import AT_ONCE, NOON, Crash, Pack, World, wake_of


def sleeper(ctx: Context) -> str:
    ctx.sleep("nap", 60)
    return "slept"


@pytest.mark.parametrize("others", [{}, {"never": lambda ctx: ctx.wait_for_event("never")}], ids=["alone", "beside"])
def test_a_wait_that_began_while_others_worked_is_not_counted_again_from_their_end(others: dict[str, Any]) -> None:
    world = World()

    def work() -> None:
        world.now += timedelta(seconds=50)

    def body(ctx: Context) -> Any:
        return ctx.join("all", {"sleeper": sleeper, **others, "worker": lambda ctx: ctx.step("work", work)})

    outcome = world.attempt(body)
    assert isinstance(outcome, Suspended)
    assert wake_of(world, outcome) == NOON + timedelta(seconds=60)
    assert world.entries["all/sleeper/nap"].wake_at == NOON + timedelta(seconds=60)


def test_a_wait_that_is_stored_with_the_suspension_is_counted_by_the_database() -> None:
    """This process knows the database's time only roughly: by its own reckoning the sleep would end early."""
    outcome = World().attempt(lambda ctx: ctx.join("all", {"sleeper": sleeper}))
    assert isinstance(outcome, Suspended)
    assert (outcome.wake_at, outcome.wake_after) == (None, 60)


def test_a_nested_join_s_wait_is_not_counted_again_either() -> None:
    world = World()

    def work() -> None:
        world.now += timedelta(seconds=50)

    def body(ctx: Context) -> Any:
        inner = {"a": sleeper, "b": lambda ctx: ctx.wait_for_event("never")}
        return ctx.join("all", {"inner": lambda ctx: ctx.join("in", inner), "work": lambda ctx: ctx.step("w", work)})

    outcome = world.attempt(body)
    assert isinstance(outcome, Suspended)
    assert wake_of(world, outcome) == NOON + timedelta(seconds=60)


def test_the_first_line_of_a_branch_is_no_replay_and_neither_is_what_follows_the_join() -> None:
    world, seen = World(), []

    def branch(ctx: Context) -> None:
        seen.append(("branch", ctx.is_replaying))
        ctx.step("s", lambda: 1)
        ctx.sleep("nap", 1)

    def body(ctx: Context) -> None:
        ctx.step("before", lambda: 1)
        ctx.join("both", {"a": branch})
        seen.append(("after", ctx.is_replaying))
        ctx.sleep("more", 1)

    world.value(body)
    assert seen == [("branch", False), ("branch", True), ("after", False), ("after", True)]


def test_a_loser_s_values_are_journaled_although_its_branch_is_begun_anew_in_this_process() -> None:
    """A branch holds a race, then waits while another one works, and is woken here: its first line's losers go on."""
    world = World()
    pack = Pack()

    def racing(ctx: Context) -> Any:
        name, _ = ctx.race("any", {"won": lambda ctx: 1, "lost": lambda ctx: ctx.run_workflow("pack", pack)})
        ctx.sleep("nap", 5)
        return name

    def worker(ctx: Context) -> None:
        for n in range(4):
            ctx.step("work", work, key=n)

    def work() -> None:
        world.now += timedelta(seconds=3)

    outcome = world.run(lambda ctx: ctx.join("both", {"racing": racing, "worker": worker}))
    assert isinstance(outcome, Completed)
    assert len(world.unwanted) == len(pack.made)


def test_a_loser_that_was_starting_children_leaves_none_behind() -> None:
    """Its map had started the first of them when the other branch won: no entry waits yet."""
    world, pack = World(), Pack()

    def fan(ctx: Context) -> Any:
        return ctx.map("fan", pack, range(1200))

    def body(ctx: Context) -> Any:
        return ctx.race("any", {"fan": fan, "quick": lambda ctx: 1})

    world.crash_after = {2}
    with pytest.raises(Crash):
        world.attempt(body)
    assert world.entries["any/fan/fan"].status == EntryStatus.OPEN
    world.pick = lambda spawned: spawned[-1]
    assert world.value(body) == ("quick", 1)
    assert set(world.unwanted) == {"any/fan/fan"}


def test_items_may_come_from_steps_that_are_made_as_they_are_asked_for() -> None:
    def body(ctx: Context) -> Any:
        return ctx.map("double", lambda n: n * 2, (ctx.step("get", lambda n: n, n, key=n) for n in range(3)))

    assert World(step_retry=AT_ONCE).value(body) == [0, 2, 4]


def test_an_endless_loop_of_races_keeps_nothing_in_memory() -> None:
    world, kept = World(), []

    def turn(ctx: Context, n: int) -> Any:
        branches = {"slow": lambda ctx: ctx.wait_for_event("never"), "do": lambda ctx: ctx.step("s", int)}
        name, _ = ctx.race("any", branches)
        ctx.join("both", {"a": lambda ctx: ctx.uuid4()})
        flow = world.flow
        kept.append((len(flow.losers), len(flow.seen), len(flow.claimed._paths), len(flow.undos)))
        return Break(name) if n == 60 else Continue(n + 1)

    assert world.value(lambda ctx: ctx.loop("long", turn, 0, history=2)) == "do"
    assert kept[10] == kept[-1]
