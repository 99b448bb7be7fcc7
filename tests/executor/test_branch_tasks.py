"""Branches of ``async def`` workflows as tasks: interrupted at any moment, they all come to their ends and tell so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext

from django_durable.core import clock
from django_durable.core.async_context import AsyncContext
from django_durable.core.flow.branches import Branch, Branches
from django_durable.core.flow.flow import Flow
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Lost, Paused, Released
from django_durable.core.journal.states import EntryStatus
from django_durable.core.kinds.loops import Break
from django_durable.core.unwinding import Unwind
from django_durable.exceptions import ContextMisuse, StepNameReused

from .in_memory import MemoryCommit, arun, new_flow

PATIENCE = 20


def work(body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What ``body()`` returns on a loop of its own; a hang is a failure and not a hanging test run."""

    async def bounded() -> Any:
        return await asyncio.wait_for(body(), PATIENCE)

    found: list[Any] = []

    def serve() -> None:
        try:
            found.append(asyncio.run(bounded()))
        except BaseException as error:
            found.append(error)

    # A loop that spins cannot be stopped from inside: the test then fails, and leaves its thread behind.
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    thread.join(PATIENCE + 5)
    assert not thread.is_alive(), "the event loop is blocked"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


async def one() -> int:
    return 1


# --- interrupted before it began -------------------------------------------------------------


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
        asyncio.get_running_loop().call_later(0.05, go.set)
        await ctx.step("never", one)

    async def main() -> None:
        with pytest.raises(Unwind):
            await arun(lambda ctx: getattr(ctx, kind)("at", {"slow": branch, "other": other}), commit, flow)

    flow.run = replace(flow.run, lease_margin=60.0)
    work(main)
    assert isinstance(flow.outcome, outcome)
    done = {path for path, entry in commit.entries.items() if entry.status == EntryStatus.SUCCEEDED}
    assert ("at/slow/inside/only/slow" if is_nested else "at/slow/slow") in done if is_done else not done


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


# --- interrupted at work ---------------------------------------------------------------------


def racing(loser: Any, began: asyncio.Event) -> Any:
    async def winner(ctx: AsyncContext) -> str:
        await asyncio.wait_for(began.wait(), PATIENCE)
        return "won"

    async def body(ctx: AsyncContext) -> Any:
        return await ctx.race("any", {"loser": loser, "winner": winner})

    return body


def test_a_loser_in_the_middle_of_a_commit_loses_nothing_of_it() -> None:
    """Its step is done: interrupting the commit would lose a result that has to be undone."""
    commit, after = MemoryCommit(), []

    async def main() -> Any:
        began, hold = asyncio.Event(), asyncio.Event()

        async def slow(lease: Any, write: Write) -> Any:
            if "any/loser/s" in write.entries:
                began.set()
                done = asyncio.ensure_future(hold.wait())
                while not done.done():
                    try:
                        await asyncio.shield(done)
                    except asyncio.CancelledError:
                        after.append("cancelled")
                commit.write(lease, write)
                assert after, "it was not interrupted"
                raise asyncio.CancelledError
            if "any" in write.entries and write.entries["any"].status == EntryStatus.SUCCEEDED:
                hold.set()
            return commit.write(lease, write)

        commit.awrite = slow  # type: ignore[method-assign]

        async def loser(ctx: AsyncContext) -> None:
            try:
                await ctx.step("s", one)
            finally:
                after.append("left")
            after.append("never")

        return await arun(racing(loser, began), commit)

    assert work(main) == ("winner", "won")
    assert after[-1] == "left" and "cancelled" in after and "never" not in after
    assert commit.entries["any/loser/s"].status == EntryStatus.SUCCEEDED


@pytest.mark.parametrize("scope", ["plain", "block", "loop", "join"])
def test_a_loser_that_swallows_the_interruption_comes_no_further_than_its_next_call(scope: str) -> None:
    commit, trace = MemoryCommit(), []

    async def main() -> Any:
        began = asyncio.Event()

        async def stubborn(ctx: AsyncContext, state: Any = None) -> Any:
            try:
                began.set()
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError as error:
                trace.append(type(error).__name__)
            try:
                await ctx.step("next", one)
            except BaseException as error:
                trace.append(type(error).__name__)
                raise

        async def loser(ctx: AsyncContext) -> Any:
            match scope:
                case "block":
                    await ctx.try_block("in", stubborn)
                case "loop":
                    await ctx.loop("in", stubborn)
                case "join":
                    await ctx.join("in", {"a": stubborn})
                case _:
                    await stubborn(ctx)
            trace.append("never")

        return await arun(racing(loser, began), commit)

    assert work(main) == ("winner", "won")
    assert trace == ["CancelledError", "Unwind"]
    assert not any(path.endswith("/next") for path in commit.entries)


