"""Workflows that tests start, here and in worker processes."""

from __future__ import annotations

from datetime import timedelta

from django_durable import Break, Context, Continue, Retry, durable_workflow
from django_durable.core.async_context import AsyncContext


def double(number: int) -> int:
    return number * 2


@durable_workflow
def doubling(ctx: Context, number: int) -> int:
    return ctx.step("double", double, number)


@durable_workflow
async def doubling_async(ctx: AsyncContext, number: int) -> int:
    return await ctx.step("double", double, number)


@durable_workflow
def many_steps(ctx: Context, count: int) -> int:
    return sum(ctx.step("double", double, turn, key=turn) for turn in range(count))


@durable_workflow
def many_turns(ctx: Context, count: int, history: int) -> int:
    def turn(ctx: Context, number: int) -> Break | Continue:
        ctx.step("double", double, number)
        return Continue(number + 1) if number < count else Break(number)

    result: int = ctx.loop("turns", turn, 1, history=history)
    return result


@durable_workflow
def one_step(ctx: Context) -> int:
    return ctx.step("double", double, 2)


@durable_workflow
async def one_step_async(ctx: AsyncContext) -> int:
    return await ctx.step("double", double, 2)


async def double_async(number: int) -> int:
    return number * 2


@durable_workflow
async def many_steps_async(ctx: AsyncContext, count: int) -> int:
    return sum([await ctx.step("double", double_async, turn, key=turn) for turn in range(count)])


@durable_workflow
async def many_sync_steps_async(ctx: AsyncContext, count: int) -> int:
    return sum([await ctx.step("double", double, turn, key=turn) for turn in range(count)])


def touch(number: int) -> int:
    """One statement over the ORM."""
    from tests.app.models import Counter

    return Counter.objects.filter(name="touched").update(value=number)


@durable_workflow
def many_atomic_steps(ctx: Context, count: int) -> int:
    return sum(ctx.step("touch", touch, turn, key=turn, atomic=True) for turn in range(count))


@durable_workflow
def sleepy(ctx: Context, seconds: float) -> str:
    ctx.step("before", double, 1)
    ctx.sleep("nap", timedelta(seconds=seconds))
    ctx.step("after", double, 2)
    return "awake"


@durable_workflow
def listening(ctx: Context) -> object:
    first = ctx.wait_for_event("packed", timeout=3600)
    second = ctx.wait_for_event("sent", default=None, timeout=0.01)
    return [first.payload, second and second.payload]


def explode(message: str) -> None:
    raise ValueError(message)


@durable_workflow(step_retry=Retry(max_attempts=2, initial=0, maximum=0), retry=Retry(max_attempts=1))
def failing(ctx: Context) -> None:
    ctx.step("explode", explode, "boom")


@durable_workflow
def parent(ctx: Context, number: int) -> list[object]:
    started = ctx.start_workflow("aside", doubling, number)
    return [str(started), ctx.run_workflow("inside", doubling, number)]


from tests.app import branching, chaos, enumerated, events, fanning, faults, limits, memory  # noqa: E402, F401  (they register their workflows)
