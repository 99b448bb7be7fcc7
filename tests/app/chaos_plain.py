"""Executes random programs of `tests/chaos/programs.py`, as far as 0.1.0 knows what they are made of.

What a program does is told once, as generators that say what they want of ``ctx``; the two faces of it answer. Every
step returns its value beside what tells this execution from every other, so that the journal says which one it has.

Workers of a released version load this module: whatever came later is in `chaos.py`, which goes on where this ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from django_durable import AsyncContext, Context, Retry
from django_durable import durable_workflow as workflow
from tests.app.chaos_bodies import count_up, die_once, fail, one_attempt, stumble, work, work_async
from tests.chaos import programs
from tests.chaos.programs import SLEEP_ENDS, Node, Program, name_of, value_of

Inside = Callable[..., Callable[..., Any]]
"""Makes of a generator function what ``ctx`` calls with a ``ctx`` of its own: a branch, a turn."""

Ask = Callable[[Any, Inside], Any]
"""What a program wants of ``ctx``."""

Asking = Generator[Ask, Any, Any]

Perform = Callable[[Node, str], Asking]
"""Does what a node says, under the name that it has in its program."""

STEADFAST = Retry(max_attempts=100, initial=0.1, factor=1.5, maximum=1)
"""For what needs the database, which comes and goes."""

ONCE = Retry(max_attempts=1)


def execute(program: Program, perform: Perform) -> Asking:
    results = []
    for place, node in enumerate(program):
        results.append((yield from perform(node, name_of(node, place))))
    return results


def perform(node: Node, name: str) -> Asking:
    match node:
        case ["step", _, seconds]:
            return (yield step(name, work, work_async, value_of(node), seconds))
        case ["flaky", _, failures]:
            retry = Retry(max_attempts=failures + 1, initial=programs.BACK_OFF, factor=1)
            return (yield step(name, stumble, stumble, value_of(node), failures, retry=retry))
        case ["big", _]:
            return len((yield step(name, work, work_async, value_of(node), 0.0)))
        case ["count", _]:
            return (yield step(name, count_up, count_up, value_of(node), atomic=True, retry=STEADFAST))
        case ["poison", _]:
            return (yield step(name, die_once, die_once, value_of(node)))
        case ["bad"]:
            return (yield step(name, fail, fail, retry=ONCE))
        case ["sleep", seconds]:
            begins, is_over = SLEEP_ENDS
            yield step(name + begins, work, work_async, 0, 0.0)
            yield lambda ctx, inside: ctx.sleep(name, seconds)
            yield step(name + is_over, work, work_async, 0, 0.0)
            return None
        case ["event", event]:
            return (yield lambda ctx, inside: ctx.wait_for_event(name, event=event)).payload
        case ["child" | "elder", inner, is_async]:
            return (yield child(name, plain_async if is_async else plain, inner))
    raise AssertionError(node)


def step(name: str, body: Any, body_async: Any, *args: Any, **options: Any) -> Ask:
    def ask(ctx: Any, inside: Inside) -> Any:
        return ctx.step(name, body_async if isinstance(ctx, AsyncContext) else body, *args, **options)

    return ask


def child(name: str, workflow: Any, program: Program) -> Ask:
    return lambda ctx, inside: ctx.run_workflow(name, workflow, "", program)


# --- the two faces ---------------------------------------------------------------------------


def told(given: Any) -> Any:
    """What a program hears of an answer: of a step the value, without what tells its execution."""
    return given["value"] if isinstance(given, dict) and "by" in given else given


def answer(ctx: Context, asking: Asking) -> Any:
    """All of a run's function; how it ends is told."""
    with one_attempt(ctx):
        return _answer(ctx, asking)


async def answer_async(ctx: AsyncContext, asking: Asking) -> Any:
    with one_attempt(ctx):
        return await _answer_async(ctx, asking)


def _answer(ctx: Context, asking: Asking) -> Any:
    def inside(make: Callable[..., Asking]) -> Callable[..., Any]:
        return lambda ctx, *state: _answer(ctx, make(*state))

    said = None
    while True:
        try:
            ask = asking.send(said)
        except StopIteration as end:
            return end.value
        said = told(ask(ctx, inside))


async def _answer_async(ctx: AsyncContext, asking: Asking) -> Any:
    def inside(make: Callable[..., Asking]) -> Callable[..., Any]:
        return lambda ctx, *state: _answer_async(ctx, make(*state))

    said = None
    while True:
        try:
            ask = asking.send(said)
        except StopIteration as end:
            return end.value
        said = told(await ask(ctx, inside))


@workflow(name="chaos.plain")
def plain(ctx: Context, tag: str, program: list[Any]) -> Any:
    """``tag`` is what the client knows the run by, whose id it may never have heard."""
    return answer(ctx, execute(program, perform))


@workflow(name="chaos.plain_async")
async def plain_async(ctx: AsyncContext, tag: str, program: list[Any]) -> Any:
    return await answer_async(ctx, execute(program, perform))
