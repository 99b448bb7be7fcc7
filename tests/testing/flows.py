"""Workflows with something to find out about. ``calls`` is what really ran, in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

from django.utils import timezone

from django_durable import AsyncContext, Break, Context, Retry, durable_workflow
from tests.app.models import Counter

calls: list[str] = []
turns: Iterator[int] = count()
threads: set[int] = set()

AT_ONCE = Retry(max_attempts=3, initial=0, maximum=0, jitter=0)
ONCE = Retry(max_attempts=1)


def note(name: str) -> str:
    calls.append(name)
    threads.add(threading.get_ident())
    return name


def bump(name: str) -> int:
    counter, _ = Counter.objects.get_or_create(name=name)
    counter.value += 1
    counter.save()
    threads.add(threading.get_ident())
    return counter.value


@durable_workflow
def three_steps(ctx: Context) -> str:
    return ctx.step("a", note, "a") + ctx.step("b", note, "b") + ctx.step("c", note, "c")


@durable_workflow
async def three_steps_async(ctx: AsyncContext) -> str:
    async def later() -> str:
        # A coroutine runs on the loop; its SQL does not.
        await Counter.objects.acreate(name="later")
        calls.append("b")
        return "b"

    return await ctx.step("a", note, "a") + await ctx.step("b", later) + str(await ctx.step("c", bump, "c"))


@durable_workflow
def stubborn(ctx: Context) -> str:
    """Catches whatever it can, and goes on."""
    for name in "abc":
        try:
            ctx.step(name, note, name)
        except BaseException:
            calls.append(f"caught at {name}")
        finally:
            try:
                ctx.step(f"finally {name}", note, f"finally {name}")
            except BaseException:
                calls.append(f"caught at finally {name}")
    return "through"


@durable_workflow(retry=ONCE)
def counting(ctx: Context) -> int:
    """One ORM write in an atomic step, between two others."""
    ctx.step("a", note, "a")
    value = ctx.step("count", bump, "atomic", atomic=True)
    ctx.step("c", note, "c")
    return value


@durable_workflow
async def counting_async(ctx: AsyncContext) -> int:
    await ctx.step("a", note, "a")
    value = await ctx.step("count", bump, "atomic", atomic=True)
    await ctx.step("c", note, "c")
    return value


@durable_workflow
def patient(ctx: Context, hours: int) -> list[str]:
    before = ctx.step("a", note, timezone.now().isoformat())
    ctx.sleep("nap", timedelta(hours=hours))
    return [before, ctx.step("after", lambda: timezone.now().isoformat())]


@durable_workflow
def ever_again(ctx: Context) -> None:
    for turn in count():
        ctx.sleep("nap", 3600, key=turn)


@durable_workflow
def starting_itself(ctx: Context) -> None:
    ctx.step("again", lambda: str(starting_itself.enqueue().id))


def insert_twice(name: str) -> None:
    Counter.objects.create(name=name)
    Counter.objects.create(name=name)


@durable_workflow(step_retry=Retry(max_attempts=2, initial=0, maximum=0), retry=ONCE)
def breaking_the_transaction(ctx: Context) -> str:
    try:
        ctx.step("insert", insert_twice, "twin")
    except Exception as error:
        return ctx.step("say", note, type(error).__name__)
    return "no error"


# --- not deterministic -----------------------------------------------------------------------


@durable_workflow
def names_that_differ(ctx: Context) -> None:
    ctx.step(f"turn {next(turns)}", note, "a")
    ctx.step("last", note, "b")


@durable_workflow
def order_that_differs(ctx: Context) -> None:
    for name in ("ab", "ba")[next(turns) % 2]:
        ctx.step(name, note, name)
    ctx.step("last", note, "last")


@durable_workflow
def kind_that_differs(ctx: Context) -> None:
    if next(turns) == 0:
        ctx.step("x", note, "x")
    else:
        ctx.sleep("x", 0)
    ctx.step("last", note, "last")


@durable_workflow
def steps_left_out(ctx: Context) -> str:
    if next(turns) < 1:
        ctx.step("a", note, "a")
    return "done"


@durable_workflow
async def names_that_differ_async(ctx: AsyncContext) -> None:
    await ctx.step(f"turn {next(turns)}", note, "a")
    await ctx.step("last", note, "b")


@durable_workflow
async def gathering(ctx: AsyncContext) -> list[Any]:
    """Wrong: its calls run side by side."""

    async def branch(name: str) -> list[str]:
        return [await ctx.step(f"{name}{turn}", note, f"{name}{turn}") for turn in range(3)]

    return await asyncio.gather(branch("a"), branch("b"))


@durable_workflow
async def names_that_differ_in_tasks(ctx: AsyncContext) -> None:
    await asyncio.create_task(ctx.step(f"turn {next(turns)}", note, "a"))
    await asyncio.create_task(ctx.step("last", note, "b"))


@durable_workflow
async def in_tasks(ctx: AsyncContext) -> list[str]:
    """Right: a task for each call, and one after the other."""
    return [await asyncio.create_task(ctx.step("step", note, str(turn), key=turn)) for turn in range(3)]


@durable_workflow(step_retry=AT_ONCE)
def deterministic(ctx: Context, children: bool = True) -> list[Any]:
    """A bit of everything."""
    drawn = [str(ctx.uuid4()), ctx.random(), ctx.now().isoformat()]
    flaky = ctx.step("flaky", fail_first)
    passing = ctx.step("light", note, "light", ephemeral=True)
    rows = [ctx.step("row", note, f"row {key}", key=key) for key in range(3)]
    ctx.sleep("nap", 0)
    child = ctx.run_workflow("child", three_steps) if children else ""
    event = ctx.wait_for_event("never", timeout=0.001, default=None)
    return [drawn == [str(drawn[0]), drawn[1], drawn[2]], flaky, passing, rows, child, event]


@durable_workflow
def echo(ctx: Context, word: str) -> str:
    return ctx.step("say", note, word)


@durable_workflow(step_retry=AT_ONCE)
def many_at_once(ctx: Context) -> list[Any]:
    """Maps in every scope, each with something after it, and a branch that looks at what is around it."""

    def mapping(ctx: Context, _: Any = None) -> Any:
        doubled = ctx.map("double", lambda item: note(item * 2), "ab")
        return Break([*doubled, ctx.step("after", note, "after")])

    def standing(ctx: Context) -> str:
        ctx.step("take", note, "take", compensate=note)
        ctx.rollback_checkpoint("no way back")
        return ctx.step("after", note, "stands")

    branches = ctx.join("both", {"maps": lambda ctx: mapping(ctx).value, "stands": standing})
    block = ctx.try_block("block", lambda ctx: mapping(ctx).value)
    turns = ctx.loop("turns", mapping)
    children = ctx.map("children", echo, ["c", "d"])
    ctx.sleep("nap", 60)
    return [mapping(ctx).value, branches, block.value, turns, children]


@durable_workflow
def checkpoint_after_a_join(ctx: Context) -> None:
    """It drops what was done in a branch that is over: the core looks there, and the code does not come by."""

    def branch(ctx: Context) -> None:
        ctx.step("before", note, "before")
        ctx.try_block("block", lambda ctx: ctx.step("take", note, "take", compensate=note))

    ctx.join("both", {"a": branch})
    ctx.rollback_checkpoint("no way back")
    ctx.step("after", note, "after")


@durable_workflow
def nothing_removed(ctx: Context) -> None:
    """Its code looks whether the journal has something of older code."""
    ctx.step("before", note, "before")
    ctx.removed("old")
    ctx.sleep("nap", 60)
    ctx.step("after", note, "after")


def fail_first() -> str:
    calls.append("flaky")
    if calls.count("flaky") < 2:
        raise ValueError("the first time")
    return "flaky"
