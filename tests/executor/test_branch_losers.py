"""Branches of ``async def`` workflows that lose at work: whatever they are in the midst of ends, and is told."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from django_durable.core.async_context import AsyncContext
from django_durable.core.journal.journal import Write
from django_durable.core.journal.states import EntryStatus

from .in_memory import MemoryCommit, arun
from .on_a_loop import PATIENCE, one, work


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
        done, _ = await asyncio.wait([run], timeout=PATIENCE / 2)
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
