"""What ``ctx`` tells, its log and progress, and that both of its faces offer the same."""

from __future__ import annotations

import inspect
import logging
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from django_durable.core.async_context import AsyncContext
from django_durable.core.context import Context
from django_durable.core.facts import Facts
from django_durable.core.journal.outcomes import Cancelled, Completed, Failed
from django_durable.core.kinds.loops import Continue
from django_durable.core.payloads.codec import decode
from django_durable.exceptions import InvalidName, PayloadError, RunCancelled
from tests.core.driving import AT_ONCE, RUN_ID, Pack, World, end, failing


def test_facts() -> None:
    def body(ctx: Context) -> list[Any]:
        ctx.raise_if_cancelled()
        return [ctx.run_id, ctx.attempt, ctx.cancelled]

    assert World().value(body) == [RUN_ID, 1, False]


def test_raise_if_cancelled() -> None:
    def body(ctx: Context) -> None:
        world.lease.cancel_requested = True
        assert ctx.cancelled
        ctx.raise_if_cancelled()

    world = World()
    world.attempt(body)
    assert isinstance(world.error, RunCancelled)
    assert world.error.run_id == RUN_ID


def test_idempotency_keys_are_stable_and_apart() -> None:
    keys: list[str] = []

    def body(ctx: Context) -> None:
        keys.extend([ctx.idempotency_key("refund"), ctx.idempotency_key("charge")])

    world = World()
    world.run(body)
    world.run(body)
    assert keys[:2] == keys[2:]
    assert keys[0] != keys[1]
    assert all(len(key) == 32 and int(key, 16) >= 0 for key in keys)


# --- is_replaying ----------------------------------------------------------------------------


def test_is_replaying() -> None:
    seen: list[tuple[str, bool]] = []

    def body(ctx: Context) -> None:
        seen.append(("start", ctx.is_replaying))
        ctx.step("a", int)
        seen.append(("a", ctx.is_replaying))
        ctx.sleep("nap", 60)
        seen.append(("nap", ctx.is_replaying))
        ctx.step("b", int)
        seen.append(("b", ctx.is_replaying))

    world = World()
    world.attempt(body)
    assert seen == [("start", False), ("a", False)]
    seen.clear()
    world.now += timedelta(minutes=1)
    world.run(body)
    # The sleep was journaled, but what comes after it is done for the first time.
    assert seen == [("start", True), ("a", True), ("nap", False), ("b", False)]
    seen.clear()
    world.run(body)
    assert [replaying for _, replaying in seen] == [True] * 4


@pytest.mark.parametrize("kind", ["retry", "event", "child"])
def test_what_follows_a_wait_is_no_replay(kind: str) -> None:
    seen = []
    refused = failing(ValueError())
    pack = Pack()

    def body(ctx: Context) -> None:
        match kind:
            case "retry":
                ctx.step("x", refused)
            case "event":
                ctx.wait_for_event("x")
            case _:
                ctx.run_workflow("x", pack)
        seen.append(ctx.is_replaying)

    world = World()
    world.attempt(body)
    world.send("x")
    if kind == "child":
        end(world, "x", "succeeded")
    assert isinstance(world.run(body), Completed)
    assert seen == [False]


# --- log -------------------------------------------------------------------------------------


@pytest.mark.behaviour("DATA-01e")
def test_the_log_is_silent_under_replay(caplog: pytest.LogCaptureFixture) -> None:
    def body(ctx: Context) -> None:
        ctx.log.info("before %s", "all")
        ctx.step("a", int)
        ctx.log.info("after a")
        ctx.sleep("nap", 60)
        ctx.log.warning("awake", extra={"turn": 1})

    caplog.set_level(logging.INFO, logger="django_durable.workflow")
    world = World()
    world.run(body)
    world.run(body)
    assert [record.getMessage() for record in caplog.records] == ["before all", "after a", "awake"]
    record = caplog.records[2]
    assert (record.name, record.levelname) == ("django_durable.workflow", "WARNING")
    assert (record.__dict__["workflow"], record.__dict__["run"], record.__dict__["turn"]) == (
        "shop.order",
        str(RUN_ID),
        1,
    )


