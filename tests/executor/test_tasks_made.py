"""A line that has made no task ends without another turn of the loop; of one that may have, the tasks get theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from django_durable import AsyncContext, Break, Continue
from django_durable.exceptions import ContextMisuse
from django_durable.executor.async_driver import AsyncDriver
from django_durable.executor.interruption import Interruption
from django_durable.executor.tasks_made import TaskFactory, tasks_made

from .in_memory import MemoryCommit, new_flow
from .on_a_loop import one, work

Body = Callable[[AsyncContext], Any]


def turns_at_its_end(body: Body, *, is_counted: bool = True) -> tuple[Any, bool]:
    """What the line returns on a loop that counts its tasks, and whether that has turned after the code's end."""

    async def run() -> tuple[Any, bool]:
        if is_counted:
            asyncio.get_running_loop().set_task_factory(TaskFactory())
        turns: list[bool] = []

        async def code(ctx: AsyncContext) -> Any:
            try:
                return await body(ctx)
            finally:
                asyncio.get_running_loop().call_soon(turns.append, True)

        commit = MemoryCommit()
        flow = new_flow(commit)
        drive = AsyncDriver(flow, commit, Interruption(asyncio.current_task()))

        async def line() -> tuple[Any, bool]:
            value = await drive.run(lambda: code(AsyncContext(flow, drive)))
            return value, bool(turns)

        # In a task of its own, as an attempt does.
        return await asyncio.create_task(line())

    found: tuple[Any, bool] = work(run)
    return found


async def plain(ctx: AsyncContext) -> int:
    return await ctx.step("a", one)


async def with_a_task(ctx: AsyncContext) -> int:
    return await asyncio.create_task(ctx.step("a", one))


async def cancelled_by_itself(ctx: AsyncContext) -> int:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return 1


@pytest.mark.parametrize(
    ("body", "is_counted", "turns"),
    [(plain, True, False), (plain, False, True), (with_a_task, True, True), (cancelled_by_itself, True, True)],
)
def test_the_loop_turns_once_more_where_a_task_may_be_left(body: Body, is_counted: bool, turns: bool) -> None:
    assert turns_at_its_end(body, is_counted=is_counted) == (1, turns)


def test_a_loop_whose_turns_wait_for_nothing_lets_others_have_theirs() -> None:
    """It commits once a second only, and makes no task."""
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(len(ticks))
        asyncio.get_running_loop().call_soon(tick)

    async def turn(ctx: AsyncContext, number: int) -> Break | Continue:
        return Continue(number + 1) if number < 50 else Break(len(ticks))

    async def spin(ctx: AsyncContext) -> Any:
        asyncio.get_running_loop().call_soon(tick)
        return await ctx.loop("spin", turn, 0)

    seen, _ = turns_at_its_end(spin)
    assert seen >= 50


@pytest.mark.parametrize("factory", [None, lambda loop, coro, **options: asyncio.Task(coro, loop=loop, **options)])
def test_a_factory_of_somebody_else_takes_nothing_from_it(factory: Any) -> None:
    """Set in the midst of it, so that nobody counts any more."""
    left: list[asyncio.Task[int]] = []

    async def several(ctx: AsyncContext) -> None:
        await ctx.step("a", asyncio.Event().wait)

    async def leave(ctx: AsyncContext) -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        left.append(asyncio.create_task(several(ctx)))  # type: ignore[arg-type]

    with pytest.raises(ContextMisuse, match="ended while its ctx call 'a' was under way"):
        turns_at_its_end(leave)


def test_a_task_is_made_as_without_the_factory() -> None:
    async def ask() -> None:
        loop = asyncio.get_running_loop()
        assert tasks_made() is None
        loop.set_task_factory(TaskFactory())
        assert tasks_made() == 0
        task = loop.create_task(one(), name="mine")
        assert (task.get_name(), await task, tasks_made()) == ("mine", 1, 1)

    work(ask)
