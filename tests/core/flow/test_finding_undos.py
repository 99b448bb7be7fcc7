"""The replay that looks for what there is to undo: how far it comes, and what must not lead it astray."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.flow.looking import Looking
from django_durable.core.flow.stepping import current_step
from django_durable.core.journal.journal import Entry
from django_durable.core.journal.outcomes import Blocked, Completed, Failed, Stopped, Suspended
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.unwinding import Unwind
from django_durable.exceptions import JoinError, StepNameReused

from ..driving import AT_ONCE, World


@pytest.fixture
def log() -> list[str]:
    return []


def doer(log: list[str]) -> Any:
    def do(ctx: Context, name: str) -> Any:
        return ctx.step(name, lambda: log.append(name) or name, compensate=lambda value: log.append(f"-{value}"))

    return do


def test_a_run_that_failed_by_its_own_misuse_is_undone_too(log: list[str]) -> None:
    world, do = World(), doer(log)

    def body(ctx: Context) -> None:
        do(ctx, "a")
        do(ctx, "a")

    assert isinstance(world.run(body), Failed) and isinstance(world.error, StepNameReused)
    assert world.undo(body) == {}
    assert log == ["a", "-a"]


def test_that_a_cancellation_was_asked_for_does_not_lead_the_replay_another_way(log: list[str]) -> None:
    world, do = World(), doer(log)

    def body(ctx: Context) -> None:
        do(ctx, "a")
        ctx.raise_if_cancelled()
        if ctx.cancelled:
            return
        do(ctx, "b")
        ctx.wait_for_event("never")

    assert isinstance(world.attempt(body), Suspended)
    world.lease.cancel_requested = True
    assert world.undo(body) == {}
    assert log == ["a", "b", "-b", "-a"]


def test_a_compensation_is_not_told_that_it_is_cancelled() -> None:
    world, told = World(step_retry=AT_ONCE), []

    def undo(value: Any) -> None:
        current_step().raise_if_cancelled()
        told.append(current_step().cancelled)

    def body(ctx: Context) -> None:
        ctx.step("a", lambda: 1, compensate=undo)
        ctx.wait_for_event("never")

    world.attempt(body)
    world.lease.cancel_requested = True
    assert world.undo(body) == {}
    assert told == [False]


@pytest.mark.parametrize("scope", ["join", "block", "loop", "race"])
def test_a_scope_whose_code_no_longer_comes_to_the_step_blocks(log: list[str], scope: str) -> None:
    from django_durable.core.kinds.loops import Break

    world, do = World(), doer(log)

    def body(inside: Any) -> Any:
        def function(ctx: Context) -> None:
            match scope:
                case "join":
                    ctx.join("at", {"b": inside})
                case "block":
                    ctx.try_block("at", inside)
                case "loop":
                    ctx.loop("at", lambda ctx, n: Break(inside(ctx)))
                case _:
                    ctx.race("at", {"b": inside})
            raise ValueError

        return function

    old = body(lambda ctx: do(ctx, "a"))
    world.run(old)
    outcome = world.attempt(lambda ctx: world._undo(body(lambda ctx: None)))
    assert isinstance(outcome, Blocked) and "has to be undone" in outcome.text, outcome
    assert world.undo(old) == {} and log == ["a", "-a"]


def test_a_loser_whose_code_no_longer_comes_to_the_step_blocks_as_well(log: list[str]) -> None:
    world, do = World(pick=lambda spawned: spawned[0]), doer(log)

    def body(inside: Any) -> Any:
        def loser(ctx: Context) -> None:
            inside(ctx)
            ctx.wait_for_event("never")

        def function(ctx: Context) -> Any:
            ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.step("w", lambda: 1)})
            raise ValueError

        return function

    old = body(lambda ctx: do(ctx, "a"))
    world.run(old)
    outcome = world.attempt(lambda ctx: world._undo(body(lambda ctx: None)))
    assert isinstance(outcome, Blocked) and "'any/loser/a' has to be undone" in outcome.text, outcome
    assert world.undo(old) == {} and log == ["a", "-a"]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_point_of_no_return_in_a_branch_holds_for_what_was_before_and_not_for_those_beside_it(
    log: list[str], names: tuple[str, str]
) -> None:
    world, do = World(), doer(log)

    def a(ctx: Context) -> None:
        do(ctx, "a1")
        ctx.rollback_checkpoint("sold")
        do(ctx, "a2")

    bodies = {"a": a, "b": lambda ctx: do(ctx, "b1")}

    def body(ctx: Context) -> None:
        do(ctx, "first")
        ctx.join("both", {name: bodies[name] for name in names})
        do(ctx, "last")
        raise ValueError

    world.run(body)
    world.undo(body)
    assert sorted(name for name in log if name.startswith("-")) == ["-a2", "-b1", "-last"]


def test_rollback_in_a_branch_or_a_turn_is_kept_by_no_block(log: list[str]) -> None:
    from django_durable.core.kinds.loops import Continue
    from django_durable.exceptions import RollbackError

    def rolling(ctx: Context, n: Any = None) -> Any:
        if n in (None, 2):
            raise RollbackError("all of it")
        return Continue(n + 1)

    def join(ctx: Context) -> None:
        ctx.join("both", {"a": rolling, "b": lambda ctx: None})

    for inside in (join, rolling, lambda ctx: ctx.loop("l", rolling, 0)):
        world = World(step_retry=AT_ONCE)
        assert isinstance(world.run(lambda ctx, inside=inside: ctx.try_block("block", inside)), Failed)  # type: ignore[misc]
        assert isinstance(world.error, RollbackError | JoinError)


def test_a_block_whose_code_was_never_begun_is_not_begun_by_the_replay(log: list[str]) -> None:
    world, do, begun = World(), doer(log), []

    def body(ctx: Context) -> None:
        do(ctx, "a")
        if not begun and not ctx.is_replaying:
            raise ValueError
        ctx.try_block("block", lambda ctx: begun.append(1))

    world.run(body)
    world.undo(body)
    assert begun == [] and log == ["a", "-a"]


def test_the_errors_of_branches_come_in_the_order_that_was_given_whatever_order_they_ended_in() -> None:
    def bad(ctx: Context) -> None:
        raise ValueError

    def body(ctx: Context) -> Any:
        try:
            ctx.join("both", {"a": bad, "b": bad, "c": bad})
        except JoinError as error:
            return list(error.errors), map_errors(ctx)

    def map_errors(ctx: Context) -> list[int]:
        with pytest.raises(JoinError) as caught:
            ctx.map("m", lambda n: 1 / 0, range(4))
        return list(caught.value.errors)

    for pick in (lambda spawned: spawned[0], lambda spawned: spawned[-1]):
        world = World(step_retry=AT_ONCE, pick=pick)
        outcome = world.run(body)
        assert isinstance(outcome, Completed), world.error
        assert world.value(body) == (["a", "b", "c"], [0, 1, 2, 3])


def test_a_line_that_only_looks_changes_nothing_of_the_journal() -> None:
    world = World()
    world.value(lambda ctx: ctx.step("a", int))
    flow, entry = world.flow, world.entries["a"]
    flow.outcome = None
    line = flow.part("at")
    line.look(Looking())
    for part in (line, line.part("at/in")):
        for change in (
            lambda part: part.record(Entry("at/b", Kind.STEP, EntryStatus.OPEN)),
            lambda part: part.forget(["a"]),
        ):
            with pytest.raises(Unwind):
                change(part)
        assert isinstance(part.outcome, Stopped) and not part.pending
    assert [entry.path for entry in flow.journal.under("")] == [entry.path]