@pytest.mark.parametrize("scope", ["block", "loop", "join"])
def test_a_loser_within_a_scope_of_its_own_finishes_its_step_and_sees_an_interruption_and_no_misuse(scope: str) -> None:
    commit, trace = MemoryCommit(), []

    async def main() -> Any:
        began, go = asyncio.Event(), asyncio.Event()

        async def hold() -> str:
            began.set()
            await go.wait()
            return "held"

        async def inside(ctx: AsyncContext, state: Any = None) -> Any:
            try:
                await ctx.step("hold", hold)
                await asyncio.sleep(PATIENCE)
            except BaseException as error:
                trace.append(type(error).__name__)
                raise

        async def loser(ctx: AsyncContext) -> Any:
            match scope:
                case "block":
                    await ctx.try_block("in", inside)
                case "loop":
                    await ctx.loop("in", inside)
                case _:
                    await ctx.join("in", {"a": inside})
            trace.append("never")

        async def body(ctx: AsyncContext) -> Any:
            won = await racing(loser, began)(ctx)
            asyncio.get_running_loop().call_later(0.01, go.set)
            return won

        return await arun(body, commit)

    assert work(main) == ("winner", "won")
    assert trace == ["CancelledError"]
    held = [entry.status for path, entry in commit.entries.items() if path.endswith("/hold")]
    assert held == [EntryStatus.SUCCEEDED]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("is_over", [False, True])
def test_a_worker_in_a_hurry_interrupts_the_step_of_a_loser_too(nested: bool, is_over: bool) -> None:
    """Also where the function is over, and only the loser is waited for."""
    commit, trace = MemoryCommit(), []

    async def main() -> None:
        began = asyncio.Event()

        async def hold() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                trace.append("interrupted")

        async def holding(ctx: AsyncContext) -> None:
            await ctx.step("hold", hold)

        async def loser(ctx: AsyncContext) -> None:
            await (ctx.join("in", {"a": holding}) if nested else holding(ctx))

        async def body(ctx: AsyncContext) -> None:
            await racing(loser, began)(ctx)
            if not is_over:
                await asyncio.Event().wait()

        run = asyncio.create_task(arun(body, commit))
        while "any" not in commit.entries or commit.entries["any"].status != EntryStatus.SUCCEEDED:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        trace.append("cancelled")
        run.cancel()
        done, _ = await asyncio.wait([run], timeout=2)
        trace.append("over" if done else "goes on")

    work(main)
    assert trace == ["cancelled", "interrupted", "over"]


def test_a_loser_whose_plain_step_is_in_a_thread_is_interrupted_when_that_is_over() -> None:
    commit, trace = MemoryCommit(), []

    async def main() -> Any:
        began, loop, go = asyncio.Event(), asyncio.get_running_loop(), threading.Event()

        def in_thread() -> str:
            loop.call_soon_threadsafe(began.set)
            assert go.wait(PATIENCE)
            return "done"

        async def loser(ctx: AsyncContext) -> None:
            await ctx.step("s", in_thread)
            trace.append("went on")
            await asyncio.sleep(PATIENCE)

        async def body(ctx: AsyncContext) -> Any:
            won = await racing(loser, began)(ctx)
            go.set()
            return won

        return await arun(body, commit)

    assert work(main) == ("winner", "won")
    assert commit.entries["any/loser/s"].status == EntryStatus.SUCCEEDED
    assert trace == []


# --- misuse ----------------------------------------------------------------------------------


def test_a_time_out_of_asyncio_s_around_a_join_fails_the_run_and_leaves_no_branch_running() -> None:
    flow: Flow = new_flow(MemoryCommit())
    trace: list[str] = []

    async def branch(ctx: AsyncContext) -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            trace.append("left")

    async def body(ctx: AsyncContext) -> None:
        async with asyncio.timeout(0.05):
            await ctx.join("at", {"a": branch, "b": branch})

    async def main() -> None:
        with pytest.raises((ContextMisuse, TimeoutError)):
            await arun(body, None, flow)

    work(main)
    assert flow.misuse is not None and "'at' was cancelled while it was under way" in str(flow.misuse)
    assert trace == ["left", "left"]


