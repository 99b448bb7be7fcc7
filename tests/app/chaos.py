"""Executes the random programs of `tests/chaos/programs.py`, in a `def` and in an `async def` workflow.

What came after 0.1.0 is here, the rest and how a program is told in `chaos_plain.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django_durable import AsyncContext, Break, Context, Continue
from django_durable import durable_workflow as workflow
from tests.app import chaos_plain
from tests.app.chaos_bodies import item, undo, work, work_async
from tests.app.chaos_plain import Asking, Inside, answer, answer_async, child, step
from tests.chaos.programs import LIMIT, NEVER, Node, Program, value_of


def execute(program: Program) -> Asking:
    return chaos_plain.execute(program, perform)


def perform(node: Node, name: str) -> Asking:
    match node:
        case ["undoable", _]:
            return (yield step(name, work, work_async, value_of(node), 0.0, compensate=undo))
        case ["child", inner, is_async]:
            return (yield child(name, interpret_async if is_async else interpret, inner))
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
    return (yield from chaos_plain.perform(node, name))


def of_each(inside: Inside, bodies: Mapping[str, Callable[[], Asking]]) -> dict[str, Callable[..., Any]]:
    return {name: inside(body) for name, body in bodies.items()}


def lose(program: Program) -> Asking:
    yield from execute(program)
    return (yield lambda ctx, inside: ctx.wait_for_event(NEVER))


def turn(program: Program, turns: int, number: int) -> Asking:
    done = yield from execute(program)
    return Break([done, turns]) if number == turns - 1 else Continue(number + 1)


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
