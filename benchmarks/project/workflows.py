"""What the benchmarks run: steps that do nothing, so that what is measured is the engine."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from benchmarks.systems.notes import begin_nap, end_nap
from django_durable import AsyncContext, Break, Context, Continue, durable_workflow


def nothing(number: int) -> int:
    return number


async def nothing_async(number: int) -> int:
    return number


def echo(text: str) -> str:
    return text


def instant() -> float:
    return time.perf_counter()


async def begin_nap_async(until: float) -> None:
    begin_nap(until)


async def end_nap_async(until: float) -> None:
    end_nap(until)


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


@durable_workflow(name="bench.carry")
def carry(ctx: Context, text: str) -> str:
    """The text is its input, what its step returned, and its outcome."""
    return ctx.step("step", echo, text)


@durable_workflow(name="bench.parked")
def parked(ctx: Context, count: int) -> float:
    """So many steps, then a wait, and the first step after it."""
    for turn in range(count):
        ctx.step(f"step {turn}", nothing, turn)
    ctx.wait_for_event("go on")
    reached = ctx.step("reached", instant)
    return reached


@durable_workflow(name="bench.asleep")
def asleep(ctx: Context, seconds: float) -> float:
    """A step that is replayed once the sleep is over, and one to go on with."""
    ctx.step("before", instant)
    ctx.sleep("sleep", seconds)
    return ctx.step("after", instant)


@durable_workflow(name="bench.nap")
def nap(ctx: Context, until: float) -> None:
    ctx.step("before", begin_nap, until)
    ctx.sleep_until("nap", datetime.fromtimestamp(until, UTC))
    ctx.step("after", end_nap, until)


@durable_workflow(name="bench.nap_async")
async def nap_async(ctx: AsyncContext, until: float) -> None:
    await ctx.step("before", begin_nap_async, until)
    await ctx.sleep_until("nap", datetime.fromtimestamp(until, UTC))
    await ctx.step("after", end_nap_async, until)


@durable_workflow(name="bench.loop")
def loop(ctx: Context, marks: list[int]) -> list[float]:
    """Turns of one step, up to the last of ``marks``: the instants of those turns.

    They are in the state, so that no replay loses them: at the end it is some two hundred bytes longer than at first.
    """

    def turn(ctx: Context, state: dict[str, Any]) -> Break | Continue:
        reached = ctx.step("work", instant)
        number, seen = state["number"], state["seen"]
        if number in marks:
            seen = [*seen, reached]
        return Break(seen) if number == marks[-1] else Continue({"number": number + 1, "seen": seen})

    instants: list[float] = ctx.loop("loop", turn, {"number": 0, "seen": []})
    return instants


@durable_workflow(name="bench.plain_loop")
def plain_loop(ctx: Context, marks: list[int]) -> list[float]:
    """The same as a loop of Python's, all of whose steps stay in the journal until the run is over."""
    seen = []
    for number in range(marks[-1] + 1):
        reached = ctx.step(f"work {number}", instant)
        if number in marks:
            seen.append(reached)
    return seen
