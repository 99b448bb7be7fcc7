"""Branches of ``async def`` workflows in a worker that is about to end: none is waited for in vain, none cut short.

Found by chaos: seed 18, and round 20 of the hour of seed 20261122.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from django_durable.core import clock
from django_durable.core.async_context import AsyncContext
from django_durable.core.flow.branches import Branch, Branches
from django_durable.core.journal.outcomes import Lost, Paused, Released
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.kinds.loops import Break
from django_durable.core.retries import Retry
from django_durable.core.unwinding import Unwind

from .in_memory import MemoryCommit, arun, new_flow
from .on_a_loop import PATIENCE, after_turns, one, work


@pytest.mark.parametrize("trigger", range(12))
@pytest.mark.parametrize("pace", [2, 3, 5])
def test_a_run_that_is_drained_does_not_wait_for_a_branch_whose_task_had_no_turn(trigger: int, pace: int) -> None:
    """Two branches end in one turn of the loop: for the first a third one is spawned, and the second ends the run."""
    commit = MemoryCommit()
    flow = new_flow(commit)

    async def item(n: int) -> int:
        for _ in range(n % pace):
            await asyncio.sleep(0)
        if n == trigger:
            flow.lease.release_requested = True
        return n

    def branch(n: int) -> Any:
        async def body(ctx: AsyncContext) -> None:
            await ctx.step("one", item, n)
            for _ in range(n % 2):
                await ctx.step("two", one)

        return body

    async def body(ctx: AsyncContext) -> Any:
        branches = [Branch(n, f"all/{n}", branch(n)) for n in range(40)]
        group = Branches(flow, branches, "join:all", 4)

        def decide() -> Any:
            while (yield from group.next()) is not None:
                pass

        await ctx._drive(decide())

    async def main() -> None:
        with pytest.raises(Unwind):
            await arun(body, commit, flow)

    work(main)
    assert isinstance(flow.outcome, Released)


@pytest.mark.parametrize("is_nested", [False, True], ids=["beside", "nested"])
@pytest.mark.parametrize("kind", ["join", "race"])
@pytest.mark.parametrize("word", ["release_requested", "pause_requested"])
def test_a_drain_does_not_wait_for_code_between_steps(word: str, kind: str, is_nested: bool) -> None:
    """It may wait for what another branch does not do any more."""
    flow = new_flow(commit := MemoryCommit())
    waits = asyncio.Event()

    async def inner(ctx: AsyncContext) -> Any:
        await ctx.step("first", one)
        waits.set()
        await asyncio.Event().wait()

    async def branch(ctx: AsyncContext) -> Any:
        return await ctx.race("inside", {"only": inner}) if is_nested else await inner(ctx)

    async def other(ctx: AsyncContext) -> None:
        await waits.wait()
        setattr(flow.lease, word, True)
        await ctx.step("never", one)

    async def main() -> None:
        with pytest.raises(Unwind):
            await arun(lambda ctx: getattr(ctx, kind)("at", {"waits": branch, "other": other}), commit, flow)

    work(main)
    done = {path for path, entry in commit.entries.items() if entry.status == EntryStatus.SUCCEEDED}
    assert done == {"at/waits/inside/only/first" if is_nested else "at/waits/first"}


@pytest.mark.parametrize("is_nested", [False, True], ids=["beside", "nested"])
@pytest.mark.parametrize("kind", ["join", "race"])
@pytest.mark.parametrize(
    ("ask", "outcome", "is_done"),
    [
        (lambda flow: setattr(flow.lease, "release_requested", True), Released, True),
        (lambda flow: setattr(flow.lease, "pause_requested", True), Paused, True),
        (lambda flow: setattr(flow.lease, "ends", clock.monotonic() + 30), Released, False),
        (lambda flow: flow.lease.lose(), Lost, False),
    ],
    ids=["drained", "paused", "lease is ending", "lost"],
)
def test_a_drain_lets_the_steps_of_other_branches_come_to_their_ends(
    ask: Any, outcome: type, is_done: bool, kind: str, is_nested: bool
) -> None:
    commit = MemoryCommit()
    flow = new_flow(commit)
    began, go = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        began.set()
        await go.wait()
        return "done"

    async def inner(ctx: AsyncContext) -> Any:
        return await ctx.step("slow", slow)

    async def branch(ctx: AsyncContext) -> Any:
        return await ctx.race("inside", {"only": inner}) if is_nested else await inner(ctx)

    async def other(ctx: AsyncContext) -> None:
        await began.wait()
        ask(flow)
        # After whatever the end of this branch does to the other one.
        after_turns(go.set)
        await ctx.step("never", one)

    async def main() -> None:
        with pytest.raises(Unwind):
            await arun(lambda ctx: getattr(ctx, kind)("at", {"slow": branch, "other": other}), commit, flow)

    flow.run = replace(flow.run, lease_margin=60.0)
    work(main)
    assert isinstance(flow.outcome, outcome)
    done = {path for path, entry in commit.entries.items() if entry.status == EntryStatus.SUCCEEDED}
    assert ("at/slow/inside/only/slow" if is_nested else "at/slow/slow") in done if is_done else not done


PATIENT = Retry(max_attempts=3, initial=60)


@pytest.mark.parametrize("around", ["join", "race", "try_block", "loop"])
@pytest.mark.parametrize("kind", ["join", "race"])
@pytest.mark.parametrize("word", ["release_requested", "pause_requested"])
def test_an_attempt_that_fails_when_a_drain_ends_the_lines_around_it_is_journaled(
    word: str, kind: str, around: str
) -> None:
    """Else the step would be tried as if it had not been: once more than it may."""
    flow = new_flow(commit := MemoryCommit())
    began, go = asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        began.set()
        await go.wait()
        raise ValueError("not yet")

    async def inner(ctx: AsyncContext, *_: Any) -> None:
        await ctx.step("slow", fail, retry=PATIENT)

    async def branch(ctx: AsyncContext) -> Any:
        return await within(around, ctx, inner)

    async def other(ctx: AsyncContext) -> None:
        await began.wait()
        setattr(flow.lease, word, True)
        after_turns(go.set)
        await ctx.step("never", one)

    async def main() -> None:
        with pytest.raises(Unwind):
            await arun(lambda ctx: getattr(ctx, kind)("at", {"slow": branch, "other": other}), commit, flow)

    work(main)
    assert tried(commit) == {"slow": (EntryStatus.RETRYING, 1)}


def test_what_branches_have_done_is_taken_over_in_the_order_of_their_beginnings() -> None:
    """However they end: the journal of a replay is the same."""
    flow = new_flow(commit := MemoryCommit())
    names = ["sixth", "first", "fifth", "second", "fourth", "third"]
    goes = {name: asyncio.Event() for name in names}
    began: list[str] = []

    async def fail(name: str) -> None:
        began.append(name)
        await goes[name].wait()
        raise ValueError("not yet")

    async def slow(ctx: AsyncContext, name: str) -> None:
        await ctx.step(name, fail, name, retry=PATIENT)

    async def other(ctx: AsyncContext) -> None:
        while len(began) < len(names):
            await asyncio.sleep(0)
        flow.lease.release_requested = True
        for place, name in enumerate(reversed(names)):
            asyncio.get_running_loop().call_later(0.01 * (place + 1), goes[name].set)
        await ctx.step("never", one)

    async def outer(ctx: AsyncContext) -> Any:
        branches = {name: partial(slow, name=name) for name in names}
        return await ctx.join("inside", branches)

    async def main() -> None:
        with pytest.raises(Unwind):
            await arun(lambda ctx: ctx.join("at", {"slow": outer, "other": other}), commit, flow)

    work(main)
    assert list(tried(commit)) == names


@pytest.mark.parametrize("around", ["nothing", "join", "race", "try_block", "loop"])
def test_an_attempt_that_fails_when_the_worker_has_cancelled_is_journaled(around: str) -> None:
    """A thread cannot be cancelled: the step that it works on comes to its end."""
    flow = new_flow(commit := MemoryCommit())
    began, go = threading.Event(), threading.Event()

    def fail() -> None:
        began.set()
        go.wait(PATIENCE)
        raise ValueError("not yet")

    async def inner(ctx: AsyncContext, *_: Any) -> None:
        await ctx.step("slow", fail, retry=PATIENT)

    async def main() -> None:
        task = asyncio.create_task(arun(lambda ctx: within(around, ctx, inner), commit, flow))
        while not began.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, go.set)
        with pytest.raises((asyncio.CancelledError, Unwind)):
            await task

    work(main)
    assert tried(commit) == {"slow": (EntryStatus.RETRYING, 1)}


@pytest.mark.parametrize("around", ["try_block", "loop", "join"])
def test_a_scope_whose_code_swallows_its_cancellation_has_not_come_to_its_end(around: str) -> None:
    flow = new_flow(commit := MemoryCommit())
    waits = asyncio.Event()

    async def inner(ctx: AsyncContext, *_: Any) -> Any:
        waits.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Break("done") if around == "loop" else "done"

    async def branch(ctx: AsyncContext) -> Any:
        return await ctx.join("outer", {"a": lambda ctx: within(around, ctx, inner)})

    async def other(ctx: AsyncContext) -> None:
        await waits.wait()
        flow.lease.release_requested = True
        await ctx.step("never", one)

    async def main() -> None:
        with pytest.raises(Unwind):
            await arun(lambda ctx: ctx.join("at", {"slow": branch, "other": other}), commit, flow)

    work(main)
    assert isinstance(flow.outcome, Released)
    assert [entry.path for entry in commit.entries.values() if entry.status == EntryStatus.SUCCEEDED] == []


async def within(around: str, ctx: AsyncContext, inner: Any) -> Any:
    """The code in a scope of that kind."""
    match around:
        case "join" | "race":
            return await getattr(ctx, around)("inside", {"only": inner})
        case "try_block":
            return await ctx.try_block("inside", inner)
        case "loop":
            return await ctx.loop("inside", inner, 0)
        case _:
            return await inner(ctx)


def tried(commit: MemoryCommit) -> dict[str, tuple[EntryStatus, int]]:
    """What is journaled of steps, by their names."""
    steps = (entry for entry in commit.entries.values() if entry.kind == Kind.STEP)
    return {entry.path.rpartition("/")[2]: (entry.status, entry.attempts) for entry in steps}


def test_a_worker_that_cancels_right_after_the_branches_were_spawned_gets_the_attempt_s_end() -> None:
    commit = MemoryCommit()
    begun: list[str] = []

    async def branch(ctx: AsyncContext) -> None:
        begun.append("branch")
        await ctx.step("s", one)

    async def main() -> None:
        async def body(ctx: AsyncContext) -> Any:
            asyncio.get_running_loop().call_soon(task.cancel)
            return await ctx.join("at", {"a": branch, "b": branch})

        task = asyncio.create_task(arun(body, commit))
        with pytest.raises(asyncio.CancelledError):
            await task

    work(main)
