"""Workflows for faults: their steps leave traces outside of the journal, wait at gates, and take their process down.

A trace is a line in a file of the run's folder; a gate is a file there, and who waits at it goes on once it exists.
`tests/acceptance/traces.py` reads the one and makes the other.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from django_durable import AsyncContext, Context, Retry, current_step, durable_workflow

GATE_SECONDS = 120.0
"""Longer than any test waits: what happens only once a gate has given up is not what a test has seen."""
ONCE = Retry(max_attempts=1)


def trace_file() -> Path:
    return Path(os.environ["DURABLE_TEST_FOLDER"]) / "traces"


def gate_file(gate: str) -> Path:
    return Path(os.environ["DURABLE_TEST_FOLDER"]) / f"gate-{gate}"


def leave_trace(moment: str) -> None:
    step = current_step()
    trace = {
        "run": str(step.run_id),
        "path": step.path,
        "attempt": step.attempt,
        "pid": os.getpid(),
        "moment": moment,
        "at": time.monotonic(),
    }
    # One write in append mode: lines of several processes do not mix.
    file = os.open(trace_file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, json.dumps(trace).encode() + b"\n")
    os.close(file)


def wait_at(gate: str) -> None:
    ends = time.monotonic() + GATE_SECONDS
    while not gate_file(gate).exists():
        if time.monotonic() > ends:
            raise TimeoutError(f"nobody opened gate {gate}")
        time.sleep(0.005)


def traced(number: int, gate: str = "", seconds: float = 0.0) -> int:
    leave_trace("begin")
    if gate:
        wait_at(gate)
    time.sleep(seconds)
    leave_trace("end")
    return number * 2


@durable_workflow
def held_inside(ctx: Context, gate: str) -> list[int]:
    """Waits at the gate inside its second step."""
    return [
        ctx.step("first", traced, 1),
        ctx.step("second", traced, 2, gate),
        ctx.step("third", traced, 3),
    ]


@durable_workflow
def held_between(ctx: Context, gate: str) -> list[int]:
    """Waits at the gate between its first and its second step."""
    first = ctx.step("first", traced, 1)
    wait_at(gate)
    return [first, ctx.step("second", traced, 2), ctx.step("third", traced, 3)]


@durable_workflow
def plodding(ctx: Context, steps: int, seconds: float) -> list[int]:
    """Many steps, each of which takes a while."""
    return [ctx.step("plod", traced, turn, "", seconds, key=turn) for turn in range(steps)]


@durable_workflow
def told_of(ctx: Context, gates: list[str]) -> None:
    """Waits at gate after gate; how far it has come is stored with each that it has passed."""
    for done, gate in enumerate(gates, start=1):
        ctx.progress(done, len(gates), f"past gate {done}")
        ctx.step("pass", traced, done, gate, key=done)


@durable_workflow
async def plodding_async(ctx: AsyncContext, steps: int, seconds: float) -> list[int]:
    return [await ctx.step("plod", traced, turn, "", seconds, key=turn) for turn in range(steps)]


@durable_workflow
def knocked(ctx: Context, times: int) -> list[object]:
    """Waits for events one after the other; what they brought."""
    return [ctx.wait_for_event("knock", key=turn).payload for turn in range(times)]


def kill_own_process() -> None:
    leave_trace("begin")
    os.kill(os.getpid(), signal.SIGKILL)


@durable_workflow
def poisonous(ctx: Context, gate: str) -> None:
    """Kills its process, once the gate is open."""
    ctx.step("wait", traced, 1, gate)
    ctx.step("kill", kill_own_process)


def deaf(gate: str) -> str:
    """Goes on waiting at the gate although its time is over."""
    leave_trace("begin")
    while not gate_file(gate).exists():
        try:
            wait_at(gate)
        except BaseException:
            leave_trace("told")
    return "heard"


@durable_workflow(step_retry=ONCE)
def never_ending(ctx: Context, gate: str) -> str:
    ctx.step("first", traced, 1)
    return ctx.step("deaf", deaf, gate, timeout=0.5)


@durable_workflow(step_retry=ONCE)
def exiting(ctx: Context) -> None:
    ctx.step("exit", sys.exit, "enough")


if "DURABLE_TEST_OLD_CODE" not in os.environ:

    @durable_workflow
    def newcomer(ctx: Context) -> int:
        """Not there in a worker that runs the code of yesterday."""
        return ctx.step("first", traced, 1)


@durable_workflow(aliases=["app.changing_of_yesterday"])
def changing(ctx: Context) -> int:
    """Today's code asks for a sleep where that of yesterday has journaled a step."""
    if "DURABLE_TEST_OLD_CODE" in os.environ:
        ctx.step("order", traced, 1)
    else:
        ctx.sleep("order", 0.01)
    ctx.wait_for_event("go")
    return ctx.step("last", traced, 2)


def count_up(name: str) -> int:
    from tests.app.models import Counter

    counter, _ = Counter.objects.get_or_create(name=name, defaults={"value": 0})
    counter.value += 1
    counter.save()
    return counter.value


@durable_workflow(name="faults.counting")
def counting(ctx: Context, name: str) -> int:
    return ctx.step("count", count_up, name, atomic=True)
