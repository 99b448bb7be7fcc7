"""Resuming a run that ended for a failure which it first had as data: that is tried again, wherever it came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_durable import Break, Context, Continue, Outcome, Retry, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.testing import force_replay, run_until_idle, travel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
ONCE = Retry(max_attempts=1)
OPTIONS: dict[str, Any] = {"retry": ONCE, "step_retry": ONCE}
calls: list[str] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _broken() -> None:
    calls.clear()
    broken.clear()
    broken.update({"pay", "elsewhere"})


def work(what: str) -> str:
    calls.append(what)
    if what in broken:
        raise ValueError(what)
    return what


def undo(what: str) -> None:
    calls.append(f"-{what}")


def pay(ctx: Context) -> Outcome:
    ctx.step("before", work, "before")
    return ctx.try_step("pay", work, "pay")


def nap(ctx: Context) -> str:
    ctx.step("look", work, "look", compensate=undo)
    ctx.sleep("nap", 60)
    return "late"


def in_join(ctx: Context) -> Outcome:
    return ctx.join("j", {"a": pay, "b": lambda ctx: ctx.step("beside", work, "beside")})["a"]


def in_race(ctx: Context) -> Outcome:
    def slow(ctx: Context) -> Outcome:
        ctx.sleep("wait", 10)
        return pay(ctx)

    return ctx.race("r", {"late": nap, "a": slow})[1]


def in_loop(ctx: Context) -> Outcome:
    def turn(ctx: Context, number: int) -> Any:
        return Continue(number + 1) if number < 2 else Break({"told": pay(ctx)})

    return ctx.loop("l", turn, 0, history=0)["told"]


def in_block(ctx: Context) -> Outcome:
    return ctx.try_block("b", lambda ctx: (1, pay(ctx))).value[1]


def in_all(ctx: Context) -> Outcome:
    return ctx.join("all", {"x": lambda ctx: ctx.race("any", {"y": in_block})[1]})["x"]


WAYS: dict[str, Callable[[Context], Outcome]] = {
    "line": pay, "join": in_join, "race": in_race, "loop": in_loop, "block": in_block, "all": in_all
}  # fmt: skip


@durable_workflow(name="outcomes.way", **OPTIONS)
def way(ctx: Context, how: str, wraps: bool) -> str:
    outcome = WAYS[how](ctx)
    ctx.step("tell", work, "tell")
    if outcome.failure is not None and wraps:
        raise LookupError("not paid") from outcome.failure
    if outcome.failure is not None:
        raise outcome.failure
    ctx.step("after", work, "after")
    return outcome.value


def ended(run: RunHandle[Any], status: str = "failed") -> RunHandle[Any]:
    run_until_idle(skip_waits=True)
    assert run.refresh().status == status, run.error
    return run


def mended(run: RunHandle[Any]) -> list[str]:
    """What is done once the cause is mended."""
    calls.clear()
    broken.clear()
    run.resume()
    with force_replay():
        ended(run, "succeeded")
    return calls


@pytest.mark.parametrize(("how", "wraps"), [*((how, False) for how in WAYS), ("join", True)])
def test_it_is_tried_again_wherever_it_was_handed_on_and_nothing_else_is(how: str, wraps: bool) -> None:
    with travel():
        run = ended(way.enqueue(how, wraps))
        assert "before" in calls
        calls.clear()
        run.resume()
        ended(run)
        assert calls == ["pay"], "the cause is not mended yet"
        assert mended(run) == ["pay", "after"]
    assert run.result(timeout=0) == "pay"
    assert {step.status for step in run.steps()} <= {"succeeded", "abandoned"}, "a branch that lost waits no more"


@pytest.mark.parametrize("how", ["join", "all"])
def test_a_fork_and_the_fork_of_that_try_it_again_as_well(how: str) -> None:
    with travel():
        run = ended(way.enqueue(how, False))
        for _ in range(2):
            run = ended(run.fork("tell"))
        assert mended(run) == ["pay", "after"]


@durable_workflow(name="outcomes.looping", **OPTIONS)
def looping(ctx: Context) -> None:
    def turn(ctx: Context, told: Outcome | None) -> Any:
        if told is not None and told.failure is not None:
            raise told.failure
        return Continue(pay(ctx))

    ctx.loop("l", turn)


def test_of_a_turn_that_is_over_nothing_is_tried_again() -> None:
    run = ended(looping.enqueue())
    calls.clear()
    run.resume()
    ended(run)
    assert calls == []
    assert [(step.path, step.status) for step in run.steps() if step.path == "l[0]/pay"] == [("l[0]/pay", "failed")]


@durable_workflow(name="outcomes.child", **OPTIONS)
def child(ctx: Context) -> Any:
    return [
        ctx.try_step("pay", work, "elsewhere"),
        ctx.try_block("block", lambda ctx: ctx.step("pay", work, "elsewhere")),
    ]


@durable_workflow(name="outcomes.parent", **OPTIONS)
def parent(ctx: Context, which: int, what: str) -> None:
    own = ctx.try_step("pay", work, what)
    ctx.try_block("block", lambda ctx: ctx.step("pay", work, what))
    assert not own.ok
    ctx.step("make good", work, "make good")
    raise ctx.run_workflow("child", child)[which].failure


@pytest.mark.parametrize("what", ["pay", "elsewhere"])
@pytest.mark.parametrize("which", [0, 1])
def test_the_failure_of_another_run_makes_none_of_its_own_steps_run_again(which: int, what: str) -> None:
    """They have the same names, and may have failed with the same words."""
    run = ended(parent.enqueue(which, what))
    assert run.error is not None and "culprits" not in run.error
    calls.clear()
    run.resume()
    ended(run)
    assert calls == []
    assert {step.path: step.status for step in run.steps()}["pay"] == "failed"
