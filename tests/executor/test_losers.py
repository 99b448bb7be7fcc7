"""Branches that lost a race and are running still, wherever the race was: nobody waits for them before the attempt
ends, and what they still do is undone."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from django_durable.core.async_context import AsyncContext
from django_durable.core.context import Context
from django_durable.core.flow import scopes
from django_durable.core.flow.effects import Ended
from django_durable.core.flow.flow import Flow
from django_durable.core.journal.journal import MemoryJournal
from django_durable.core.journal.states import EntryStatus
from django_durable.core.kinds import checkpoints
from django_durable.core.kinds.compensation import settle_losers, undo_run
from django_durable.core.kinds.loops import Break, Continue
from django_durable.core.probing import Probe
from django_durable.executor.async_driver import AsyncDriver
from django_durable.executor.branch_ends import Ends
from django_durable.executor.branch_threads import BranchThreads
from django_durable.executor.interruption import Interruption
from django_durable.executor.replay_drivers import ReplayDriver
from django_durable.executor.sync_driver import SyncDriver

from .in_memory import MemoryCommit, new_flow

PATIENCE = 60


@pytest.fixture
def pool() -> Iterator[BranchThreads]:
    pool = BranchThreads(8)
    yield pool
    pool.close()


def attempt(body: Callable[[Context], Any], commit: MemoryCommit, pool: BranchThreads) -> Flow:
    """As an attempt does it: the function, then the losers, then whatever is left."""
    flow = new_flow(commit)
    drive = SyncDriver(flow, commit, pool)
    try:
        body(Context(flow, drive))
        drive(settle_losers(flow, body))
    finally:
        drive.finish()
        commit.write(flow.lease, flow.close())
    return flow


async def aattempt(body: Callable[[AsyncContext], Any], commit: MemoryCommit) -> None:
    flow = new_flow(commit)
    drive = AsyncDriver(flow, commit, Interruption())
    await drive.run(lambda: body(AsyncContext(flow, drive)))
    await drive.run(lambda: drive(settle_losers(flow, body)))
    commit.write(flow.lease, flow.close())


class Held:
    """A step of a loser: under way until ``go``, which is set when the run has come past the scope of the race."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.order: list[str] = []

    def step(self) -> str:
        self.began.set()
        assert self.go.wait(PATIENCE)
        self.order.append("held")
        return "held"

    def undo(self, value: str) -> None:
        self.order.append(f"-{value}")

    def loser(self, ctx: Context) -> None:
        ctx.step("held", self.step, compensate=self.undo)
        ctx.step("never", self.order.append, "never")

    def winner(self, ctx: Context) -> str:
        assert self.began.wait(PATIENCE)
        return "won"

    def racing(self, ctx: Context) -> Any:
        return ctx.race("any", {"loser": self.loser, "winner": self.winner})

    def pass_by(self) -> None:
        self.order.append("on")
        self.go.set()


SCOPES: dict[str, tuple[str, Callable[[Context, Any], Any]]] = {
    "turn": ("at[0]/", lambda ctx, body: ctx.loop("at", lambda ctx, n: Break(body(ctx)), history=0)),
    "block": ("at/", lambda ctx, body: ctx.try_block("at", body)),
    "branch": ("at/a/", lambda ctx, body: ctx.join("at", {"a": body, "b": lambda ctx: 1})),
    "winner": ("at/a/", lambda ctx, body: ctx.race("at", {"a": body, "b": lambda ctx: ctx.wait_for_event("never")})),
    "deep": ("at[0]/in/a/", lambda ctx, body: ctx.loop("at", lambda ctx, n: Break(ctx.join("in", {"a": body})))),
}


@pytest.mark.behaviour("FLOW-02d", "FLOW-02g")
@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_goes_on_while_the_loser_of_its_race_runs_and_what_that_does_is_undone(
    pool: BranchThreads, scope: str
) -> None:
    held, commit = Held(), MemoryCommit()
    path, call = SCOPES[scope]

    def body(ctx: Context) -> None:
        call(ctx, held.racing)
        ctx.step("on", held.pass_by)

    flow = attempt(body, commit, pool)
    assert held.order == ["on", "held", "-held"]
    assert commit.entries[f"{path}any/loser/held"].status == EntryStatus.SUCCEEDED
    assert commit.entries[f"{path}any/loser/held%undo"].status == EntryStatus.SUCCEEDED
    assert not flow.losers


