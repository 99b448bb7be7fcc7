"""Failure as data."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.culprits import culprits_of
from django_durable.core.journal.outcomes import Failed, Suspended
from django_durable.core.kinds.reasons import is_rollback
from django_durable.core.retries import Retry
from django_durable.exceptions import (
    ChildFailed,
    JoinError,
    NonRetriableError,
    PollTimeout,
    RollbackError,
    StepFailed,
    StepNameReused,
    StepTimeout,
)

from ..driving import AT_ONCE, RUN_ID, World, failing


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

    def group(ctx: Context) -> Any:
        return ctx.try_block("block", failing_with(ExceptionGroup("two", [ValueError(), RollbackError("mine")])))

    def wrapped(ctx: Context) -> Any:
        def block(ctx: Context) -> None:
            try:
                step(ctx)
            except StepFailed as error:
                raise LookupError("no") from error

        return ctx.try_block("block", block)

    for body, error in (
        (step, StepFailed),
        (block, StepFailed),
        (branch, JoinError),
        (own, RollbackError),
        (group, ExceptionGroup),
        (wrapped, LookupError),
    ):
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


def test_every_failure_of_a_block_has_a_reason() -> None:
    world = World(step_retry=AT_ONCE)
    never = failing(*[NonRetriableError("never")] * 9)
    flaky = failing(*[ValueError("no")] * 9)
    late = ChildFailed("pack", RUN_ID, "failed", {"type": "django_durable.exceptions.RunTimeout", "message": ""})

    def reason(ctx: Context, name: str, block: Any) -> str:
        outcome = ctx.try_block(name, block)
        assert outcome.error is not None
        return str(outcome.error["reason"])

    def body(ctx: Context) -> Any:
        return {
            "own": reason(ctx, "own", failing_with(KeyError("no"))),
            "critical": reason(ctx, "critical", failing_with(NonRetriableError("no"))),
            "child": reason(ctx, "child", failing_with(late)),
            "step": reason(ctx, "step", lambda ctx: ctx.step("a", flaky)),
            "poll": reason(ctx, "poll", failing_with(PollTimeout("ready", 3))),
            "join": reason(ctx, "join", lambda ctx: ctx.join("j", {"a": lambda ctx: ctx.step("a", never)})),
            "race": reason(ctx, "race", lambda ctx: ctx.race("r", {"a": lambda ctx: ctx.step("a", flaky)})),
            "value": reason(ctx, "value", lambda ctx: object()),
        }

    assert world.value(body) == {
        "own": "exhausted",
        "critical": "critical",
        "child": "timeout",
        "step": "exhausted",
        "poll": "timeout",
        "join": "critical",
        "race": "exhausted",
        "value": "exhausted",
    }


def test_an_error_that_is_its_own_cause_has_an_end() -> None:
    error = ValueError("no")
    error.__cause__ = error
    assert (culprits_of(error), is_rollback(error)) == ([], False)


def test_an_outcome_s_failure_names_what_a_resume_would_try_again() -> None:
    def stepwise(ctx: Context) -> None:
        raise NonRetriableError("no") from ctx.try_step("pay", failing_with(NonRetriableError("never")), 1).failure

    def blockwise(ctx: Context) -> None:
        def block(ctx: Context) -> None:
            ctx.step("pay", failing_with(NonRetriableError("never")), 1)

        raise NonRetriableError("no") from ctx.try_block("block", block).failure

    def again(ctx: Context) -> None:
        failure = ctx.try_block("block", failing_with(KeyError("own"))).failure
        assert failure is not None
        raise failure

    for body, culprits in ((stepwise, ["pay"]), (blockwise, ["block/pay", "block"]), (again, ["block"])):
        world = World(step_retry=AT_ONCE)
        for _ in range(2):  # as it happens, and in a replay
            world.run(body)
            assert world.error is not None
            assert culprits_of(world.error) == culprits


def test_an_outcome_s_failure_is_stored_with_it() -> None:
    world = World(step_retry=AT_ONCE)

    def body(ctx: Context) -> Any:
        branches = {
            "step": lambda ctx: ctx.try_step("pay", failing_with(NonRetriableError("never")), 1),
            "block": lambda ctx: ctx.try_block("block", failing_with(KeyError("own"))),
            "good": lambda ctx: ctx.try_step("pay", lambda: 1),
        }
        outcomes = ctx.join("all", branches)
        return {name: outcome.failure and culprits_of(outcome.failure) for name, outcome in outcomes.items()}

    assert (
        world.value(body) == world.value(body) == {"step": ["all/step/pay"], "block": ["all/block/block"], "good": None}
    )
