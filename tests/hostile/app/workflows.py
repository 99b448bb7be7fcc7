"""Workflows that do with what the corpus has what workflows do: take it, make it, wait for it, raise it, call by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_durable import AsyncContext, Break, Context, Continue, Retry, durable_workflow
from tests.hostile.corpus import ERRORS, TYPED, VALUES
from tests.hostile.rude import ReprRaises, StrRaises, Text

ONCE = Retry(max_attempts=1)

# --- values ----------------------------------------------------------------------------------


def make(what: str) -> Any:
    return VALUES[what]()


async def make_async(what: str) -> Any:
    return VALUES[what]()


def do(value: Any = None) -> Any:
    return value


@durable_workflow(name="hostile.taking", step_retry=ONCE, retry=ONCE)
def taking(ctx: Context, value: Any) -> Any:
    return ctx.step("do", do, value)


@durable_workflow(name="hostile.taking_async", step_retry=ONCE, retry=ONCE)
async def taking_async(ctx: AsyncContext, value: Any) -> Any:
    return await ctx.step("do", do, value)


@durable_workflow(name="hostile.read", step_retry=ONCE, retry=ONCE)
def read_back(ctx: Context, value: Any = None) -> Any:
    """Waits with an input, an entry in its journal, and soon an event: all that somebody else could write to."""
    first = ctx.step("first", do, value)
    event = ctx.wait_for_event("said")
    return [first, event.payload]


@durable_workflow(name="hostile.hearing", step_retry=ONCE, retry=ONCE)
def hearing(ctx: Context) -> Any:
    """Answers an event with what it brought."""
    event = ctx.wait_for_event("said")
    event.complete(event.payload)
    return event.payload


def _answer(ctx: Context, what: str) -> Any:
    return ctx.wait_for_event("said").complete(make(what))


MAKING: dict[str, Callable[[Context, str], Any]] = {
    "step": lambda ctx, what: ctx.step("make", make, what),
    "atomic step": lambda ctx, what: ctx.step("make", make, what, atomic=True),
    "ephemeral step": lambda ctx, what: ctx.step("make", make, what, ephemeral=True),
    "tried step": lambda ctx, what: ctx.try_step("make", make, what).value,
    "step of a coroutine": lambda ctx, what: ctx.step("make", make_async, what),
    "result": lambda ctx, what: make(what),
    "block": lambda ctx, what: ctx.try_block("block", lambda ctx: make(what)).value,
    "branch": lambda ctx, what: ctx.join("both", {"one": lambda ctx: make(what), "other": lambda ctx: 1})["one"],
    "race": lambda ctx, what: ctx.race("race", {"one": lambda ctx: make(what)})[1],
    "item": lambda ctx, what: ctx.map("all", make, [what])[0],
    "state of a loop": lambda ctx, what: ctx.loop(
        "turns", lambda ctx, state: Break(state[0]) if state else Continue([make(what)])
    ),
    "poll": lambda ctx, what: ctx.poll("poll", lambda: make(what), every=1),
    "child": lambda ctx, what: ctx.run_workflow("child", making, "result", what),
    "input of a child": lambda ctx, what: ctx.run_workflow("child", taking, make(what)),
    "answer": _answer,
    "annotation": lambda ctx, what: ctx.annotate(note=make(what)),
    "line of the log": lambda ctx, what: ctx.log.warning("%s %r", make(what), make(what)),
    "progress": lambda ctx, what: ctx.progress(make(what), make(what), make(what)),
    "key": lambda ctx, what: ctx.step("do", do, key=make(what)),
    "name": lambda ctx, what: ctx.step(make(what), do),
    "time to sleep": lambda ctx, what: ctx.sleep("nap", make(what)),
    "time-out": lambda ctx, what: ctx.step("do", do, timeout=make(what)),
}
"""Where a workflow may have a value that it made."""


@durable_workflow(name="hostile.making", step_retry=ONCE, retry=ONCE)
def making(ctx: Context, where: str, what: str) -> Any:
    return MAKING[where](ctx, what)


@durable_workflow(name="hostile.making_async", step_retry=ONCE, retry=ONCE)
async def making_async(ctx: AsyncContext, where: str, what: str) -> Any:
    async def one(ctx: AsyncContext) -> Any:
        return await ctx.step("make", make_async, what)

    async def other(ctx: AsyncContext) -> Any:
        return make(what)

    match where:
        case "step":
            return await ctx.step("make", make, what)
        case "step of a coroutine":
            return await ctx.step("make", make_async, what)
        case "branch":
            return await ctx.join("both", {"one": one, "other": other})
        case "race":
            return (await ctx.race("race", {"one": one}))[1]
        case _:
            return make(what)


MAKING_ASYNC = ("step", "step of a coroutine", "branch", "race", "result")

# --- exceptions ------------------------------------------------------------------------------


def fail(what: str) -> None:
    raise ERRORS[what]()


async def fail_async(what: str) -> None:
    raise ERRORS[what]()


def _compensate(ctx: Context, what: str) -> None:
    ctx.step("done", do, compensate=lambda _value: fail(what))
    ctx.step("fail", fail, "no arguments")


RAISING: dict[str, Callable[[Context, str], Any]] = {
    "step": lambda ctx, what: ctx.step("fail", fail, what),
    "step with retries": lambda ctx, what: ctx.step("fail", fail, what, retry=Retry(2, initial=0, maximum=0)),
    "atomic step": lambda ctx, what: ctx.step("fail", fail, what, atomic=True),
    "tried step": lambda ctx, what: ctx.try_step("fail", fail, what),
    "step with a time-out": lambda ctx, what: ctx.step("fail", fail, what, timeout=30),
    "step of a coroutine": lambda ctx, what: ctx.step("fail", fail_async, what),
    "body": lambda ctx, what: fail(what),
    "block": lambda ctx, what: ctx.try_block("block", lambda ctx: fail(what)),
    "branch": lambda ctx, what: ctx.join("n" * 200, {"n" * 200: lambda ctx: ctx.step("fail", fail, what)}),
    "body of a branch": lambda ctx, what: ctx.join("both", {"one": lambda ctx: fail(what), "other": lambda ctx: 1}),
    "race": lambda ctx, what: ctx.race("race", {"one": lambda ctx: fail(what), "two": lambda ctx: fail(what)}),
    "item": lambda ctx, what: ctx.map("all", fail, [what, what]),
    "turn": lambda ctx, what: ctx.loop("turns", lambda ctx, state: fail(what), max_iterations=2),
    "poll": lambda ctx, what: ctx.poll("poll", lambda: fail(what), every=1, retry=ONCE),
    "compensation": _compensate,
    "child": lambda ctx, what: ctx.run_workflow("child", raising, "body", what),
}


@durable_workflow(name="hostile.raising", step_retry=ONCE, retry=ONCE)
def raising(ctx: Context, where: str, what: str) -> Any:
    return RAISING[where](ctx, what)


@durable_workflow(name="hostile.raising_async", step_retry=ONCE, retry=ONCE)
async def raising_async(ctx: AsyncContext, where: str, what: str) -> Any:
    async def one(ctx: AsyncContext) -> Any:
        return await ctx.step("fail", fail_async, what)

    async def other(ctx: AsyncContext) -> Any:
        fail(what)

    match where:
        case "step":
            await ctx.step("fail", fail, what)
        case "step of a coroutine":
            await ctx.step("fail", fail_async, what)
        case "step with a time-out":
            await ctx.step("fail", fail_async, what, timeout=30)
        case "branch":
            await ctx.join("both", {"one": one})
        case "body of a branch":
            await ctx.join("both", {"one": other, "other": other})
        case "race":
            await ctx.race("race", {"one": one, "two": other})
        case _:
            fail(what)


RAISING_ASYNC = ("step", "step of a coroutine", "step with a time-out", "branch", "body of a branch", "race", "body")


def fail_after(error: Any) -> None:
    """What ``on_failure`` of ``failing_to_fail`` does: it meets the error that the run has failed with, and another."""
    str(error), repr(error)
    raise StopIteration(error)


@durable_workflow(name="hostile.failing_to_fail", step_retry=ONCE, retry=ONCE, on_failure=fail_after)
def failing_to_fail(ctx: Context, what: str) -> None:
    fail(what)


# --- names -----------------------------------------------------------------------------------

NO_NAMES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "int": lambda: 5,
    "too long an int": lambda: 10**5_000,
    "bytes": lambda: b"name",
    "list": lambda: ["name"],
    "object": object,
    "str of another class": lambda: Text("x"),
    "repr raises": ReprRaises,
    "str raises": StrRaises,
}
"""What is no text, and is given as a name all the same."""


def name_of(what: str) -> Any:
    return NO_NAMES[what]() if what in NO_NAMES else TYPED[what]


NAMING: dict[str, Callable[[Context, Any], Any]] = {
    "step": lambda ctx, name: ctx.step(name, do),
    "key": lambda ctx, name: ctx.step("do", do, key=name),
    "both": lambda ctx, name: ctx.step(name, do, key=name),
    "sleep": lambda ctx, name: ctx.sleep(name, 0.001),
    "block": lambda ctx, name: ctx.try_block(name, lambda ctx: ctx.step(name, do)).value,
    "branch": lambda ctx, name: list(ctx.join(name, {name: lambda ctx: ctx.step(name, do)}).values()),
    "race": lambda ctx, name: ctx.race("race", {name: lambda ctx: ctx.step("do", do)})[1],
    "loop": lambda ctx, name: ctx.loop(name, lambda ctx, state: Break(do())),
    "poll": lambda ctx, name: ctx.poll(name, do, every=1),
    "child": lambda ctx, name: ctx.run_workflow(name, taking, None),
    "item": lambda ctx, name: ctx.map(name, do, [1])[0],
    "annotation": lambda ctx, name: ctx.annotate(**{name: 1}),
    "wait": lambda ctx, name: ctx.wait_for_event(name, timeout=0, default=None),
    "event": lambda ctx, name: ctx.wait_for_event("wait", event=name, timeout=0, default=None),
    "events": lambda ctx, name: ctx.wait_for_events("wait", events=[name, "other"], timeout=0),
    "checkpoint": lambda ctx, name: ctx.rollback_checkpoint(name),
    "removed": lambda ctx, name: ctx.removed(name),
}


@durable_workflow(name="hostile.naming", step_retry=ONCE, retry=ONCE)
def naming(ctx: Context, where: str, what: str) -> str:
    NAMING[where](ctx, name_of(what))
    return "well"


@durable_workflow(name="hostile.awaiting", step_retry=ONCE, retry=ONCE)
def awaiting(ctx: Context, what: str) -> Any:
    """What the event brings that is called so."""
    return ctx.wait_for_event("wait", event=name_of(what)).payload


from tests.hostile.app import secrets  # noqa: E402, F401  (it registers its workflows)