@pytest.mark.behaviour("DATA-01e")
def test_the_log_keeps_to_its_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="django_durable.workflow")
    World().value(lambda ctx: ctx.log.info("quiet"))
    assert caplog.records == []


# --- progress --------------------------------------------------------------------------------


@pytest.mark.behaviour("DATA-01f")
def test_progress_is_stored_with_the_next_write() -> None:
    seen: list[Any] = []

    def body(ctx: Context) -> None:
        ctx.progress(0, 2, "begun")
        seen.append(world.progress)
        ctx.step("a", int)
        seen.append(world.progress and decode(world.progress))
        ctx.progress(1)
        ctx.progress(2, 2.5, "x" * 1000)

    world = World()
    world.value(body)
    assert seen == [None, {"done": 0, "total": 2, "message": "begun"}]
    assert decode(world.progress or "") == {"done": 2, "total": 2.5, "message": "x" * 500}


def test_progress_is_silent_under_replay() -> None:
    def body(ctx: Context) -> None:
        ctx.progress(1)
        ctx.step("a", int)
        ctx.progress(2)
        ctx.sleep("nap", 60)
        ctx.progress(3)

    world = World()
    world.attempt(body)
    assert decode(world.progress or "")["done"] == 2
    world.run(body)
    assert [decode(write.progress)["done"] for write in world.commits if write.progress] == [1, 2, 3]


def test_what_was_said_after_the_last_commit_is_said_again_after_a_crash() -> None:
    def body(ctx: Context) -> None:
        ctx.progress(1)
        ctx.annotate(stage="begun")
        ctx.step("a", int)
        ctx.progress(2)
        ctx.annotate(stage="half")

    world = World(crash_before=2)
    world.run(body)
    assert world.attempts == 2
    assert (decode(world.progress or "")["done"], noted(world)) == (2, {"stage": "half"})


# --- annotations -----------------------------------------------------------------------------


def noted(world: World) -> dict[str, Any]:
    return dict(decode(world.notes or "[]"))


@pytest.mark.behaviour("DATA-01j")
def test_annotations_are_stored_with_the_next_write_name_by_name_and_the_last_value_stands() -> None:
    seen: list[Any] = []

    def body(ctx: Context) -> None:
        ctx.annotate(customer=Decimal("1.50"), self="kept")
        ctx.annotate(stage="one")
        seen.append(noted(world))
        ctx.step("a", int)
        seen.append(noted(world))
        ctx.sleep("nap", 60)
        ctx.annotate(stage="two")
        ctx.join("both", {"a": lambda ctx: ctx.annotate(inside=1)})

    world = World()
    world.value(body)
    first = {"customer": Decimal("1.50"), "self": "kept", "stage": "one"}
    assert seen == [{}, first, first, first]
    assert noted(world) == {**first, "stage": "two", "inside": 1}


def test_a_replay_does_not_say_again_what_was_said_before_and_outdated_since() -> None:
    def turn(ctx: Context, n: int) -> Any:
        ctx.annotate(turn=n)
        ctx.sleep("nap", 60)
        if n == 3:
            raise ValueError
        return Continue(n + 1)

    def body(ctx: Context) -> None:
        ctx.annotate(turn="none yet")
        ctx.step("first", int)
        ctx.loop("rows", turn, 0, history=0)

    world = World(crash_after={3, 5, 8})
    world.run(body)
    said = [decode(write.notes["turn"]) for write in world.commits if write.notes]
    assert said == ["none yet", 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("facts", "error", "text"),
    [
        ({"a": 1, "b": object()}, PayloadError, "annotation 'b'"),
        ({"a": "x" * 5_000}, PayloadError, "annotation 'a': takes 5,002 bytes as JSON and the cap is 4,096"),
        ({"": 1}, InvalidName, "annotation '': is empty"),
        ({"a\nb": 1}, InvalidName, "control characters"),
        ({"n" * 201: 1}, InvalidName, "longer than 200"),
    ],
)
def test_annotations_that_are_refused_store_nothing(facts: dict[str, Any], error: type[Exception], text: str) -> None:
    world = World()
    world.attempt(lambda ctx: ctx.annotate(**facts))
    assert isinstance(world.error, error) and text in str(world.error)
    assert noted(world) == {}


