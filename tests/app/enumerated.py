"""Workflows that faults are enumerated on: short, and each step tells whoever watches when it begins and ends.

What a step returns names the claim that it ran under, so that a result in the journal can be held against what was
seen to run. `tests/faults` watches; nobody else does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F

from django_durable import Context, Retry, current_step, durable_workflow
from django_durable.core.flow.stepping import CurrentStep
from django_durable.exceptions import RunFailed

ONCE = Retry(max_attempts=1)
PATIENT = Retry(max_attempts=4, initial=0)
"""A step that meets a fault in its body goes on at once."""
NAP = timedelta(seconds=20)
COUNTED = "enumerated"
"""The counter that the atomic step counts up."""


class Watcher:
    """Hears of every body. This one does nothing."""

    def begins(self, step: CurrentStep) -> None: ...

    def ends(self, step: CurrentStep, value: list[Any]) -> None: ...


watcher = Watcher()


def work(number: int) -> list[Any]:
    """Twice the number, and the claim's token."""
    step = current_step()
    watcher.begins(step)
    value = [number * 2, step.lease.token.hex]
    watcher.ends(step, value)
    return value


def count() -> list[Any]:
    """One more, over the ORM."""
    from tests.app.models import Counter

    step = current_step()
    watcher.begins(step)
    value = [Counter.objects.filter(name=COUNTED).update(value=F("value") + 1), step.lease.token.hex]
    watcher.ends(step, value)
    return value


def refuse() -> None:
    """Fails for good."""
    watcher.begins(current_step())
    raise ValueError("refused")


def apologise(failure: RunFailed) -> list[Any]:
    """What is journaled of the hook."""
    return work(3)


def undo(done: list[Any]) -> list[Any]:
    step = current_step()
    watcher.begins(step)
    value = [-done[0], step.lease.token.hex]
    watcher.ends(step, value)
    return value


@durable_workflow(name="enumerated.plain", step_retry=PATIENT, retry=ONCE)
def plain(ctx: Context) -> list[Any]:
    return [ctx.step("one", work, 1), ctx.step("two", work, 2), ctx.step("three", work, 3)]


@durable_workflow(name="enumerated.counting", step_retry=PATIENT, retry=ONCE)
def counting(ctx: Context) -> list[Any]:
    return [ctx.step("one", work, 1), ctx.step("count", count, atomic=True), ctx.step("two", work, 2)]


@durable_workflow(name="enumerated.sleeping", step_retry=PATIENT, retry=ONCE)
def sleeping(ctx: Context) -> list[Any]:
    first = ctx.step("one", work, 1)
    ctx.sleep("nap", NAP)
    event = ctx.wait_for_event("go")
    return [first, event.payload, ctx.step("two", work, 2)]


@durable_workflow(name="enumerated.inner", step_retry=PATIENT, retry=ONCE)
def inner(ctx: Context) -> list[Any]:
    return ctx.step("inside", work, 5)


@durable_workflow(name="enumerated.outer", step_retry=PATIENT, retry=ONCE)
def outer(ctx: Context) -> list[Any]:
    first = ctx.step("one", work, 1)
    return [first, ctx.run_workflow("child", inner), ctx.step("two", work, 2)]


@durable_workflow(name="enumerated.undone", step_retry=PATIENT, retry=ONCE)
def undone(ctx: Context) -> None:
    ctx.step("reserve", work, 1, compensate=undo)
    ctx.step("charge", work, 2, compensate=undo)
    ctx.step("ship", refuse, retry=ONCE)


@durable_workflow(name="enumerated.failing", step_retry=PATIENT, retry=ONCE, on_failure=apologise)
def failing(ctx: Context) -> None:
    ctx.step("one", work, 1)
    ctx.step("ship", refuse, retry=ONCE)


@durable_workflow(name="enumerated.fired", step_retry=PATIENT, retry=ONCE)
def fired(ctx: Context) -> list[Any]:
    return [ctx.step("one", work, 1), ctx.step("two", work, 2)]
