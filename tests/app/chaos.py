"""Executes the random programs of `tests/chaos/programs.py`, in a `def` and in an `async def` workflow.

What a program does is told once, as generators that say what they want of ``ctx``; the two faces of it answer. Every
step returns its value beside what tells this execution from every other, so that the journal says which one it has.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.db.models import F

from django_durable import AsyncContext, Break, Context, Continue, NonRetriableError, Retry, current_step
from django_durable import durable_workflow as workflow
from tests.chaos import programs, witness
from tests.chaos.programs import LIMIT, NEVER, SLEEP_ENDS, Node, Program, name_of, value_of

Inside = Callable[..., Callable[..., Any]]
"""Makes of a generator function what ``ctx`` calls with a ``ctx`` of its own: a branch, a turn."""

Ask = Callable[[Any, Inside], Any]
"""What a program wants of ``ctx``."""

Asking = Generator[Ask, Any, Any]

STEADFAST = Retry(max_attempts=100, initial=0.1, factor=1.5, maximum=1)
"""For what needs the database, which comes and goes."""

ONCE = Retry(max_attempts=1)


def execute(program: Program) -> Asking:
    results = []
    for place, node in enumerate(program):
        results.append((yield from perform(node, name_of(node, place), program)))
    return results


def perform(node: Node, name: str, program: Program) -> Asking:
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
        case ["undoable", _]:
            return (yield step(name, work, work_async, value_of(node), 0.0, compensate=undo))
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
        case ["child", inner, is_async]:
            child = interpret_async if is_async else interpret
            return (yield lambda ctx, inside: ctx.run_workflow(name, child, "", inner))
        case ["join", inners]:
            bodies = {f"b{number}": partial(execute, inner) for number, inner in enumerate(inners)}
            results = yield lambda ctx, inside: ctx.join(name, of_each(inside, bodies))
            return [results[branch] for branch in bodies]
        case ["race", winner, losers]:
            bodies = {f"loser{number}": partial(lose, loser) for number, loser in enumerate(losers)}
            bodies["winner"] = partial(execute, winner)
            return (yield lambda ctx, inside: ctx.race(name, of_each(inside, bodies)))[1]
        case ["loop", inner, turns]:
            return (yield lambda ctx, inside: ctx.loop(name, inside(partial(turn, inner, turns)), 0))
        case ["map", count]:
            return [done["value"] for done in (yield lambda ctx, inside: ctx.map(name, item, range(count)))]
    raise AssertionError(node)


def step(name: str, body: Any, body_async: Any, *args: Any, **options: Any) -> Ask:
    def ask(ctx: Any, inside: Inside) -> Any:
        return ctx.step(name, body_async if isinstance(ctx, AsyncContext) else body, *args, **options)

    return ask


def of_each(inside: Inside, bodies: Mapping[str, Callable[[], Asking]]) -> dict[str, Callable[..., Any]]:
    return {name: inside(body) for name, body in bodies.items()}


def lose(program: Program) -> Asking:
    yield from execute(program)
    return (yield lambda ctx, inside: ctx.wait_for_event(NEVER))


def turn(program: Program, turns: int, number: int) -> Asking:
    done = yield from execute(program)
    return Break([done, turns]) if number == turns - 1 else Continue(number + 1)


# --- the two faces ---------------------------------------------------------------------------


def told(given: Any) -> Any:
    """What a program hears of an answer: of a step the value, without what tells its execution."""
    return given["value"] if isinstance(given, dict) and "by" in given else given


def answer(ctx: Context, asking: Asking) -> Any:
    def inside(make: Callable[..., Asking]) -> Callable[..., Any]:
        return lambda ctx, *state: answer(ctx, make(*state))

    said = None
    while True:
        try:
            ask = asking.send(said)
        except StopIteration as end:
            return end.value
        said = told(ask(ctx, inside))


async def answer_async(ctx: AsyncContext, asking: Asking) -> Any:
    def inside(make: Callable[..., Asking]) -> Callable[..., Any]:
        return lambda ctx, *state: answer_async(ctx, make(*state))

    said = None
    while True:
        try:
            ask = asking.send(said)
        except StopIteration as end:
            return end.value
        said = told(await ask(ctx, inside))


@workflow(name="chaos.interpret")
def interpret(ctx: Context, tag: str, program: list[Any]) -> Any:
    """``tag`` is what the client knows the run by, whose id it may never have heard."""
    return answer(ctx, execute(program))


@workflow(name="chaos.interpret_async")
async def interpret_async(ctx: AsyncContext, tag: str, program: list[Any]) -> Any:
    return await answer_async(ctx, execute(program))


def group_of(tag: str, program: list[Any]) -> str:
    """One of three groups, by the tag."""
    return f"group-{int(hashlib.sha256(tag.encode()).hexdigest(), 16) % 3}"


@workflow(name="chaos.interpret_limited", max_concurrency=LIMIT, concurrency_key=group_of)
def interpret_limited(ctx: Context, tag: str, program: list[Any]) -> Any:
    return answer(ctx, execute(program))


WORKFLOWS = (interpret, interpret_async, interpret_limited)


# --- bodies of steps -------------------------------------------------------------------------


@contextmanager
def one_execution() -> Iterator[str]:
    """Tells of the execution that lies within, and of how it ends; gives what tells it from every other."""
    by = uuid4().hex[:12]
    witness.bear_witness(witness.BEGIN, by)
    try:
        yield by
    except Exception:
        witness.bear_witness(witness.RAISE, by)
        raise
    witness.bear_witness(witness.END, by)


def work(value: Any, seconds: float) -> dict[str, Any]:
    with one_execution() as by:
        time.sleep(seconds)
    return {"value": value, "by": by}


async def work_async(value: Any, seconds: float) -> dict[str, Any]:
    with one_execution() as by:
        await asyncio.sleep(seconds)
    return {"value": value, "by": by}


def item(number: int) -> dict[str, Any]:
    return work(number * 2, 0.0)


def stumble(value: Any, failures: int) -> dict[str, Any]:
    with one_execution() as by:
        if current_step().attempt <= failures:
            raise ValueError("not yet")
    return {"value": value, "by": by}


def fail() -> None:
    with one_execution():
        raise NonRetriableError("as the program wants it")


def count_up(value: Any) -> dict[str, Any]:
    """Adds one to the run's own counter."""
    from tests.app.models import Counter

    with one_execution() as by:
        counter, _ = Counter.objects.get_or_create(name=f"chaos {current_step().run_id}")
        Counter.objects.filter(pk=counter.pk).update(value=F("value") + 1)
    return {"value": value, "by": by}


def undo(done: dict[str, Any]) -> dict[str, Any]:
    with one_execution() as by:
        return {"value": done["value"], "by": by}


def die_once(value: Any) -> dict[str, Any]:
    """Kills its process, the first time that it runs."""
    with one_execution() as by:
        if _is_first():
            witness.bear_witness(witness.DIE, by)
            os.kill(os.getpid(), signal.SIGKILL)
    return {"value": value, "by": by}


def _is_first() -> bool:
    step = current_step()
    place = hashlib.sha256(f"{step.run_id} {step.path}".encode()).hexdigest()[:20]
    try:
        os.close(os.open(Path(os.environ["DURABLE_TEST_FOLDER"]) / f"died-{place}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
