"""Branches of ``async def`` workflows as tasks of asyncio: what that asks of their authors, and how many there are."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext

from django_durable.core.async_context import AsyncContext
from django_durable.core.flow.flow import Flow
from django_durable.core.kinds.loops import Break
from django_durable.exceptions import ContextMisuse, StepNameReused

from .in_memory import MemoryCommit, arun, new_flow
from .on_a_loop import PATIENCE, one, work

# --- misuse ----------------------------------------------------------------------------------


def test_a_time_out_of_asyncio_s_around_a_join_fails_the_run_and_leaves_no_branch_running() -> None:
    flow: Flow = new_flow(MemoryCommit())
    trace: list[str] = []

    async def body(ctx: AsyncContext) -> None:
        async def branch(ctx: AsyncContext) -> None:
            trace.append("began")
            if trace == ["began", "began"]:
                scope.reschedule(asyncio.get_running_loop().time())
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                trace.append("left")

        async with asyncio.timeout(None) as scope:
            await ctx.join("at", {"a": branch, "b": branch})

    async def main() -> None:
        with pytest.raises((ContextMisuse, TimeoutError)):
            await arun(body, None, flow)

    work(main)
    assert flow.misuse is not None and "'at' was cancelled while it was under way" in str(flow.misuse)
    assert trace == ["began", "began", "left", "left"]


@pytest.mark.parametrize("scope", ["join", "race", "loop", "block"])
def test_the_ctx_of_a_function_around_is_refused_with_what_to_use_instead(scope: str) -> None:
    async def body(outer: AsyncContext) -> Any:
        async def inner(ctx: AsyncContext, state: Any = None) -> Any:
            return Break(await outer.step("mine", one))

        match scope:
            case "join":
                await outer.join("at", {"a": inner})
            case "race":
                await outer.race("at", {"a": inner})
            case "loop":
                await outer.loop("at", inner)
            case _:
                await outer.try_block("at", inner)

    async def main() -> None:
        with pytest.raises(ContextMisuse, match="Use the ctx that the branch's, turn's or block's own function"):
            await arun(body)

    work(main)


def test_a_plain_function_may_be_a_branch_where_it_only_hands_on_a_call() -> None:
    def plain(ctx: AsyncContext) -> Any:
        return ctx.step("s", one)

    async def body(ctx: AsyncContext) -> Any:
        return await ctx.join("at", {"a": plain, "b": lambda ctx: 2})

    assert work(lambda: arun(body)) == {"a": 1, "b": 2}


def test_branches_of_branches_are_tasks_too() -> None:
    def nested(depth: int) -> Any:
        async def body(ctx: AsyncContext) -> int:
            if depth == 0:
                return await ctx.step("leaf", one)
            return sum((await ctx.join("down", {name: nested(depth - 1) for name in "ab"})).values())

        return body

    assert work(lambda: arun(nested(6))) == 64


@pytest.mark.behaviour("FLOW-02c")
@pytest.mark.parametrize("nested", [False, True])
def test_a_plain_step_that_waits_for_the_run_s_thread_is_not_begun_by_a_branch_that_has_lost(nested: bool) -> None:
    commit, order = MemoryCommit(), []
    go = threading.Event()

    def branch(name: str, wait: bool = False) -> Any:
        def step() -> str:
            order.append(name)
            assert not wait or go.wait(PATIENCE)
            return name

        async def body(ctx: AsyncContext) -> str:
            return await ctx.step("do", step, compensate=lambda value: order.append(f"-{value}"))

        async def within(ctx: AsyncContext) -> Any:
            return await ctx.try_block("in", body)

        return within if nested else body

    async def winner(ctx: AsyncContext) -> int:
        while not order:
            await asyncio.sleep(0)
        return 1

    async def body(ctx: AsyncContext) -> None:
        # The first has the thread, the others stand behind it in its queue.
        losers = {"a": branch("a", wait=True), "b": branch("b"), "c": branch("c")}
        await ctx.race("any", {**losers, "winner": winner})
        order.append("on")
        go.set()

    async def attempt() -> None:
        async with ThreadSensitiveContext():
            await arun(body, commit)

    work(attempt)
    assert order == ["a", "on"]
    done = [path for path, entry in commit.entries.items() if entry.kind == "step"]
    assert done == ["any/a/in/do" if nested else "any/a/do"], "what was under way is journaled, to be undone"


def test_a_plain_step_that_waits_for_the_run_s_thread_is_not_begun_where_the_run_ends() -> None:
    order: list[str] = []
    queued: list[Any] = []
    go = threading.Event()

    def step(name: str) -> str:
        order.append(name)
        assert go.wait(PATIENCE)
        return name

    async def first(ctx: AsyncContext) -> None:
        await ctx.step("s", step, "first")

    async def second(ctx: AsyncContext) -> None:
        queued.append(asyncio.current_task())
        await ctx.step("s", step, "second")

    async def misusing(ctx: AsyncContext) -> None:
        while not (order and queued):
            await asyncio.sleep(0)
        await ctx.step("s", one)
        await ctx.step("s", one)

    async def free() -> None:
        while not (queued and queued[0].cancelling()):
            await asyncio.sleep(0)
        go.set()

    async def attempt() -> None:
        async with ThreadSensitiveContext():
            freeing = asyncio.create_task(free())
            with pytest.raises(StepNameReused):
                await arun(lambda ctx: ctx.join("all", {"a": first, "b": second, "c": misusing}))
            await freeing

    work(attempt)
    assert order == ["first"]


# --- how many at a time ----------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "at_a_time"), [(None, 16), (3, 3), (100, 40)])
def test_so_many_items_of_a_map_are_under_way_at_a_time(limit: int | None, at_a_time: int) -> None:
    """Nobody leaves before so many have come in, and the loop has gone round often enough for one more."""
    inside: set[int] = set()
    most = 0

    async def enter(item: int) -> int:
        nonlocal most
        inside.add(item)
        most = max(most, len(inside))
        if most >= at_a_time:
            is_full.set()
        await is_full.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        inside.remove(item)
        return item

    is_full = asyncio.Event()
    found = work(lambda: arun(lambda ctx: ctx.map("m", enter, range(40), max_parallel=limit)))
    assert (found, most) == ([*range(40)], at_a_time)
