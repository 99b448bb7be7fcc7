"""What the benchmarks run: steps that do nothing, so that what is measured is the engine."""

from __future__ import annotations

from django_durable import AsyncContext, Context, durable_workflow


def nothing(number: int) -> int:
    return number


async def nothing_async(number: int) -> int:
    return number


@durable_workflow(name="bench.steps")
def steps(ctx: Context, count: int) -> int:
    for turn in range(count):
        ctx.step(f"step {turn}", nothing, turn)
    return count


@durable_workflow(name="bench.steps_async")
async def steps_async(ctx: AsyncContext, count: int) -> int:
    for turn in range(count):
        await ctx.step(f"step {turn}", nothing_async, turn)
    return count


@durable_workflow(name="bench.one_step")
def one_step(ctx: Context, count: int) -> int:
    return ctx.step("step", nothing, count)


@durable_workflow(name="bench.one_step_async")
async def one_step_async(ctx: AsyncContext, count: int) -> int:
    return await ctx.step("step", nothing_async, count)


@durable_workflow(name="bench.child")
def child(ctx: Context, number: int) -> int:
    return number


@durable_workflow(name="bench.fan_out")
def fan_out(ctx: Context, count: int) -> int:
    return len(ctx.map("child", child, range(count)))
