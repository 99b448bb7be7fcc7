"""Workflows that take and answer events in worker processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from django_durable import AsyncContext, Context, Retry, durable_workflow
from tests.app.branching import hold, note

ONCE = Retry(max_attempts=1)


@durable_workflow
def collecting(ctx: Context, turns: int, count: int) -> list[Any]:
    """Takes events under two names, ``count`` at a time, with a step between, and answers each."""
    found = []
    for turn in range(turns):
        for event in ctx.wait_for_events("take", events=["knock", "ring"], count=count, key=turn):
            event.complete([turn, event.payload])
            found.append(event.payload)
        ctx.step("work", time.sleep, 0.002, key=turn)
    return found


@durable_workflow
async def collecting_async(ctx: AsyncContext, turns: int, count: int) -> list[Any]:
    found = []
    for turn in range(turns):
        for event in await ctx.wait_for_events("take", events=["knock", "ring"], count=count, key=turn):
            event.complete([turn, event.payload])
            found.append(event.payload)
        await ctx.step("work", time.sleep, 0.002, key=turn)
    return found


@durable_workflow(step_retry=ONCE)
def replaying(ctx: Context, folder: str) -> list[Any]:
    """Says at each call of its body that it is there, and does not go on as long as there is a file ``hold``."""
    ctx.step("first", note, folder, "first")
    Path(folder, f"call-{time.monotonic_ns()}").touch()
    while Path(folder, "hold").exists():
        time.sleep(0.005)
    return [event.payload for event in ctx.wait_for_events("all", events=["a", "b"], count=4)]


@durable_workflow(step_retry=ONCE, retry=ONCE)
def hearing(ctx: Context, folder: str) -> Any:
    """One branch works all the time; the events that another waits for come meanwhile, and are answered there."""

    def listener(ctx: Context) -> list[Any]:
        heard = []
        for event in ctx.wait_for_events("words", events=["word", "sign"], count=2):
            heard.append(event.payload)
            event.complete(f"heard {event.payload}")
        ctx.step("heard", note, folder, "heard")
        return heard

    return ctx.join("both", {"listener": listener, "worker": lambda ctx: ctx.step("hold", hold, folder, "worker")})