@pytest.mark.parametrize("scope", SCOPES)
def test_a_run_that_fails_meanwhile_waits_for_the_loser_and_undoes_it_with_all_the_rest(
    pool: BranchThreads, scope: str
) -> None:
    held, commit = Held(), MemoryCommit()

    def body(ctx: Context) -> None:
        SCOPES[scope][1](ctx, held.racing)
        held.pass_by()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        attempt(body, commit, pool)
    assert held.order == ["on", "held"]
    flow = new_flow(commit)
    assert SyncDriver(flow, commit, pool)(undo_run(flow, body)) == {}
    assert held.order[-1] == "-held"


def test_a_loser_within_a_loser_is_waited_for_by_the_function_s_own_line(pool: BranchThreads) -> None:
    held, commit = Held(), MemoryCommit()

    def outer(ctx: Context) -> None:
        held.racing(ctx)
        ctx.wait_for_event("never")

    def body(ctx: Context) -> None:
        ctx.try_block("in", lambda ctx: ctx.race("out", {"outer": outer, "quick": held.winner}))
        ctx.step("on", held.pass_by)

    attempt(body, commit, pool)
    assert held.order == ["on", "held", "-held"]
    assert not any(entry.is_wait for entry in commit.entries.values())


def test_a_loser_that_waits_leaves_the_loser_of_its_own_race_to_the_line_around(pool: BranchThreads) -> None:
    held, commit = Held(), MemoryCommit()
    parked = threading.Event()
    commit.hook = lambda write: "any/outer/never" in write.entries and parked.set()

    def outer(ctx: Context) -> None:
        held.racing(ctx)
        ctx.wait_for_event("never")

    def quick(ctx: Context) -> None:
        assert parked.wait(PATIENCE)

    def body(ctx: Context) -> None:
        ctx.race("any", {"outer": outer, "quick": quick})
        ctx.step("on", held.pass_by)

    attempt(body, commit, pool)
    assert held.order == ["on", "held", "-held"]


def test_a_wait_that_a_loser_had_not_written_yet_is_closed_all_the_same(pool: BranchThreads) -> None:
    held, commit = Held(), MemoryCommit()

    def loser(ctx: Context) -> None:
        try:
            ctx.wait_for_event("never")
        finally:
            held.step()

    def body(ctx: Context) -> None:
        ctx.race("any", {"loser": loser, "winner": held.winner})
        ctx.step("on", held.pass_by)

    attempt(body, commit, pool)
    assert commit.entries["any/loser/never"].status == EntryStatus.ABANDONED


@pytest.mark.behaviour("FLOW-02d", "FLOW-06k")
@pytest.mark.parametrize("around", ["block", "branch", "turn", "function"])
def test_a_checkpoint_forgets_no_turn_in_which_a_loser_runs_whatever_scope_it_lies_in(
    pool: BranchThreads, around: str
) -> None:
    held, commit = Held(), MemoryCommit()

    def turn(ctx: Context, n: int) -> Any:
        ctx.step("done", lambda: "done", compensate=held.undo)
        held.racing(ctx)
        return Break(n)

    def mark(ctx: Context) -> Any:
        return ctx.rollback_checkpoint("sold")

    def body(ctx: Context) -> None:
        ctx.loop("rows", turn, 0, history=0)
        mark(ctx) if around == "function" else SCOPES[around][1](ctx, mark)
        ctx.step("on", held.pass_by)

    attempt(body, commit, pool)
    assert held.order == ["on", "held", "-held"]
    assert commit.entries["rows[0]/any"].status == EntryStatus.SUCCEEDED


