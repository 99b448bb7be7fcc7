"""What type checkers must know of the public surface: mypy checks this file, nothing runs it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_type
from uuid import UUID

from django_durable import (
    PENDING,
    AsyncContext,
    Break,
    Context,
    Continue,
    Event,
    Outcome,
    Pending,
    Workflow,
    durable_workflow,
    enqueue,
    get_run,
)
from django_durable.client.events import EventHandle
from django_durable.client.handle import RunHandle
from django_durable.workflows.using import Using


@durable_workflow(name="typed.order", queue="orders")
def order(ctx: Context, order_id: int, express: bool = False) -> dict[str, int]:
    return {"order": order_id}


@durable_workflow
def bare(ctx: Context) -> str:
    return ""


@durable_workflow(name="typed.order_async")
async def order_async(ctx: AsyncContext, order_id: int) -> list[str]:
    return []


def add(one: int, two: float) -> str:
    return str(one + two)


async def add_async(one: int) -> bytes:
    return bytes(one)


def text(number: int) -> str:
    return str(number)


def take_back(said: str) -> None: ...


def look() -> str | Pending:
    return PENDING


async def look_async() -> str | Pending:
    return PENDING


def branch(ctx: Context) -> int:
    return 1


async def branch_async(ctx: AsyncContext) -> int:
    return 1


def turn(ctx: Context, state: int) -> Continue | Break:
    return Continue(state)


async def turn_async(ctx: AsyncContext, state: int) -> Continue | Break:
    return Continue(state)


def declared() -> None:
    assert_type(bare, Workflow[[], str])
    assert_type(order_async.name, str)


def starting() -> None:
    assert_type(order.enqueue(1), RunHandle[dict[str, int]])
    assert_type(order.enqueue(order_id=1, express=True).result(), dict[str, int])
    assert_type(order_async.enqueue(1), RunHandle[list[str]])
    assert_type(order.using(queue="vip").enqueue(1), RunHandle[dict[str, int]])
    assert_type(bare.using(priority=1), Using[[], str])
    assert_type(order.enqueue_many([{"order_id": 1}]), list[RunHandle[dict[str, int]]])
    assert_type(enqueue("typed.order", order_id=1), RunHandle[Any])
    assert_type(get_run("x"), RunHandle[Any])
    assert_type(get_run("x").send_event("packed"), EventHandle)
    order.enqueue("x")  # type: ignore[arg-type]
    order.enqueue()  # type: ignore[call-arg]
    order.enqueue(1, nope=2)  # type: ignore[call-arg]
    order.using(queue="vip").enqueue("x")  # type: ignore[arg-type]


async def starting_async() -> None:
    run = await order.aenqueue(1)
    assert_type(run, RunHandle[dict[str, int]])
    assert_type(await run.aresult(), dict[str, int])
    assert_type(await order_async.using(queue="vip").aenqueue(1), RunHandle[list[str]])


def stepping(ctx: Context) -> None:
    assert_type(ctx.step("add", add, 1, 2.5), str)
    assert_type(ctx.step("add", add, 1, 2.5, key=1, atomic=True, timeout=5), str)
    assert_type(ctx.step("now", datetime.now), datetime)
    assert_type(ctx.wait_for_event("packed"), Event)
    assert_type(ctx.wait_for_event("packed", timeout=5, default=None), Event | None)
    assert_type(ctx.wait_for_events("all", events=["packed", "sent"], count=2), list[Event])
    assert_type(ctx.poll("ready", look, every=5), str)
    assert_type(ctx.poll("ready", look, every=lambda polls: 2.0**polls, timeout=5), str)
    assert_type(ctx.start_workflow("order", order, 1), UUID)
    assert_type(ctx.now(), datetime)
    assert_type(ctx.uuid4(), UUID)
    assert_type(ctx.random(), float)
    assert_type(ctx.map("texts", text, [1, 2]), list[str])
    assert_type(ctx.map("orders", order, [1, 2], max_parallel=2), list[Any])
    assert_type(ctx.try_step("add", add, 1, 2.5, compensate=take_back), Outcome)
    assert_type(ctx.join("both", {"a": branch, "b": branch}, key=1), dict[str, Any])
    assert_type(ctx.race("any", {"a": branch, "b": branch}), tuple[str, Any])
    assert_type(ctx.loop("turns", turn, 0), Any)
    assert_type(ctx.loop("turns", turn, 0, 5, 100, key=1), Any)
    assert_type(ctx.loop("turns", turn, state=0, history=5, max_iterations=100), Any)
    assert_type(ctx.try_block("block", branch), Outcome)
    assert_type(ctx.run_workflow("order", order, 1), Any)
    assert_type(ctx.version("rules", 2), int)
    ctx.step("add", add, "1", 2.5)  # type: ignore[arg-type]
    ctx.step("add", add, 1)  # type: ignore[arg-type]
    ctx.step("add", add, 1, 2.5, retyr=None)  # type: ignore[call-arg]
    ctx.step("text", text, 1, compensate=text)  # type: ignore[misc]
    ctx.try_step("text", text, 1, compensate=text)  # type: ignore[misc]
    ctx.try_step("add", add, "1", 2.5)  # type: ignore[arg-type]
    ctx.try_step("add", add, 1)  # type: ignore[arg-type]
    ctx.map("texts", text, ["1"])  # type: ignore[arg-type]
    ctx.join("both", {"a": text})  # type: ignore[dict-item]
    ctx.race("any", [branch])  # type: ignore[arg-type]
    ctx.loop("turns", branch)  # type: ignore[arg-type]
    ctx.loop("turns", turn, 0, 5, 100, 1)  # type: ignore[call-arg]
    ctx.try_block("block", turn)  # type: ignore[arg-type]
    ctx.run_workflow("text", text, 1)  # type: ignore[arg-type]
    ctx.version("rules", "2")  # type: ignore[arg-type]


async def stepping_async(ctx: AsyncContext) -> None:
    assert_type(await ctx.step("add", add, 1, 2.5), str)
    assert_type(await ctx.step("add", add_async, 1), bytes)
    assert_type(await ctx.wait_for_event("packed", timeout=5, default=0), Event | int)
    assert_type(await ctx.wait_for_events("all", events=("packed",)), list[Event])
    assert_type(await ctx.poll("ready", look, every=5), str)
    assert_type(await ctx.poll("ready", look_async, every=5), str)
    assert_type(await ctx.map("texts", text, [1, 2]), list[str])
    assert_type(await ctx.map("bytes", add_async, [1, 2]), list[bytes])
    assert_type(await ctx.map("orders", order_async, [1, 2]), list[Any])
    assert_type(await ctx.try_step("text", text, 1, compensate=take_back), Outcome)
    assert_type(await ctx.try_step("bytes", add_async, 1, compensate=bytes.decode), Outcome)
    assert_type(await ctx.join("both", {"a": branch_async, "b": branch_async}, key=1), dict[str, Any])
    assert_type(await ctx.race("any", {"a": branch_async, "b": branch_async}), tuple[str, Any])
    assert_type(await ctx.loop("turns", turn_async, 0), Any)
    assert_type(await ctx.loop("turns", turn_async, 0, 5, 100, key=1), Any)
    assert_type(await ctx.loop("turns", turn_async, state=0, history=5, max_iterations=100), Any)
    assert_type(await ctx.try_block("block", branch_async), Outcome)
    assert_type(await ctx.run_workflow("order", order, 1), Any)
    assert_type(ctx.version("rules", 2), int)
    await ctx.step("add", add, 1, 2.5, retyr=None)  # type: ignore[call-overload]
    await ctx.try_step("add", add, "1", 2.5)  # type: ignore[arg-type, call-arg]
    await ctx.try_step("bytes", add_async, "1")  # type: ignore[arg-type]
    await ctx.join("both", {"a": branch})  # type: ignore[dict-item]
    await ctx.race("any", [branch_async])  # type: ignore[arg-type]
    await ctx.loop("turns", turn)  # type: ignore[arg-type]
    await ctx.loop("turns", turn_async, 0, 5, 100, 1)  # type: ignore[call-arg]
    await ctx.try_block("block", branch)  # type: ignore[arg-type]
    await ctx.run_workflow("text", text, 1)  # type: ignore[arg-type]
    ctx.version("rules", "2")  # type: ignore[arg-type]
    await ctx.try_step("text", text, 1, compensate=text)  # type: ignore[arg-type]
    await ctx.try_step("bytes", add_async, 1, compensate=take_back)  # type: ignore[misc]
    assert_type(await ctx.start_workflow("order", order, 1), UUID)
    assert_type(ctx.now(), datetime)
