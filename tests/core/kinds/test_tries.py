"""Failure as data."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Failed, Suspended
from django_durable.core.retries import Retry
from django_durable.exceptions import (
    JoinError,
    NonRetriableError,
    RollbackError,
    StepFailed,
    StepNameReused,
    StepTimeout,
)

from ..driving import AT_ONCE, World, failing


@pytest.mark.behaviour("FLOW-04a")
@pytest.mark.parametrize(
    ("error", "reason", "attempts"),
    [
        (ValueError("no"), "exhausted", 3),
        (NonRetriableError("never"), "critical", 1),
        (StepTimeout("pay", 1.0), "timeout", 3),
    ],
)
def test_a_step_s_last_failure_comes_back_as_data(error: Exception, reason: str, attempts: int) -> None:
    world = World(step_retry=AT_ONCE)

    def body(ctx: Context) -> Any:
        outcome = ctx.try_step("pay", failing(*[error] * 3))
        ctx.sleep("think", 1)
        assert outcome.error is not None
        return outcome.ok, outcome.value, outcome.error["reason"], outcome.error["step"], outcome.error["message"]

    assert world.value(body) == (False, None, reason, "pay", str(error))
    assert world.entries["pay"].attempts == attempts


def test_a_step_that_succeeds_comes_back_as_its_value() -> None:
    outcome = []
    World().value(lambda ctx: outcome.append(ctx.try_step("pay", lambda: 5)))
    assert (outcome[0].ok, outcome[0].value, outcome[0].error) == (True, 5, None)


@pytest.mark.behaviour("FLOW-04b")
def test_retries_stay_retries() -> None:
    world = World()
    flaky = failing(ValueError("not yet"))

    def body(ctx: Context) -> Any:
        return ctx.try_step("pay", flaky, retry=Retry(initial=60, jitter=0)).value

    assert isinstance(world.attempt(body), Suspended)
    assert world.value(body) == 2


@pytest.mark.behaviour("FLOW-04d")
def test_a_rollback_goes_its_way_through_steps_blocks_and_branches() -> None:
    def step(ctx: Context) -> Any:
        return ctx.try_step("pay", failing(RollbackError("undo it")))

    def block(ctx: Context) -> Any:
        return ctx.try_block("block", step)

    def branch(ctx: Context) -> Any:
        return ctx.try_block("block", lambda ctx: ctx.join("both", {"a": step, "b": lambda ctx: 1}))

    def own(ctx: Context) -> Any:
        return ctx.try_block("block", failing_with(RollbackError("mine")))

    for body, error in ((step, StepFailed), (block, StepFailed), (branch, JoinError), (own, RollbackError)):
        world = World()
        assert isinstance(world.run(body), Failed)
        assert isinstance(world.error, error)
        assert world.performed in ([], ["pay"], ["block/pay"], ["block/both/a/pay"])


def failing_with(error: Exception) -> Any:
    def block(ctx: Context) -> None:
        raise error

    return block


@pytest.mark.behaviour("FLOW-04c")
def test_what_leaves_a_block_comes_back_as_data_and_is_replayed() -> None:
    world, calls = World(), []

    def block(ctx: Context) -> Any:
        calls.append(1)
        ctx.step("a", lambda: 1)
        raise KeyError("gone")

    def body(ctx: Context) -> Any:
        outcome = ctx.try_block("block", block)
        ctx.sleep("think", 1)
        assert outcome.error is not None
        return outcome.ok, outcome.error["type"]

    assert world.value(body) == (False, "KeyError")
    assert calls == [1] and world.performed == ["block/a"]


@pytest.mark.behaviour("FLOW-04c")
def test_joins_and_races_that_fail_in_a_block_are_data() -> None:
    bad = {"a": lambda ctx: 1 / 0}

    def body(ctx: Context) -> Any:
        joined = ctx.try_block("one", lambda ctx: ctx.join("both", bad))
        raced = ctx.try_block("two", lambda ctx: ctx.race("any", bad))
        assert joined.error and raced.error
        return joined.error["type"].rpartition(".")[2], raced.error["type"].rpartition(".")[2]

    assert World().value(body) == ("JoinError", "RaceError")


def test_a_wait_inside_a_block_is_a_wait_of_the_run() -> None:
    world = World()

    def body(ctx: Context) -> Any:
        return ctx.try_block("block", lambda ctx: ctx.wait_for_event("go").payload).value

    assert isinstance(world.attempt(body), Suspended)
    world.send("go", 7)
    assert world.value(body) == 7


def test_faults_of_the_code_are_not_data() -> None:
    def twice(ctx: Context) -> None:
        ctx.step("same", lambda: 1)
        ctx.step("same", lambda: 1)

    world = World()
    world.run(lambda ctx: ctx.try_block("block", twice))
    assert isinstance(world.error, StepNameReused)


def test_a_result_that_cannot_be_journaled_is_the_block_s_failure() -> None:
    outcomes = []
    World().value(lambda ctx: outcomes.append(ctx.try_block("block", lambda ctx: object())))
    assert not outcomes[0].ok and "result of block" in outcomes[0].error["message"]