@pytest.mark.behaviour("FLOW-06m")
def test_a_race_that_is_decided_while_a_loser_comes_to_its_checkpoint_is_not_bound_by_that(
    pool: BranchThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, commit = Held(), MemoryCommit()
    look = checkpoints.branch_at_stake

    def looking(path: str, find: Any) -> str:
        if path == "any/loser/sold":
            held.began.set()
            while flow.journal.find("any").status == EntryStatus.OPEN:  # type: ignore[union-attr]
                threading.Event().wait(0.001)
        return look(path, find)

    def body(ctx: Context) -> None:
        ctx.step("first", lambda: "first", compensate=held.undo)
        ctx.race("any", {"loser": lambda ctx: ctx.rollback_checkpoint("sold"), "winner": held.winner})

    monkeypatch.setattr(checkpoints, "branch_at_stake", looking)
    flow = new_flow(commit)
    drive = SyncDriver(flow, commit, pool)
    body(Context(flow, drive))
    drive.finish()
    commit.write(flow.lease, flow.close())
    assert commit.entries["first"].undo and "any/loser/sold" not in commit.entries


class Turns:
    """Turns with a race each, whose losers end some turns later."""

    def __init__(self, pool: BranchThreads, *, compensate: bool, last: int = 12, late: int = 3) -> None:
        self.pool, self.last, self.late = pool, last, late
        self.undo = (lambda value: None) if compensate else None
        self.helds = [Held() for _ in range(last + 1)]
        self.told = [threading.Event() for _ in self.helds]
        """Set once the line can know that the turn's loser has ended."""
        self.commit = MemoryCommit()
        self.losers: list[int] = []
        self.journaled: list[set[int]] = []

    def turn(self, ctx: Context, n: int) -> Any:
        held = self.helds[n]

        def loser(ctx: Context) -> None:
            ctx.step("held", held.step, compensate=self.undo)

        ctx.race("any", {"loser": loser, "winner": held.winner})
        if n >= self.late:
            self.helds[n - self.late].go.set()
            # A thread ends when it is let, and until then takes a place in the pool.
            assert self.told[n - self.late].wait(PATIENCE)
        self.losers.append(len(self.flow.losers))
        paths = [path for path in self.commit.entries if path.startswith("long[")]
        self.journaled.append({int(path[5 : path.index("]")]) for path in paths})
        return Break(n) if n == self.last else Continue(n + 1)

    def body(self, ctx: Context) -> None:
        ctx.loop("long", self.turn, 0, history=1)

    def submit(self, work: Callable[[], Any], tell: Callable[[Any], None]) -> bool:
        """As the pool does, for the line."""

        def tell_of(ended: Ended) -> None:
            tell(ended)
            if found := re.fullmatch(r"long\[(\d+)\]/any/loser/", ended.branch.scope):
                self.told[int(found[1])].set()

        return self.pool.submit(work, tell_of)

    def run(self) -> None:
        self.flow = new_flow(self.commit)
        drive = SyncDriver(self.flow, self.commit, self)
        self.body(Context(self.flow, drive))
        for held in self.helds:
            held.go.set()
        drive(settle_losers(self.flow, self.body))
        drive.finish()


def test_turns_stay_in_the_journal_while_their_losers_run_and_no_longer(pool: BranchThreads) -> None:
    turns = Turns(pool, compensate=False, last=24)
    turns.run()
    # Those that may not end yet, and the one that has just ended.
    assert max(turns.losers) == turns.late + 1
    assert all(n - turns.late + 1 in there for n, there in enumerate(turns.journaled) if n >= turns.late)
    assert max(map(len, turns.journaled)) <= turns.late + 2
    assert not turns.flow.losers


def test_a_line_with_too_many_losers_waits_for_one_of_them(
    pool: BranchThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "LOSERS_MAX", 2)
    turns = Turns(pool, compensate=False, late=99)
    take, helds = Ends.take, iter(turns.helds)

    def let_one_end(ends: Ends, branches: Collection[Flow], seconds: float | None) -> Ended | None:
        if seconds is None and all(branch.is_stopped for branch in branches):
            next(helds).go.set()
        return take(ends, branches, seconds)

    # None ends before the line waits.
    monkeypatch.setattr(Ends, "take", let_one_end)
    turns.run()
    # Two behind it, and the one of the turn that it is in.
    assert max(turns.losers) == 3


def test_a_late_result_that_has_to_be_undone_is_never_pruned(pool: BranchThreads) -> None:
    turns = Turns(pool, compensate=True)
    turns.run()
    for n in range(turns.last + 1):
        assert turns.commit.entries[f"long[{n}]/any/loser/held%undo"].status == EntryStatus.SUCCEEDED


def test_a_replay_that_only_looks_comes_past_a_race_in_a_scope() -> None:
    flow = new_flow(MemoryCommit())
    probe = Probe(flow.run, MemoryJournal(), flow.lease)
    bodies = {"quick": lambda ctx: 1, "slow": lambda ctx: ctx.wait_for_event("never")}
    outcome = Context(probe, ReplayDriver(probe)).try_block("in", lambda ctx: ctx.race("any", bodies)[0])
    assert outcome.value == "quick"


# --- tasks -----------------------------------------------------------------------------------


ASYNC_SCOPES: dict[str, Callable[[AsyncContext, Any], Any]] = {
    "turn": lambda ctx, body: ctx.loop("at", lambda ctx, n: _breaking(body(ctx)), history=0),
    "block": lambda ctx, body: ctx.try_block("at", body),
    "branch": lambda ctx, body: ctx.join("at", {"a": body, "b": lambda ctx: 1}),
    "winner": lambda ctx, body: ctx.race("at", {"a": body, "b": lambda ctx: ctx.wait_for_event("never")}),
    "deep": lambda ctx, body: ctx.loop("at", lambda ctx, n: _breaking(ctx.join("in", {"a": body}))),
}


async def _breaking(call: Any) -> Break:
    return Break(await call)


@pytest.mark.behaviour("FLOW-02d", "FLOW-02g")
@pytest.mark.parametrize("scope", ASYNC_SCOPES)
def test_a_scope_of_an_async_workflow_goes_on_while_a_thread_works_for_the_loser(scope: str) -> None:
    held, commit = Held(), MemoryCommit()
    path = SCOPES[scope][0]

    async def body(ctx: AsyncContext) -> None:
        began, loop = asyncio.Event(), asyncio.get_running_loop()

        def step() -> str:
            loop.call_soon_threadsafe(began.set)
            return held.step()

        async def loser(ctx: AsyncContext) -> None:
            await ctx.step("held", step, compensate=held.undo)
            await ctx.step("never", held.order.append, "never")

        async def winner(ctx: AsyncContext) -> str:
            await asyncio.wait_for(began.wait(), PATIENCE)
            return "won"

        async def racing(ctx: AsyncContext) -> Any:
            return await ctx.race("any", {"loser": loser, "winner": winner})

        async def on() -> None:
            held.pass_by()

        await ASYNC_SCOPES[scope](ctx, racing)
        await ctx.step("on", on)

    asyncio.run(asyncio.wait_for(aattempt(body, commit), PATIENCE))
    assert held.order == ["on", "held", "-held"]
    assert commit.entries[f"{path}any/loser/held"].status == EntryStatus.SUCCEEDED


@pytest.mark.behaviour("FLOW-02d", "FLOW-02g")
@pytest.mark.parametrize("scope", ["plain", *ASYNC_SCOPES])
def test_a_coroutine_step_that_is_under_way_in_a_loser_comes_to_its_end_and_is_undone(scope: str) -> None:
    order: list[str] = []
    commit = MemoryCommit()

    async def body(ctx: AsyncContext) -> None:
        began, go = asyncio.Event(), asyncio.Event()

        async def pay() -> str:
            began.set()
            order.append("paid")
            await go.wait()
            return "paid"

        async def loser(ctx: AsyncContext) -> None:
            await ctx.step("pay", pay, compensate=lambda value: order.append(f"-{value}"))
            await ctx.step("never", order.append, "never")

        async def winner(ctx: AsyncContext) -> None:
            await began.wait()

        async def racing(ctx: AsyncContext) -> Any:
            return await ctx.race("any", {"loser": loser, "winner": winner})

        async def on() -> None:
            order.append("on")
            go.set()

        await (ASYNC_SCOPES[scope](ctx, racing) if scope != "plain" else racing(ctx))
        await ctx.step("on", on)

    asyncio.run(asyncio.wait_for(aattempt(body, commit), PATIENCE))
    assert order == ["paid", "on", "-paid"]


def test_a_call_that_was_left_under_way_leaves_no_branch_behind() -> None:
    trace: list[str] = []

    async def branch(ctx: AsyncContext) -> None:
        try:
            trace.append("began")
            await asyncio.Event().wait()
        finally:
            trace.append("ended")

    async def body(ctx: AsyncContext) -> None:
        left.append(asyncio.create_task(ctx.join("at", {"a": branch})))
        while not trace:
            await asyncio.sleep(0)

    async def main() -> list[str]:
        flow = new_flow(MemoryCommit())
        drive = AsyncDriver(flow, MemoryCommit(), Interruption())
        with pytest.raises(BaseException, match="was under way"):
            await drive.run(lambda: body(AsyncContext(flow, drive)))
        return list(trace)

    left: list[Any] = []
    assert asyncio.run(asyncio.wait_for(main(), PATIENCE)) == ["began", "ended"]
