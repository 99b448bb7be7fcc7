"""The run's deadline passes while branches run: what is under way comes to its end, nothing else begins."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from django_durable.core.async_context import AsyncContext
from django_durable.core.context import Context
from django_durable.core.flow.flow import Flow
from django_durable.core.journal.outcomes import Failed
from django_durable.core.journal.states import EntryStatus
from django_durable.core.unwinding import Unwind
from django_durable.executor.branch_threads import BranchThreads
from tests.core.driving import NOON

from .in_memory import MemoryCommit, arun, new_flow, run

PATIENCE = 60


class Late:
    """Both branches are under way when the deadline passes, and the step of ``b`` ends after all of ``a`` has."""

    def __init__(self) -> None:
        self.now = NOON
        self.commit = MemoryCommit()
        self.flow: Flow = new_flow(self.commit, NOON + timedelta(minutes=1), lambda: self.now)
        self.acted: list[str] = []

    def pass_deadline(self) -> None:
        self.now += timedelta(minutes=2)

    def check(self) -> None:
        outcome = self.flow.outcome
        assert isinstance(outcome, Failed) and outcome.error["type"] == "django_durable.exceptions.RunTimeout"
        assert self.acted == ["a", "b"]
        done = {path for path, entry in self.commit.entries.items() if entry.status == EntryStatus.SUCCEEDED}
        assert done == {"both/a/hold", "both/b/hold"}
        assert self.commit.entries["both"].status == EntryStatus.OPEN


def test_branches_in_threads_stop_before_their_next_step() -> None:
    late, begun, a_is_over = Late(), threading.Barrier(2), threading.Event()

    def hold(name: str) -> None:
        begun.wait(PATIENCE)
        if name == "a":
            late.pass_deadline()
        else:
            assert a_is_over.wait(PATIENCE)
        late.acted.append(name)

    def branch(name: str) -> Any:
        def body(ctx: Context) -> None:
            try:
                ctx.step("hold", hold, name)
                ctx.step("more", late.acted.append, "never")
            finally:
                a_is_over.set()

        return body

    pool = BranchThreads(4)
    with pytest.raises(Unwind):
        run(lambda ctx: ctx.join("both", {name: branch(name) for name in "ab"}), late.commit, pool, late.flow)
    pool.close()
    late.check()


def test_branches_in_tasks_stop_before_their_next_step() -> None:
    """A coroutine that is under way can be cancelled, and is: but not the one whose step runs in a thread."""
    late, begun, a_is_over = Late(), threading.Event(), threading.Event()

    async def pass_by() -> None:
        while not begun.is_set():
            await asyncio.sleep(0)
        late.pass_deadline()
        late.acted.append("a")

    def hold() -> None:
        begun.set()
        assert a_is_over.wait(PATIENCE)
        late.acted.append("b")

    async def a(ctx: AsyncContext) -> None:
        try:
            await ctx.step("hold", pass_by)
            await ctx.step("more", late.acted.append, "never")
        finally:
            a_is_over.set()

    async def b(ctx: AsyncContext) -> None:
        await ctx.step("hold", hold)
        await ctx.step("more", late.acted.append, "never")

    async def main() -> None:
        with pytest.raises(Unwind):
            await arun(lambda ctx: ctx.join("both", {"a": a, "b": b}), late.commit, late.flow)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    late.check()
