"""Branches of ``def`` workflows in threads: where they run, that they all come to rest, and who may use which ctx."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.journal import Write
from django_durable.core.journal.log import Log
from django_durable.core.journal.outcomes import Cancelled, Lost, Released
from django_durable.core.journal.states import EntryStatus
from django_durable.core.kinds.loops import Break, Continue
from django_durable.core.retries import Retry
from django_durable.core.unwinding import Unwind
from django_durable.exceptions import ContextMisuse, JoinError
from django_durable.executor.branch_threads import NO_THREADS, BranchThreads

from .by_hand import timed_by_hand
from .in_memory import MemoryCommit, new_flow, run

PATIENCE = 60


@pytest.fixture(params=[0, 1, 2, 8])
def threads(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A pool of none, of too few, and of enough threads."""
    if not request.param:
        yield NO_THREADS
        return
    pool = BranchThreads(request.param)
    yield pool
    pool.close()


@pytest.fixture
def pool() -> Iterator[BranchThreads]:
    pool = BranchThreads(4)
    yield pool
    pool.close()


def nested(depth: int, width: int) -> Any:
    def body(ctx: Context) -> int:
        if depth == 0:
            return ctx.step("leaf", lambda: 1)
        deeper = nested(depth - 1, width)
        return sum(ctx.join("down", {f"b{n}": deeper for n in range(width)}).values())

    return body


def test_joins_nested_deeper_than_the_pool_come_to_their_end(threads: Any) -> None:
    commit = MemoryCommit()
    assert run(nested(5, 2), commit, threads) == 32
    leaves = [path for path in commit.entries if path.endswith("/leaf")]
    assert len(leaves) == 32


def test_a_mix_of_joins_races_maps_loops_and_blocks_is_the_same_in_any_pool(threads: Any) -> None:
    def turn(ctx: Context, n: int) -> Any:
        both = ctx.join("both", {"a": nested(1, 3), "b": lambda ctx: sum(ctx.map("m", int, range(10), max_parallel=3))})
        name, _ = ctx.race("any", {"x": lambda ctx: ctx.step("x", int)})
        outcome = ctx.try_block("block", nested(2, 2))
        return Break((both, name, outcome.value)) if n == 3 else Continue(n + 1)

    assert run(lambda ctx: ctx.loop("loop", turn, 0), None, threads) == ({"a": 3, "b": 45}, "x", 4)


def test_what_one_branch_commits_never_takes_along_what_another_is_about_to(pool: BranchThreads) -> None:
    """Each line has its own pending writes; two of them in one commit could tear a step from what it builds on."""
    mixed: list[set[str]] = []

    def look(write: Write) -> None:
        branches = {path.split("/")[1] for path in write.entries if path.startswith("all/")}
        if len(branches) > 1:
            mixed.append(branches)

    def branch(ctx: Context) -> int:
        for n in range(40):
            ctx.now()
            ctx.step("noted", int, key=n, ephemeral=True)
            ctx.step("work", int, key=n)
        return 1

    commit = MemoryCommit(hook=look)
    assert len(run(lambda ctx: ctx.join("all", dict.fromkeys("abcd", branch)), commit, pool)) == 4
    assert not mixed
    assert sum(path.endswith("]") for path in commit.entries) == 4 * 120
    assert len({entry.seq for entry in commit.entries.values()}) == len(commit.entries)


def test_what_a_branch_builds_on_is_durable_before_its_first_write(threads: Any) -> None:
    commit = MemoryCommit()

    def look() -> bool:
        return {"%now[1]", "at[0]/noted"} <= set(commit.entries)

    def turn(ctx: Context, started: Any) -> Any:
        ctx.step("noted", int, ephemeral=True)
        return Break(ctx.join("both", {name: lambda ctx: ctx.step("look", look) for name in "ab"}))

    assert run(lambda ctx: ctx.loop("at", turn, ctx.now()), commit, threads) == {"a": True, "b": True}


