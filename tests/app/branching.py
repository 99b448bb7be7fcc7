"""Workflows with branches that have to run side by side, in threads of a worker or as tasks of its loop."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

from django.db import connection

from django_durable import AsyncContext, Context, Retry, durable_workflow

ONCE = Retry(max_attempts=1)
_barrier = threading.Barrier(2)


def meet(seconds: float) -> int:
    """Returns only where another branch is here at the same time."""
    _barrier.wait(timeout=seconds)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return threading.get_ident()


@durable_workflow(step_retry=ONCE, retry=ONCE)
def meeting(ctx: Context) -> Any:
    found = ctx.join("both", {"a": lambda ctx: ctx.step("meet", meet, 60), "b": lambda ctx: ctx.step("meet", meet, 60)})
    return len(set(found.values()))


@durable_workflow(step_retry=ONCE, retry=ONCE)
async def meeting_async(ctx: AsyncContext) -> Any:
    here: list[str] = []
    full = asyncio.Event()

    async def meet_here(name: str) -> str:
        here.append(name)
        if len(here) == 2:
            full.set()
        await asyncio.wait_for(full.wait(), 60)
        return name

    return await ctx.join(
        "both", {"a": lambda ctx: ctx.step("meet", meet_here, "a"), "b": lambda ctx: ctx.step("meet", meet_here, "b")}
    )


def hold(folder: str, name: str) -> str:
    """Is under way until somebody makes the file ``go``."""
    Path(folder, f"{name}.began").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.02)
    with Path(folder, "held").open("a") as file:
        file.write(f"{name}\n")
    return name


def note(folder: str, what: str) -> str:
    with Path(folder, "log").open("a") as file:
        file.write(f"{what}\n")
    return what


@durable_workflow(step_retry=ONCE, retry=ONCE)
def racing(ctx: Context, folder: str) -> Any:
    """The loser's step is under way when the winner has won, and still when the next step runs."""

    def loser(ctx: Context) -> None:
        ctx.step("hold", hold, folder, "loser", compensate=lambda name: note(folder, f"-{name}"))
        ctx.step("never", note, folder, "never")

    def winner(ctx: Context) -> str:
        while not Path(folder, "loser.began").exists():
            time.sleep(0.02)
        return ctx.step("win", note, folder, "won")

    name, _ = ctx.race("any", {"loser": loser, "winner": winner})
    ctx.step("after", note, folder, "after")
    return name


@durable_workflow(step_retry=ONCE, retry=ONCE)
def waking(ctx: Context, folder: str) -> Any:
    """One branch works all the time; the others' times and events come meanwhile."""

    def sleeper(ctx: Context) -> str:
        ctx.sleep("nap", 0.5)
        return ctx.step("slept", note, folder, "slept")

    def listener(ctx: Context) -> str:
        ctx.wait_for_event("word")
        return ctx.step("heard", note, folder, "heard")

    return ctx.join(
        "all",
        {"worker": lambda ctx: ctx.step("hold", hold, folder, "worker"), "sleeper": sleeper, "listener": listener},
    )


@durable_workflow(step_retry=ONCE)
def holding_both(ctx: Context, folder: str) -> Any:
    """Two branches, each under way in its second step when the process is killed."""

    def branch(name: str) -> Any:
        def body(ctx: Context) -> str:
            ctx.step("first", note, folder, f"{name} first")
            return ctx.step("hold", hold, folder, name)

        return body

    return ctx.join("both", {"a": branch("a"), "b": branch("b")})


def square(number: int) -> int:
    return number * number


@durable_workflow
def mapping(ctx: Context, count: int) -> int:
    return sum(ctx.map("square", square, range(count), max_parallel=8))


@durable_workflow
def squared(ctx: Context, number: int) -> int:
    return square(number)


@durable_workflow
def fanning(ctx: Context, count: int) -> int:
    return sum(ctx.map("square", squared, range(count)))
