"""An attempt that is over leaves nothing to the garbage collector, which stops every run of the process meanwhile."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from django_durable.core.async_context import AsyncContext
from django_durable.core.context import Context
from django_durable.core.flow.flow import Flow
from django_durable.core.kinds.loops import Break

from .in_memory import arun, run

TURNS = 500
"""Of the loop, each of which looks through all objects: some seconds."""


def step(ctx: Context) -> None:
    ctx.step("one", int)


def block(ctx: Context) -> None:
    ctx.try_block("block", step)


def turns(ctx: Context) -> None:
    ctx.loop("loop", lambda ctx, state: Break(step(ctx)))


def branches(ctx: Context) -> None:
    ctx.join("join", {"a": step, "b": step})


async def astep(ctx: AsyncContext) -> None:
    await ctx.step("one", asyncio.sleep, 0)


async def ablock(ctx: AsyncContext) -> None:
    await ctx.try_block("block", astep)


async def abranches(ctx: AsyncContext) -> None:
    await ctx.join("join", {"a": astep, "b": astep})


@contextmanager
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def flows() -> list[Flow]:
    """Those that are alive. By `type`: objects of other tests answer `isinstance` with code of their own."""
    return [one for one in gc.get_objects() if type(one) is Flow]


def left_since(before: list[Flow]) -> list[Flow]:
    """`before` holds what tests that ran earlier have left: it must not go meanwhile and make room."""
    known = set(map(id, before))
    return [flow for flow in flows() if id(flow) not in known]


@pytest.mark.parametrize("body", [step, block, turns, branches])
def test_the_flow_of_a_def_workflow_goes_with_its_attempt(body: Callable[[Context], Any]) -> None:
    with uncollected():
        before = flows()
        run(body)
        assert left_since(before) == []


@pytest.mark.parametrize("body", [astep, ablock, abranches])
def test_the_flow_of_an_async_def_workflow_goes_with_its_attempt(body: Callable[[AsyncContext], Any]) -> None:
    async def attempt() -> list[Flow]:
        before = flows()
        await arun(body)
        # The task that it ran in is let go by the loop a turn later, and what a thread of another test has by then.
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if not left_since(before):
                break
        return left_since(before)

    with uncollected():
        assert asyncio.run(attempt()) == []
