"""``RunHandle.steps()``: whatever kind an entry is of, its failure is told in the same way."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from django_durable import PENDING, Context, Continue, Retry, RollbackError, durable_workflow
from django_durable.client.steps import StepInfo
from django_durable.exceptions import BranchesFailed, ChildFailed, EventTimeout, LoopLimit, PollTimeout, StepFailed
from django_durable.testing import run_until_idle

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
ONCE = Retry(max_attempts=1)


def fail(*_: Any) -> None:
    raise ValueError("no stock")


def endlessly(ctx: Context, state: None) -> Any:
    return Continue()


@durable_workflow(name="steps.child", retry=ONCE)
def child(ctx: Context, item: int = 0) -> None:
    fail()


@durable_workflow(name="steps.all", retry=ONCE, step_retry=ONCE)
def all_kinds(ctx: Context) -> None:
    calls = [
        lambda: ctx.step("step", fail, compensate=fail),
        lambda: ctx.try_block("block", fail),
        lambda: ctx.run_workflow("child", child),
        lambda: ctx.join("join", {"a": fail}),
        lambda: ctx.race("race", {"a": fail}),
        lambda: ctx.map("map", fail, [1]),
        lambda: ctx.map("of children", child, [1]),
        lambda: ctx.loop("loop", endlessly, max_iterations=1),
        lambda: ctx.poll("poll", fail, every=1),
        lambda: ctx.poll("pending", lambda: PENDING, every=1, timeout=0),
        lambda: ctx.wait_for_event("event", timeout=0),
    ]
    for call in calls:
        with suppress(StepFailed, ChildFailed, BranchesFailed, LoopLimit, PollTimeout, EventTimeout):
            call()
    ctx.step("done", int, compensate=fail)
    raise RollbackError("all of it")


def test_every_error_is_a_mapping_with_type_message_and_traceback() -> None:
    run = all_kinds.enqueue()
    run_until_idle(skip_waits=True)
    steps: dict[str, StepInfo] = {step.path: step for step in run.steps() if step.status == "failed"}
    assert [path for path, step in steps.items() if step.error is None] == ["pending", "event"]
    errors = {path: step.error for path, step in steps.items() if step.error is not None}
    assert {path: (error["type"].rpartition(".")[2], error["message"]) for path, error in errors.items()} == {
        **dict.fromkeys(
            ["step", "block", "child", "map[0]", "of children[0]", "poll", "done%undo"], ("ValueError", "no stock")
        ),
        "join": ("JoinError", "'join': a: ValueError: no stock"),
        "race": ("RaceError", "'race': a: ValueError: no stock"),
        "map": (
            "JoinError",
            "'map': 0: django_durable.exceptions.StepFailed: Step 'map[0]' failed after 1 attempt: "
            "ValueError: no stock",
        ),
        "of children": ("JoinError", errors["of children"]["message"]),
        "loop": ("LoopLimit", "Loop 'loop' did not end within 1 turns."),
    }
    assert all(isinstance(error["traceback"], str) for error in errors.values())
    assert errors["child"]["status"] == errors["of children[0]"]["status"] == "failed"
    assert errors["join"]["errors"]["a"]["message"] == "no stock"
    assert list(errors["map"]["errors"]) == [0]
