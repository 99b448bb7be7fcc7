"""Workflows for machines that run out of something."""

from __future__ import annotations

import os
import threading
import time

from django_durable import AsyncContext, Context, Retry, durable_workflow
from tests.app.faults import GATE_SECONDS, gate_file, leave_trace, traced, wait_at

ONCE = Retry(max_attempts=1)


def bulky(number: int, size: int) -> str:
    """A value that nothing can make smaller."""
    leave_trace("begin")
    return f"{number}:{os.urandom(size // 2).hex()}"


@durable_workflow(name="system.filling", step_retry=ONCE, retry=ONCE)
def filling(ctx: Context, steps: int, size: int, gate: str) -> int:
    """Journals ``size`` bytes in each of its steps; how many came back whole. Waits at the gate after two of them: what
    is missing when it opens is missed by every run."""
    values = [ctx.step("bulky", bulky, turn, size, key=turn) for turn in range(2)]
    ctx.step("gate", traced, 1, gate)
    values += [ctx.step("bulky", bulky, turn, size, key=turn) for turn in range(2, steps)]
    return whole(values, size)


@durable_workflow(name="system.filling_async", step_retry=ONCE, retry=ONCE)
async def filling_async(ctx: AsyncContext, steps: int, size: int, gate: str) -> int:
    values = [await ctx.step("bulky", bulky, turn, size, key=turn) for turn in range(2)]
    await ctx.step("gate", traced, 1, gate)
    values += [await ctx.step("bulky", bulky, turn, size, key=turn) for turn in range(2, steps)]
    return whole(values, size)


def whole(values: list[str], size: int) -> int:
    return sum(value.startswith(f"{turn}:") and len(value) > size // 2 for turn, value in enumerate(values))


# --- memory ----------------------------------------------------------------------------------


def ask_for(size: int) -> int:
    leave_trace("begin")
    return len(bytearray(size))


def take_all(piece: int, gate: str) -> int:
    """Takes what there is, piece by piece, and lets go of it again."""
    leave_trace("begin")
    taken: list[bytearray] = []
    try:
        while True:
            taken.append(bytearray(piece))
    finally:
        # Meanwhile everything else in the process has to do without.
        wait_at(gate)
        taken.clear()


def abort_without_memory(size: int) -> None:
    """As code in C++ does that nobody has taught to fail: out of memory it takes its process down."""
    leave_trace("begin")
    try:
        bytearray(size)
    except MemoryError:
        os.abort()


@durable_workflow(name="system.greedy", step_retry=ONCE, retry=ONCE)
def greedy(ctx: Context, size: int) -> int:
    ctx.step("before", traced, 1)
    return ctx.step("ask", ask_for, size)


@durable_workflow(name="system.greedy_async", step_retry=ONCE, retry=ONCE)
async def greedy_async(ctx: AsyncContext, size: int) -> int:
    return await ctx.step("ask", ask_for, size)


@durable_workflow(name="system.taking_all", step_retry=ONCE, retry=ONCE)
def taking_all(ctx: Context, piece: int, gate: str) -> int:
    return ctx.step("take", take_all, piece, gate)


@durable_workflow(name="system.aborting", step_retry=ONCE, retry=ONCE)
def aborting(ctx: Context, gate: str, size: int) -> None:
    ctx.step("wait", traced, 1, gate)
    ctx.step("abort", abort_without_memory, size)


# --- clocks ----------------------------------------------------------------------------------


def note(what: str) -> float:
    """When, by the clock that no process can be told otherwise, and what this process takes the time to be."""
    leave_trace(what)
    return time.time()


def stand_at(gate: str) -> None:
    """As `faults.wait_at`; `time.sleep` asks the system for what libfaketime does not pass on."""
    leave_trace("begin")
    ends, pause = time.monotonic() + GATE_SECONDS, threading.Event()
    while not gate_file(gate).exists():
        if time.monotonic() > ends:
            raise TimeoutError(f"nobody opened gate {gate}")
        pause.wait(0.01)


@durable_workflow(name="system.held", step_retry=ONCE, retry=ONCE)
def held(ctx: Context, gate: str) -> None:
    ctx.step("first", note, "begin")
    ctx.step("second", stand_at, gate)
    ctx.step("third", note, "begin")


@durable_workflow(name="system.napping", step_retry=ONCE, retry=ONCE)
def napping(ctx: Context, seconds: float) -> list[float]:
    before = ctx.step("before", note, "begin")
    ctx.sleep("nap", seconds)
    return [before, ctx.step("after", note, "begin")]
