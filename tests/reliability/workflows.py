"""Workflows that stand at a gate just before they write something; with their process they may freeze there."""

from __future__ import annotations

import os

from django_durable import Context, Retry, current_step, durable_workflow, get_run
from tests.app.faults import leave_trace, traced, wait_at
from tests.app.workflows import doubling

ONCE = Retry(max_attempts=1)


@durable_workflow(name="zombie.journals", step_retry=ONCE, retry=ONCE)
def journals(ctx: Context, gate: str) -> list[int]:
    return [ctx.step("first", traced, 1), ctx.step("held", traced, 2, gate), ctx.step("last", traced, 3)]


@durable_workflow(name="zombie.completes", step_retry=ONCE, retry=ONCE)
def completes(ctx: Context, gate: str) -> int:
    first = ctx.step("first", traced, 1)
    wait_at(gate)
    return first


@durable_workflow(name="zombie.fails", step_retry=ONCE, retry=ONCE)
def fails(ctx: Context, gate: str) -> None:
    ctx.step("first", traced, 1)
    wait_at(gate)
    raise ValueError("as it should")


@durable_workflow(name="zombie.sleeps", step_retry=ONCE, retry=ONCE)
def sleeps(ctx: Context, gate: str) -> None:
    ctx.step("first", traced, 1)
    wait_at(gate)
    ctx.sleep("nap", 3600)


@durable_workflow(name="zombie.begets", step_retry=ONCE, retry=ONCE)
def begets(ctx: Context, gate: str) -> None:
    ctx.step("first", traced, 1)
    wait_at(gate)
    ctx.start_workflow("child", doubling, 4)
    ctx.step("last", traced, 3)


@durable_workflow(name="zombie.answers", step_retry=ONCE, retry=ONCE)
def answers(ctx: Context, gate: str) -> object:
    event = ctx.wait_for_event("ask")
    ctx.step("first", traced, 1)
    wait_at(gate)
    event.complete("heard")
    ctx.step("last", traced, 3)
    return event.payload


@durable_workflow(name="zombie.listens", retry=ONCE)
def listens(ctx: Context) -> object:
    return ctx.wait_for_event("told").payload


@durable_workflow(name="zombie.hears", retry=ONCE)
def hears(ctx: Context) -> list[object]:
    """What it is told twice."""
    return [ctx.wait_for_event("hear", event="told", key=turn).payload for turn in range(2)]


def tell(listener: str, gate: str, is_keyed: bool) -> None:
    """An event for another run that commits by itself; by the documented key once, whoever else does this step."""
    leave_trace("begin")
    wait_at(gate)
    get_run(listener).send_event("told", os.getpid(), current_step().idempotency_key() if is_keyed else None)


@durable_workflow(name="zombie.tells", step_retry=ONCE, retry=ONCE)
def tells(ctx: Context, listener: str, gate: str, is_keyed: bool) -> None:
    ctx.step("tell", tell, listener, gate, is_keyed)


def count_and_tell(name: str, listener: str, gate: str) -> int:
    """A row of the project's own and an event for another run, both in the step's transaction."""
    from tests.app.models import Counter

    Counter.objects.create(name=f"{name} in {os.getpid()}", value=1)
    get_run(listener).send_event("told", os.getpid())
    leave_trace("begin")
    wait_at(gate)
    return os.getpid()


@durable_workflow(name="zombie.changes", step_retry=ONCE, retry=ONCE)
def changes(ctx: Context, name: str, listener: str, gate: str) -> int:
    return ctx.step("change", count_and_tell, name, listener, gate, atomic=True)
