"""Failure as data."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.culprits import culprits_of
from django_durable.core.journal.outcomes import Failed, Suspended
from django_durable.core.kinds.reasons import is_rollback
from django_durable.core.kinds.tries import NOBODYS, Outcome, _outcome_from
from django_durable.core.payloads.codec import decode, encode
from django_durable.core.retries import Retry
from django_durable.exceptions import (
    BlockFailed,
    ChildFailed,
    JoinError,
    NonRetriableError,
    PayloadError,
    PayloadUndecodable,
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
@pytest.mark.parametrize("rolls_back", ["a", "z"])
def test_one_branch_that_rolls_back_speaks_for_all_that_failed(rolls_back: str) -> None:
    def failed(name: str) -> Any:
        return RollbackError("undo it") if name == rolls_back else ValueError("no")

    def body(ctx: Context) -> Any:
        branches = {name: lambda ctx, name=name: ctx.step("pay", failing(*[failed(name)] * 9)) for name in ("a", "z")}
        return ctx.try_block("block", lambda ctx: ctx.join("both", branches))

    world = World(step_retry=AT_ONCE)
    assert isinstance(world.run(body), Failed)
    assert isinstance(world.error, JoinError)


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

    exhausted = failing_with(KeyError("no"))
    timed_out = failing_with(PollTimeout("ready", 3))
    critical = failing_with(NonRetriableError("no"))

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
            "late and used up": reason(ctx, "two", lambda ctx: ctx.join("j", {"a": exhausted, "b": timed_out})),
            "all of them": reason(
                ctx, "three", lambda ctx: ctx.join("j", {"a": exhausted, "b": critical, "c": timed_out})
            ),
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
        "late and used up": "timeout",
        "all of them": "critical",
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


# --- as stored values ------------------------------------------------------------------------

TOLD = {"reason": "critical", "step": "pay", "type": "E", "message": "no", "traceback": "…"}
ERROR = {"type": "E", "message": "no", "traceback": "…"}


@pytest.mark.parametrize(
    "failure",
    [
        StepFailed("pay", 2, ERROR),
        StepFailed("pay", 2, {"type": "another"}),
        BlockFailed("pay", TOLD),
        BlockFailed("b", {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("told", [TOLD, ERROR, None, {}])
def test_an_outcome_comes_back_with_the_very_failure_that_it_had(failure: Any, told: Any) -> None:
    back = decode(encode(Outcome(False, error=told, failure=failure)))
    assert (back.error, type(back.failure), str(back.failure)) == (told, type(failure), str(failure))
    ours = {name: value for name, value in vars(back.failure).items() if name != "run_id"}
    assert ours == vars(failure)
    assert list(back.failure.error) == list(failure.error)
    assert decode(encode(back)).failure.run_id == back.failure.run_id == NOBODYS


def test_what_a_failure_is_told_of_is_stored_once() -> None:
    text = encode(Outcome(False, error=TOLD, failure=StepFailed("pay", 2, ERROR)))
    assert text.count("traceback") == 1


class Declined(StepFailed):
    pass


@pytest.mark.parametrize("failure", [JoinError("both", {}), Declined("pay", 1, ERROR), ValueError("no")])
def test_a_failure_that_would_not_come_back_is_refused(failure: Any) -> None:
    with pytest.raises(PayloadError, match=f"its failure, a .*{type(failure).__name__}, cannot be stored"):
        encode([Outcome(False, error=TOLD, failure=failure)])


@pytest.mark.parametrize("text", ['{"step":"pay"}', '{"block":1,"run":0}', '{"step":1,"attempts":1,"run":"x"}', "[]"])
def test_damaged_failures_are_told(text: str) -> None:
    with pytest.raises(PayloadUndecodable):
        decode(f'{{"$":"outcome","v":{{"ok":false,"value":null,"error":null,"failure":{text}}}}}')


def test_reading_a_value_leaves_what_it_is_read_from() -> None:
    data = {"ok": False, "value": None, "error": TOLD, "failure": {"block": "b", "run": RUN_ID}}
    before = dict(data)
    assert _outcome_from(data) == _outcome_from(data)
    assert data == before