def test_progress_of_no_use() -> None:
    unfit: Any
    for unfit in (object(), "1", True, None, float("nan"), float("inf")):
        for call in (lambda ctx, it=unfit: ctx.progress(it), lambda ctx, it=unfit: ctx.progress(1, it or "0")):
            world = World()
            world.attempt(call)
            assert isinstance(world.error, TypeError | ValueError) and "of progress()" in str(world.error)
            assert world.progress is None


# --- cancellation between steps --------------------------------------------------------------


def test_a_cancellation_that_a_commit_reports_ends_the_run_before_the_next_step() -> None:
    def body(ctx: Context) -> None:
        ctx.step("a", int)
        world.lease.cancel_requested = True
        try:
            ctx.step("b", int)
        finally:
            ctx.step("clean up", int)

    world = World(step_retry=AT_ONCE)
    assert world.attempt(body) == Cancelled()
    assert world.performed == ["a"]


def test_an_error_of_the_body_is_the_outcome() -> None:
    world = World()
    outcome = world.attempt(lambda ctx: dict[str, int]()["missing"])
    assert isinstance(outcome, Failed)
    assert outcome.error["type"] == "KeyError"


# --- two faces -------------------------------------------------------------------------------


def public(face: type[Facts]) -> dict[str, Any]:
    return {name: value for name, value in vars(face).items() if not name.startswith("_") and inspect.isfunction(value)}


def test_both_faces_offer_the_same() -> None:
    plain, awaited = public(Context), public(AsyncContext)
    assert plain.keys() == awaited.keys()
    assert set(plain) == {
        "join",
        "loop",
        "map",
        "poll",
        "race",
        "rollback_checkpoint",
        "run_workflow",
        "sleep",
        "sleep_until",
        "start_workflow",
        "step",
        "try_block",
        "try_step",
        "wait_for_event",
        "wait_for_events",
    }
    for name, function in plain.items():
        assert name == "step" or inspect.iscoroutinefunction(inspect.unwrap(awaited[name])), name
        one, other = inspect.signature(function), inspect.signature(awaited[name])
        assert [(p.name, p.kind, p.default) for p in one.parameters.values()] == [
            (p.name, p.kind, p.default) for p in other.parameters.values()
        ], name


# --- what no call can be made with -----------------------------------------------------------

NOTHING: Any = 5


@pytest.mark.parametrize(
    "call",
    [
        lambda ctx: ctx.step("a", NOTHING),
        lambda ctx: ctx.try_step("a", NOTHING),
        lambda ctx: ctx.step("a", ctx.told, retry=NOTHING),
        lambda ctx: ctx.step("a", ctx.told, timeout="1"),
        lambda ctx: ctx.step("a", ctx.told, timeout=True),
        lambda ctx: ctx.poll("a", ctx.told, every=1, retry=NOTHING),
        lambda ctx: ctx.map("a", NOTHING, [1]),
        lambda ctx: ctx.map("a", Pack(key=1), [1]),
        lambda ctx: ctx.try_block("a", NOTHING),
        lambda ctx: ctx.run_workflow("a", "shop.pack"),
        lambda ctx: ctx.start_workflow("a", ctx.told),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(call: Any) -> None:
    world = World(step_retry=AT_ONCE)

    def body(ctx: Any) -> Any:
        ctx.told = lambda: 1
        return call(ctx)

    world.run(body)
    assert isinstance(world.error, TypeError) and re.search("takes|must be|leave", str(world.error))
    assert (world.performed, world.entries) == ([], {})


def test_an_event_without_a_name_is_not_that_of_the_wait() -> None:
    world = World()
    world.send("packed")
    world.run(lambda ctx: ctx.wait_for_event("packed", event=""))
    assert isinstance(world.error, InvalidName)


def test_a_step_s_time_out_may_be_a_timedelta() -> None:
    seen: list[Any] = []
    world = World()
    world.value(lambda ctx: ctx.step("a", lambda: seen.append(1), timeout=timedelta(minutes=1)))
    assert seen == [1]