@pytest.mark.parametrize("scope", ["join", "race", "loop", "block"])
def test_the_ctx_of_a_function_around_is_refused_with_what_to_use_instead(scope: str) -> None:
    async def body(outer: AsyncContext) -> Any:
        async def inner(ctx: AsyncContext, state: Any = None) -> Any:
            return Break(await outer.step("mine", one))

        match scope:
            case "join":
                await outer.join("at", {"a": inner})
            case "race":
                await outer.race("at", {"a": inner})
            case "loop":
                await outer.loop("at", inner)
            case _:
                await outer.try_block("at", inner)

    async def main() -> None:
        with pytest.raises(ContextMisuse, match="Use the ctx that the branch's, turn's or block's own function"):
            await arun(body)

    work(main)


def test_a_plain_function_may_be_a_branch_where_it_only_hands_on_a_call() -> None:
    def plain(ctx: AsyncContext) -> Any:
        return ctx.step("s", one)

    async def body(ctx: AsyncContext) -> Any:
        return await ctx.join("at", {"a": plain, "b": lambda ctx: 2})

    assert work(lambda: arun(body)) == {"a": 1, "b": 2}


def test_branches_of_branches_are_tasks_too() -> None:
    def nested(depth: int) -> Any:
        async def body(ctx: AsyncContext) -> int:
            if depth == 0:
                return await ctx.step("leaf", one)
            return sum((await ctx.join("down", {name: nested(depth - 1) for name in "ab"})).values())

        return body

    assert work(lambda: arun(nested(6))) == 64


@pytest.mark.behaviour("FLOW-02c")
@pytest.mark.parametrize("nested", [False, True])
def test_a_plain_step_that_waits_for_the_run_s_thread_is_not_begun_by_a_branch_that_has_lost(nested: bool) -> None:
    commit, order = MemoryCommit(), []
    go = threading.Event()

    def branch(name: str, wait: bool = False) -> Any:
        def step() -> str:
            order.append(name)
            assert not wait or go.wait(PATIENCE)
            return name

        async def body(ctx: AsyncContext) -> str:
            return await ctx.step("do", step, compensate=lambda value: order.append(f"-{value}"))

        async def within(ctx: AsyncContext) -> Any:
            return await ctx.try_block("in", body)

        return within if nested else body

    async def winner(ctx: AsyncContext) -> int:
        while not order:
            await asyncio.sleep(0)
        return 1

    async def body(ctx: AsyncContext) -> None:
        # The first has the thread, the others stand behind it in its queue.
        losers = {"a": branch("a", wait=True), "b": branch("b"), "c": branch("c")}
        await ctx.race("any", {**losers, "winner": winner})
        order.append("on")
        go.set()

    async def attempt() -> None:
        async with ThreadSensitiveContext():
            await arun(body, commit)

    work(attempt)
    assert order == ["a", "on"]
    done = [path for path, entry in commit.entries.items() if entry.kind == "step"]
    assert done == ["any/a/in/do" if nested else "any/a/do"], "what was under way is journaled, to be undone"


def test_a_plain_step_that_waits_for_the_run_s_thread_is_not_begun_where_the_run_ends() -> None:
    order: list[str] = []
    queued: list[Any] = []
    go = threading.Event()

    def step(name: str) -> str:
        order.append(name)
        assert go.wait(PATIENCE)
        return name

    async def first(ctx: AsyncContext) -> None:
        await ctx.step("s", step, "first")

    async def second(ctx: AsyncContext) -> None:
        queued.append(asyncio.current_task())
        await ctx.step("s", step, "second")

    async def misusing(ctx: AsyncContext) -> None:
        while not (order and queued):
            await asyncio.sleep(0)
        await ctx.step("s", one)
        await ctx.step("s", one)

    async def free() -> None:
        while not (queued and queued[0].cancelling()):
            await asyncio.sleep(0)
        go.set()

    async def attempt() -> None:
        async with ThreadSensitiveContext():
            freeing = asyncio.create_task(free())
            with pytest.raises(StepNameReused):
                await arun(lambda ctx: ctx.join("all", {"a": first, "b": second, "c": misusing}))
            await freeing

    work(attempt)
    assert order == ["first"]


# --- how many at a time ----------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "at_a_time"), [(None, 16), (3, 3), (100, 40)])
def test_so_many_items_of_a_map_are_under_way_at_a_time(limit: int | None, at_a_time: int) -> None:
    """Nobody leaves before so many have come in, and the loop has gone round often enough for one more."""
    inside: set[int] = set()
    most = 0

    async def enter(item: int) -> int:
        nonlocal most
        inside.add(item)
        most = max(most, len(inside))
        if most >= at_a_time:
            is_full.set()
        await is_full.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        inside.remove(item)
        return item

    is_full = asyncio.Event()
    found = work(lambda: arun(lambda ctx: ctx.map("m", enter, range(40), max_parallel=limit)))
    assert (found, most) == ([*range(40)], at_a_time)