def test_an_error_in_one_branch_waits_for_the_step_that_is_under_way_in_another(pool: BranchThreads) -> None:
    began, go = threading.Event(), threading.Event()

    def slow() -> str:
        began.set()
        assert go.wait(PATIENCE)
        return "done"

    def bad(ctx: Context) -> None:
        assert began.wait(PATIENCE)
        go.set()
        raise ValueError("no")

    commit = MemoryCommit()
    with pytest.raises(JoinError) as caught:
        run(lambda ctx: ctx.join("both", {"bad": bad, "slow": lambda ctx: ctx.step("slow", slow)}), commit, pool)
    assert list(caught.value.errors) == ["bad"]
    assert commit.entries["both/slow/slow"].status == EntryStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("ask", "outcome"),
    [
        (lambda flow: flow.lease.lose(), Lost),
        (lambda flow: setattr(flow.lease, "release_requested", True), Released),
        (lambda flow: setattr(flow.lease, "cancel_requested", True), Cancelled),
    ],
    ids=["lost", "drained", "cancelled"],
)
def test_when_the_run_is_to_stop_every_branch_comes_to_rest_before_the_attempt_is_over(
    pool: BranchThreads, ask: Any, outcome: type
) -> None:
    commit = MemoryCommit()
    flow = new_flow(commit)
    under_way, acted, others_are_done = threading.Barrier(3), [], threading.Semaphore(0)

    def hold(name: str) -> None:
        under_way.wait(PATIENCE)
        if name == "a":
            ask(flow)
        under_way.wait(PATIENCE)
        # One is under way still when nothing of the others is.
        if name == "b":
            assert all(others_are_done.acquire(timeout=PATIENCE) for _ in "ac")
        acted.append(name)
        others_are_done.release()

    def branch(name: str) -> Any:
        def body(ctx: Context) -> None:
            ctx.step("hold", hold, name)
            ctx.step("more", acted.append, "never")

        return body

    with pytest.raises(Unwind):
        run(lambda ctx: ctx.join("all", {name: branch(name) for name in "abc"}), commit, pool, flow)
    assert isinstance(flow.outcome, outcome)
    assert sorted(acted) == ["a", "b", "c"]
    assert not any(thread.is_alive() and under_way.n_waiting for thread in threading.enumerate())
    done = {path for path, entry in commit.entries.items() if entry.status == EntryStatus.SUCCEEDED}
    assert done == {f"all/{name}/hold" for name in "abc"}


def _spin() -> None:
    # A function of its own: in Python 3.13 what is raised at a loop's jump back is outside the "try" around the loop.
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        pass


