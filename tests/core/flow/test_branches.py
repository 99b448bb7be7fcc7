"""Join, race, map: branches side by side, whatever order they run in."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Blocked, Completed, Failed, Suspended
from django_durable.core.journal.states import EntryStatus
from django_durable.core.payloads.briefly import TOGETHER_MAX
from django_durable.core.payloads.codec import decode
from django_durable.core.retries import Retry
from django_durable.exceptions import JoinError, RaceError

from ..driving import AT_ONCE, World, failing

ORDERS: list[Callable[[list[Any]], Any]] = [
    lambda spawned: spawned[0],
    lambda spawned: spawned[-1],
    random.Random(7).choice,
]


@pytest.fixture(params=range(len(ORDERS)), ids=["first", "last", "any"])
def world(request: pytest.FixtureRequest) -> World:
    return World(pick=ORDERS[request.param], step_retry=AT_ONCE)


# --- join ------------------------------------------------------------------------------------


def test_join_gives_each_branch_s_result_under_its_name_in_the_order_given(world: World) -> None:
    def body(ctx: Context) -> Any:
        return ctx.join("both", {"b": lambda ctx: ctx.step("save", lambda: 1), "a": lambda ctx: 2})

    assert list(world.value(body).items()) == [("b", 1), ("a", 2)]
    assert "both/b/save" in world.entries


@pytest.mark.behaviour("FLOW-01d")
def test_each_branch_has_names_of_its_own_and_a_replay_runs_nothing_again(world: World) -> None:
    def branch(ctx: Context) -> str:
        return f"{ctx.step('save', lambda: 'x')}{ctx.uuid4()}{ctx.random()}"

    def body(ctx: Context) -> Any:
        value = ctx.join("both", {"a": branch, "b": branch})
        ctx.sleep("a while", 5)
        return value, ctx.join("again", {"a": branch})

    world.attempt(body)
    first = decode(world.entries["both"].value or "")
    assert first["a"] != first["b"]
    assert world.value(body)[0] == first
    assert sorted(world.performed) == ["again/a/save", "both/a/save", "both/b/save"]


@pytest.mark.behaviour("FLOW-01g")
def test_the_run_is_parked_until_the_first_of_its_branches_times(world: World) -> None:
    def body(ctx: Context) -> Any:
        seconds = {"later": 600, "first": 60, "last": 6000}
        return ctx.join("all", {name: lambda ctx, n=n: ctx.sleep("nap", n) for name, n in seconds.items()})

    world.attempt(body)
    # Looked at again before anything has come.
    outcome = world.attempt(body)
    first = world.entries["all/first/nap"].wake_at
    assert isinstance(outcome, Suspended) and (outcome.wake_at, outcome.wake_after) == (first, None)


@pytest.mark.behaviour("FLOW-01g")
def test_a_branch_that_waits_does_not_hold_up_the_others_and_the_run_is_parked_once(world: World) -> None:
    def late(ctx: Context) -> str:
        ctx.sleep("long", 60)
        return "late"

    def asking(ctx: Context) -> Any:
        event = ctx.wait_for_event("word", timeout=600)
        return event.payload

    def body(ctx: Context) -> Any:
        return ctx.join("all", {"late": late, "asking": asking, "quick": lambda ctx: ctx.step("do", lambda: "done")})

    outcome = world.attempt(body)
    assert isinstance(outcome, Suspended)
    assert set(outcome.paths) == {"all/late/long", "all/asking/word"}
    assert world.entries["all/quick/do"].status == EntryStatus.SUCCEEDED
    world.send("word", "go")
    outcome = world.attempt(body)
    assert isinstance(outcome, Suspended) and outcome.paths == ("all/late/long",)
    assert world.value(body) == {"late": "late", "asking": "go", "quick": "done"}
    assert world.performed == ["all/quick/do"]


@pytest.mark.behaviour("FLOW-01b", "FLOW-01c")
def test_all_branches_come_to_their_ends_although_one_fails(world: World) -> None:
    def body(ctx: Context) -> Any:
        return ctx.join(
            "both",
            {
                "bad": lambda ctx: ctx.step("fail", failing(*[ValueError("no")] * 3)),
                "good": lambda ctx: ctx.step("work", lambda: 1),
                "worse": lambda ctx: 1 / 0,
            },
        )

    assert isinstance(world.run(body), Failed)
    assert isinstance(world.error, JoinError)
    assert set(world.error.errors) == {"bad", "worse"}
    assert world.error.errors["worse"]["type"] == "ZeroDivisionError"
    assert world.error.errors["bad"]["culprits"] == ["both/bad/fail"]
    assert world.entries["both/good/work"].status == EntryStatus.SUCCEEDED


@pytest.mark.behaviour("FLOW-01d")
def test_a_join_that_failed_fails_again_under_replay_and_can_be_caught(world: World) -> None:
    def body(ctx: Context) -> Any:
        try:
            ctx.join("both", {"bad": lambda ctx: 1 / 0})
        except JoinError as error:
            ctx.sleep("think", 1)
            return sorted(error.errors)

    assert world.value(body) == ["bad"]


@pytest.mark.behaviour("FLOW-01f")
def test_a_retry_inside_a_branch_does_not_fail_the_join(world: World) -> None:
    retry = Retry(max_attempts=3, initial=10, jitter=0)
    flaky = failing(ValueError("not yet"), ValueError("not yet"))

    def body(ctx: Context) -> Any:
        return ctx.join("both", {"a": lambda ctx: ctx.step("try", flaky, retry=retry), "b": lambda ctx: 2})

    assert world.value(body) == {"a": 3, "b": 2}


@pytest.mark.behaviour("FLOW-01e")
def test_joins_nest(world: World) -> None:
    def inner(ctx: Context) -> Any:
        return ctx.join("inner", {"x": lambda ctx: ctx.step("s", lambda: 1), "y": lambda ctx: ctx.sleep("z", 3)})

    def body(ctx: Context) -> Any:
        return ctx.join("outer", {"a": inner, "b": inner})

    assert world.value(body) == {"a": {"x": 1, "y": None}, "b": {"x": 1, "y": None}}
    assert sorted(world.performed) == ["outer/a/inner/x/s", "outer/b/inner/x/s"]


@pytest.mark.parametrize("commit", range(1, 9))
def test_a_crash_after_any_commit_repeats_nothing_and_loses_nothing(world: World, commit: int) -> None:
    def branch(ctx: Context) -> Any:
        one = ctx.step("one", lambda: 1)
        ctx.sleep("rest", 1)
        return one + ctx.step("two", lambda: 1)

    def body(ctx: Context) -> Any:
        started = ctx.now()
        value = ctx.join("both", {"a": branch, "b": branch})
        return value, started == ctx.step("same", lambda: started)

    world.crash_after = {commit}
    assert world.value(body) == ({"a": 2, "b": 2}, True)
    assert sorted(world.performed) == ["both/a/one", "both/a/two", "both/b/one", "both/b/two", "same"]


def test_misuse_in_a_branch_fails_the_run_and_no_branch_error_hides_it(world: World) -> None:
    def twice(ctx: Context) -> None:
        ctx.step("same", lambda: 1)
        ctx.step("same", lambda: 1)

    assert isinstance(world.run(lambda ctx: ctx.join("both", {"a": twice, "b": lambda ctx: 1})), Failed)
    assert type(world.error).__name__ == "StepNameReused"


def test_things_that_are_no_branches_are_refused(world: World) -> None:
    for wrong in ({"a": 1}, [lambda ctx: 1]):
        world.run(lambda ctx, wrong=wrong: ctx.join("both", wrong))  # type: ignore[misc]
        assert isinstance(world.error, TypeError)


def test_a_join_of_none_has_no_results_and_a_race_of_none_is_refused(world: World) -> None:
    assert world.value(lambda ctx: ctx.join("both", {})) == {}
    assert world.value(lambda ctx: ctx.join("both", {})) == {}
    outcome = world.run(lambda ctx: ctx.join("both", {"a": lambda ctx: 1}))
    assert isinstance(outcome, Blocked) and "begun with the branches , but" in outcome.text
    world.run(lambda ctx: ctx.race("any", {}))
    assert isinstance(world.error, TypeError) and "at least one branch" in str(world.error)


def test_a_result_that_cannot_be_journaled_fails_the_join(world: World) -> None:
    world.run(lambda ctx: ctx.join("both", {"a": lambda ctx: object()}))
    assert isinstance(world.error, JoinError)
    assert list(world.error.errors) == ["a"]
    assert world.error.errors["a"]["type"].endswith("PayloadError")
    assert "result of 'both/a': " in world.error.errors["a"]["message"]


def test_each_result_that_cannot_be_journaled_is_its_branch_s_failure(world: World) -> None:
    world.max_payload_bytes = 100
    results = {"a": object(), "b": "fits", "c": "x" * 100}
    world.run(lambda ctx: ctx.join("both", {name: lambda ctx, name=name: results[name] for name in results}))  # type: ignore[misc]
    assert isinstance(world.error, JoinError)
    assert list(world.error.errors) == ["a", "c"]
    assert world.error.errors["a"]["reason"] == "exhausted"


def test_results_that_are_only_together_too_large_are_the_failure_of_the_largest(world: World) -> None:
    world.max_payload_bytes = 100
    world.run(lambda ctx: ctx.join("both", {"a": lambda ctx: "x" * 40, "b": lambda ctx: "x" * 60}))
    assert isinstance(world.error, JoinError)
    assert list(world.error.errors) == ["b"]
    assert "results of 'both': takes" in world.error.errors["b"]["message"]


@pytest.mark.parametrize("how", ["join", "race"])
def test_branches_that_fail_with_very_much_to_say_are_told_in_brief(world: World, how: str) -> None:
    def fail(ctx: Context) -> None:
        raise ValueError("x" * 10_000)

    world.run(lambda ctx: getattr(ctx, how)("both", {str(n): fail for n in range(100)}))
    assert isinstance(world.error, JoinError | RaceError)
    assert len(world.error.errors) == 100
    assert len(world.entries["both"].error or "") <= TOGETHER_MAX


# --- race ------------------------------------------------------------------------------------


@pytest.mark.behaviour("FLOW-02a", "FLOW-02b")
def test_the_first_that_succeeds_wins_and_stays_the_winner(world: World) -> None:
    def slow(ctx: Context) -> str:
        ctx.sleep("long", 600)
        return "slow"

    def body(ctx: Context) -> Any:
        winner = ctx.race("any", {"slow": slow, "fast": lambda ctx: ctx.step("do", lambda: "fast")})
        ctx.sleep("later", 1000)
        return winner

    assert world.value(body) == ("fast", "fast")
    assert world.performed == ["any/fast/do"]


@pytest.mark.behaviour("FLOW-02c")
def test_the_waits_of_losers_are_closed_and_their_children_cancelled() -> None:
    from ..driving import Pack

    pack = Pack()

    def body(ctx: Context) -> Any:
        value = ctx.race(
            "any",
            {
                "event": lambda ctx: ctx.wait_for_event("never"),
                "child": lambda ctx: ctx.run_workflow("pack", pack),
                "fast": lambda ctx: 1,
            },
        )
        ctx.wait_for_event("more")
        return value

    world = World()
    outcome = world.attempt(body)
    assert isinstance(outcome, Suspended) and outcome.paths == ("more",)
    assert world.entries["any/event/never"].status == EntryStatus.ABANDONED
    assert len(pack.made) == 1 and world.unwanted == ["any/child/pack"]


@pytest.mark.behaviour("FLOW-02e")
def test_a_failure_is_no_victory_and_all_failures_are_a_race_error(world: World) -> None:
    def body(ctx: Context) -> Any:
        good = ctx.race("one", {"bad": lambda ctx: 1 / 0, "good": lambda ctx: ctx.step("s", lambda: 5)})
        try:
            ctx.race("two", {"a": lambda ctx: 1 / 0, "b": lambda ctx: [][1]})
        except RaceError as error:
            ctx.sleep("think", 1)
            return good, sorted(error.errors)

    assert world.value(body) == (("good", 5), ["a", "b"])


@pytest.mark.behaviour("FLOW-02f")
def test_a_retry_inside_a_branch_is_not_a_loss(world: World) -> None:
    retry = Retry(max_attempts=3, initial=1, jitter=0)
    flaky = failing(ValueError("not yet"))

    def slow(ctx: Context) -> str:
        ctx.sleep("long", 600)
        return "slow"

    def body(ctx: Context) -> Any:
        return ctx.race("any", {"flaky": lambda ctx: ctx.step("try", flaky, retry=retry), "slow": slow})

    assert world.value(body) == ("flaky", 2)


@pytest.mark.behaviour("FLOW-01e")
def test_races_and_joins_nest_in_each_other(world: World) -> None:
    def pair(ctx: Context) -> Any:
        return ctx.join("pair", {"x": lambda ctx: ctx.step("s", lambda: 1), "y": lambda ctx: ctx.sleep("z", 9)})

    def body(ctx: Context) -> Any:
        return ctx.race("any", {"pair": pair, "never": lambda ctx: ctx.wait_for_event("never")})

    assert world.value(body) == ("pair", {"x": 1, "y": None})


# --- map -------------------------------------------------------------------------------------


def test_map_runs_a_step_for_each_item_and_keeps_their_order(world: World) -> None:
    def body(ctx: Context) -> Any:
        doubled = ctx.map("double", lambda n: n * 2, range(5))
        ctx.sleep("a while", 1)
        return doubled

    assert world.value(body) == [0, 2, 4, 6, 8]
    assert sorted(world.performed) == [f"double[{n}]" for n in range(5)]


def test_map_of_nothing_is_nothing(world: World) -> None:
    assert world.value(lambda ctx: ctx.map("none", lambda n: n, [])) == []


def test_errors_of_a_map_come_by_index_after_all_have_ended(world: World) -> None:
    world.run(lambda ctx: ctx.map("divide", lambda n: 1 / n, [1, 0, 2], max_parallel=1))
    assert isinstance(world.error, JoinError)
    assert list(world.error.errors) == [1]
    assert world.entries["divide[2]"].status == EntryStatus.SUCCEEDED


def test_a_replay_with_another_number_of_items_is_a_divergence(world: World) -> None:
    items = [1, 2, 3]

    def body(ctx: Context) -> Any:
        ctx.map("double", lambda n: n * 2, items)
        ctx.sleep("a while", 1)

    world.attempt(body)
    items.append(4)
    outcome = world.run(body)
    assert isinstance(outcome, Blocked) and "3 items" in outcome.text and "gives it 4" in outcome.text


# --- in-process wakes ------------------------------------------------------------------------


def test_while_one_branch_works_another_whose_time_has_come_goes_on() -> None:
    """The sleeper's time comes while the other branch's second step runs."""
    order: list[str] = []
    world = World()

    def sleeper(ctx: Context) -> None:
        ctx.sleep("nap", 5)
        ctx.step("woke", order.append, "woke")

    def worker(ctx: Context) -> None:
        for n in range(4):
            ctx.step("work", work, n, key=n)

    def work(n: int) -> None:
        world.now += timedelta(seconds=3)
        order.append(f"work {n}")

    def body(ctx: Context) -> Any:
        return ctx.join("both", {"sleeper": sleeper, "worker": worker})

    assert isinstance(world.run(body), Completed)
    assert order[-1] == "woke" and world.attempts <= 2