def test_a_step_s_time_out_ends_it_in_its_own_branch_s_thread_only(
    pool: BranchThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    spins, is_interrupted, time_is_over = threading.Event(), threading.Event(), timed_by_hand(monkeypatch)

    def endless() -> None:
        try:
            spins.set()
            _spin()
        except BaseException:
            is_interrupted.set()
            raise

    def short() -> str:
        assert spins.wait(PATIENCE)
        time_is_over()
        assert is_interrupted.wait(PATIENCE)
        return "undisturbed"

    def late(ctx: Context) -> Any:
        return ctx.try_step("late", endless, timeout=1)

    found = run(
        lambda ctx: ctx.join(
            "both", {"late": lambda ctx: late(ctx).error["reason"], "b": lambda ctx: ctx.step("s", short)}
        ),
        None,
        pool,
    )
    assert found == {"late": "timeout", "b": "undisturbed"}


# --- losers ----------------------------------------------------------------------------------


def test_a_race_returns_while_the_loser_s_step_is_under_way_and_the_line_waits_for_its_end(pool: BranchThreads) -> None:
    began, go, order = threading.Event(), threading.Event(), []

    def slow() -> None:
        began.set()
        assert go.wait(PATIENCE)
        order.append("slow")

    def loser(ctx: Context) -> None:
        ctx.step("slow", slow)
        ctx.step("never", order.append, "never")

    def winner(ctx: Context) -> str:
        assert began.wait(PATIENCE)
        return "won"

    def body(ctx: Context) -> Any:
        name, _ = ctx.race("any", {"loser": loser, "winner": winner})
        order.append(name)
        go.set()

    commit = MemoryCommit()
    run(body, commit, pool)
    assert order == ["winner", "slow"]
    assert commit.entries["any/loser/slow"].status == EntryStatus.SUCCEEDED


def test_losers_of_nested_races_all_come_to_rest(threads: Any) -> None:
    acted: list[str] = []

    def inner(ctx: Context) -> Any:
        ctx.race("in", {"a": lambda ctx: ctx.step("a", int), "b": lambda ctx: ctx.wait_for_event("never")})
        ctx.wait_for_event("never")

    def body(ctx: Context) -> Any:
        won = ctx.race("out", {"inner": inner, "quick": lambda ctx: ctx.step("q", int)})
        return won

    commit = MemoryCommit()
    assert run(body, commit, threads) == ("quick", 0)
    assert acted == []
    waits = [entry for entry in commit.entries.values() if entry.is_wait]
    assert all(entry.path.startswith("out/inner/") for entry in waits), "closed when the losers are settled"


# --- misuse ----------------------------------------------------------------------------------


SCOPES = {
    "join": lambda ctx, body: ctx.join("at", {"a": body}),
    "race": lambda ctx, body: ctx.race("at", {"a": body}),
    "loop": lambda ctx, body: ctx.loop("at", lambda ctx, state: Break(body(ctx))),
    "block": lambda ctx, body: ctx.try_block("at", body),
}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("depth", [1, 2])
def test_the_ctx_of_a_function_around_is_refused_with_what_to_use_instead(threads: Any, scope: str, depth: int) -> None:
    def body(outer: Context) -> None:
        def inner(ctx: Context) -> Any:
            return outer.step("mine", int)

        SCOPES[scope](outer, inner if depth == 1 else lambda ctx: ctx.join("deeper", {"b": inner}))

    with pytest.raises(ContextMisuse, match="Use the ctx that the branch's, turn's or block's own function is given"):
        run(body, None, threads)


def test_a_loser_may_not_use_the_ctx_around_after_the_race_is_over_either(pool: BranchThreads) -> None:
    began, go, refused = threading.Event(), threading.Event(), []

    def body(outer: Context) -> Any:
        def loser(ctx: Context) -> None:
            began.set()
            assert go.wait(PATIENCE)
            try:
                outer.step("mine", int)
            except ContextMisuse as error:
                refused.append(str(error))

        def winner(ctx: Context) -> int:
            assert began.wait(PATIENCE)
            return 1

        outer.race("any", {"loser": loser, "winner": winner})
        outer.step("after", int)
        go.set()

    run(body, None, pool)
    assert len(refused) == 1 and "own function is given" in refused[0]


def test_a_thread_of_the_user_s_in_a_branch_is_told_that_threads_belong_in_steps(pool: BranchThreads) -> None:
    said: list[str] = []

    def branch(ctx: Context) -> None:
        def use() -> None:
            try:
                ctx.step("mine", int)
            except ContextMisuse as error:
                said.append(str(error))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()

    # Nobody hears of what a thread raises: the run fails with it.
    with pytest.raises(ContextMisuse, match="Threads belong inside a step"):
        run(lambda ctx: ctx.join("at", {"a": branch}), None, pool)
    assert "Threads belong inside a step" in said[0]


async def coroutine(ctx: Any, state: Any = None) -> int:
    return 1


@pytest.mark.parametrize("scope", SCOPES)
def test_a_coroutine_function_is_no_branch_of_a_plain_workflow(threads: Any, scope: str) -> None:
    with pytest.raises(ContextMisuse, match="coroutine is a coroutine function"):
        run(lambda ctx: SCOPES[scope](ctx, coroutine) if scope != "loop" else ctx.loop("at", coroutine), None, threads)


def test_a_branch_whose_end_fails_in_the_driver_is_told_as_that_branch_s_error(
    pool: BranchThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would hear of an error that ends a thread, and the run would wait for ever."""
    from django_durable.executor import sync_driver

    def broken(outer: Any, among: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise OSError("the connection is gone")

    monkeypatch.setattr(sync_driver, "leftover_transactions", broken)
    with pytest.raises(JoinError, match="the connection is gone"):
        run(lambda ctx: ctx.join("at", {"a": lambda ctx: 1}), None, pool)


def test_a_thread_is_free_and_without_connections_when_its_branch_s_end_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[int] = []
    from django_durable.executor import branch_threads

    monkeypatch.setattr(branch_threads.connections, "close_all", lambda: closed.append(threading.get_ident()))
    pool, told = BranchThreads(1), threading.Event()
    again: list[bool] = []

    def tell(value: int) -> None:
        again.append(len(closed) == value and pool.submit(lambda: 2, lambda value: told.set()))

    assert pool.submit(lambda: 1, tell)
    assert told.wait(PATIENCE)
    pool.close()
    assert again == [True]


def test_no_line_is_lost_of_what_branches_say_at_once_through_one_log(
    pool: BranchThreads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="django_durable.workflow")
    items, lines = range(20), list[str]()

    def open_slowly(write: Write) -> Log:
        if write.log is None:
            # Here another thread goes on.
            time.sleep(0.002)
            write.log = Log()
        return write.log

    def note(write: Write) -> None:
        lines.extend(line.message for line in (write.log.lines if write.log is not None else ()))

    def body(ctx: Context) -> None:
        ctx.map("all", lambda item: ctx.log.info("%d", item), items, max_parallel=4)

    monkeypatch.setattr(Write, "open_log", open_slowly)
    commit = MemoryCommit(hook=note)
    flow = new_flow(commit)
    flow.run = replace(flow.run, keeps_log=True)
    run(body, commit, pool, flow)
    assert sorted(lines, key=int) == [str(item) for item in items]


def test_an_attempt_that_fails_beside_a_write_that_is_refused_is_journaled() -> None:
    """The join ends with the refusal, and takes over nothing any more."""
    began, refused = threading.Event(), threading.Event()

    def refuse(write: Write) -> None:
        if "at/early/one" in write.entries:
            refused.set()
            raise ValueError("refused")

    def late() -> None:
        began.set()
        refused.wait(PATIENCE)
        raise ValueError("not yet")

    def early() -> None:
        began.wait(PATIENCE)
        raise ValueError("not yet")

    def branch(step: Callable[[], None]) -> Any:
        return lambda ctx: ctx.step("one", step, retry=Retry(max_attempts=3, initial=60))

    commit, pool = MemoryCommit(hook=refuse), BranchThreads(2)
    with pytest.raises(ValueError, match="refused"):
        run(lambda ctx: ctx.join("at", {"late": branch(late), "early": branch(early)}), commit, pool)
    pool.close()
    entry = commit.entries["at/late/one"]
    assert (entry.status, entry.attempts) == (EntryStatus.RETRYING, 1)
