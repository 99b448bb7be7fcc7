"""What a function's last call has to store goes with the outcome, where nothing of the function's comes in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import reduce
from typing import Any

import pytest

from django_durable import AsyncContext, Break, Context, Continue, Retry
from django_durable.core.flow.lease import Lease
from django_durable.core.journal.inbox import SentEvent
from django_durable.core.journal.journal import MemoryJournal, Write
from django_durable.core.journal.outcomes import Completed, Failed, Lost, Outcome
from django_durable.core.journal.states import Phase
from django_durable.core.kinds import loops
from django_durable.executor.async_attempt import arun_attempt
from django_durable.executor.branch_threads import NO_THREADS, Branches, BranchThreads
from django_durable.executor.sync_attempt import run_attempt
from django_durable.store.claiming import Claim
from django_durable.workflows.definition import Workflow
from django_durable.workflows.options import WorkflowOptions
from tests.core.driving import NOON, RUN_ID, TOKEN
from tests.executor.in_memory import MemoryCommit

stored: list[list[str]] = []
"""The paths of each commit."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    stored.clear()


def noted(write: Write) -> None:
    stored.append([*write.entries])


def attempt(code: Callable[..., Any], commit: MemoryCommit | None = None, threads: Branches = NO_THREADS) -> Outcome:
    """An attempt of a fresh run of ``code``, to which the event "go" was sent."""
    workflow: Workflow[Any, Any] = Workflow(code, WorkflowOptions(name="tails", step_retry=Retry(max_attempts=1)))
    claim = Claim(
        lease=Lease(RUN_ID, TOKEN, ends=float("inf")),
        workflow="tails",
        attempt=1,
        max_attempts=1,
        phase=Phase.FORWARD,
        deadline_at=None,
        root_id=RUN_ID,
        queue="default",
        priority=0,
        claims=1,
        fingerprint="",
        parent_id=None,
        input="{}",
        journal=MemoryJournal(events=[SentEvent(1, "go", "null", NOON)], now=lambda: NOON),
    )
    commit = commit or MemoryCommit(hook=noted)
    if workflow.is_async:
        return asyncio.run(arun_attempt(claim, workflow, commit))
    return run_attempt(claim, workflow, commit, threads)


def work() -> str:
    return "done"


def fail() -> None:
    raise ValueError


async def awork() -> str:
    return "done"


def returned(ctx: Context) -> Any:
    return ctx.step("a", work)


def ignored(ctx: Context) -> None:
    ctx.step("a", work)


def kept(ctx: Context) -> Any:
    value = ctx.step("a", work)
    return value


def told(ctx: Context) -> Any:
    value = ctx.step("a", work)
    return {"a": value, "all": [value, 1], "pair": (value, None)}


def caught(ctx: Context) -> Any:
    try:
        return ctx.step("a", work)
    except ValueError:
        return None


def tried(ctx: Context) -> None:
    ctx.try_step("a", work)


def polled(ctx: Context) -> Any:
    return ctx.poll("a", work, every=timedelta(seconds=1))


def told_of(ctx: Context) -> None:
    ctx.wait_for_event("go")


def told_of_several(ctx: Context) -> None:
    ctx.wait_for_events("a", events=["go"])


async def areturned(ctx: AsyncContext) -> Any:
    return await ctx.step("a", awork)


async def aignored(ctx: AsyncContext) -> None:
    await ctx.step("a", awork)


async def akept(ctx: AsyncContext) -> Any:
    value = await ctx.step("a", work)
    return {"value": value}


@pytest.mark.parametrize(
    "code",
    [
        *(returned, ignored, kept, told, caught, tried, polled, told_of, told_of_several),
        *(areturned, aignored, akept),
    ],
)
def test_one_commit_has_the_last_call_and_the_outcome(code: Callable[..., Any]) -> None:
    for _ in range(20):  # the interpreter rewrites code that it has run a few times
        stored.clear()
        assert isinstance(attempt(code), Completed)
        assert len(stored) == 1 and len(stored[0]) == 1


def mapped(ctx: Context) -> Any:
    return ctx.map("a", len, ["x", "y"])


def looped(ctx: Context) -> Any:
    return ctx.loop("a", lambda ctx, state: Break(ctx.step("b", work)))


def joined(ctx: Context) -> Any:
    return ctx.join("a", {"one": lambda ctx: ctx.step("b", work)})


@pytest.mark.parametrize("code", [mapped, looped, joined])
def test_the_end_of_a_scope_goes_with_the_outcome_too(code: Callable[..., Any]) -> None:
    assert isinstance(attempt(code), Completed)
    assert len(stored) > 1 and "a" in stored[-1]


# --- where the function goes on ----------------------------------------------------------------


def seen(*given: Any) -> Any:
    """Code between the call and the end: finds what it builds on stored."""
    assert stored and len(stored[-1]) == 1
    return "seen"


@contextmanager
def ending_with(end: Callable[[], Any]) -> Iterator[None]:
    yield
    end()


def asked(ctx: Context) -> Any:
    value = ctx.step("a", work)
    seen()
    return value


def wrapped(ctx: Context) -> Any:
    return seen(ctx.step("a", work))


def finished(ctx: Context) -> Any:
    try:
        return ctx.step("a", work)
    finally:
        seen()


def left(ctx: Context) -> Any:
    with ending_with(seen):
        return ctx.step("a", work)


def helped(ctx: Context) -> Any:
    def helper() -> Any:
        return ctx.step("a", work)

    return seen(helper())


def in_turns(ctx: Context) -> None:
    for turn in range(2):
        if turn:
            seen()
        ctx.step(f"turn {turn}", work)


def failing(ctx: Context) -> Any:
    try:
        return ctx.step("a", fail)
    except Exception:
        return seen()


def itself(ctx: Context, depth: int = 0) -> Any:
    if depth == 1:
        return ctx.step("a", work)
    itself(ctx, 1)
    return seen()


def mapped_by_another(ctx: Context) -> Any:
    return list(map(ctx.step, ["a", "b"], [work, seen]))


def reduced(ctx: Context) -> Any:
    return reduce(seen, map(ctx.step, ["a", "b"], [work, work]))


def sorted_by(ctx: Context) -> Any:
    return sorted(["a", "b"], key=lambda name: ctx.step(name, work if name == "a" else seen))


def hashed(ctx: Context) -> Any:
    value = ctx.step("a", work)
    try:
        return {value: 1, **{"b": seen()}}
    except TypeError:
        return seen()


def keyed_by(ctx: Context, key: Any = None) -> Any:
    key = [] if key is None else key
    try:
        value = ctx.step("a", work)
        return {key: value}
    except TypeError:
        return seen()


def unbound(ctx: Context, known: bool = False) -> Any:
    if known:
        other = 1
    try:
        value = ctx.step("a", work)
        return [value, other]
    except UnboundLocalError:
        return seen()


def given_another(ctx: Any) -> Any:
    ctx = Through(ctx)
    return ctx.step("a", work)


class Through:
    """What a project may put around ``ctx``."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def step(self, *args: Any) -> Any:
        return seen(self._ctx.step(*args))


async def aasked(ctx: AsyncContext) -> None:
    await ctx.step("a", awork)
    seen()


async def afinished(ctx: AsyncContext) -> Any:
    try:
        return await ctx.step("a", awork)
    finally:
        seen()


async def afailing(ctx: AsyncContext) -> Any:
    try:
        return await ctx.step("a", fail)
    except Exception:
        return seen()


async def aitself(ctx: AsyncContext, depth: int = 0) -> Any:
    if depth == 1:
        return await ctx.step("a", awork)
    await aitself(ctx, 1)
    return seen()


async def in_a_task(ctx: AsyncContext) -> Any:
    """Whoever has made the task may look at it before the function does."""

    async def one() -> Any:
        return await ctx.step("a", awork)

    return await asyncio.create_task(one())


CODES = [
    *(asked, wrapped, finished, left, helped, in_turns, failing, itself),
    *(mapped_by_another, reduced, sorted_by, hashed, keyed_by, unbound, given_another),
    *(aasked, afinished, afailing, aitself, in_a_task),
]


@pytest.mark.parametrize("code", CODES)
def test_what_code_may_build_on_is_stored_before_it_runs(code: Callable[..., Any]) -> None:
    for _ in range(20):
        stored.clear()
        outcome = attempt(code)
        assert isinstance(outcome, Completed), outcome
        assert len(stored) >= 2 and stored[0]


def test_what_comes_after_a_race_does_not_wait_for_its_losers() -> None:
    """The function's outcome does: until then its last call would not be stored."""
    is_stored, began, is_over = threading.Event(), threading.Event(), []

    def noted_too(write: Write) -> None:
        noted(write)
        if "last" in write.entries:
            is_stored.set()

    def slow() -> None:
        began.set()
        is_over.append(is_stored.wait(30))

    def fast() -> None:
        # A loser that has not begun when the race is won never does.
        assert began.wait(30)

    def code(ctx: Context) -> Any:
        ctx.race("any", {"slow": lambda ctx: ctx.step("s", slow), "fast": lambda ctx: ctx.step("f", fast)})
        return ctx.step("last", work)

    threads = BranchThreads(4)
    outcome = attempt(code, MemoryCommit(hook=noted_too), threads)
    threads.close()
    assert isinstance(outcome, Completed) and is_over == [True]
    assert stored[-1] != ["last"] and ["last"] in stored


def test_what_is_undone_on_the_way_is_stored_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LOST_MAX", 1)

    def turn(ctx: Context, state: int) -> Any:
        ctx.race(
            "any",
            {
                "a": lambda ctx: [ctx.step("s", work, compensate=str), ctx.wait_for_event("never")],
                "b": lambda ctx: ctx.step("f", work),
            },
        )
        return Break() if state == 4 else Continue(state + 1)

    def code(ctx: Context) -> Any:
        return ctx.loop("a", turn, 0)

    assert isinstance(attempt(code), Completed)
    undone = [[path for path in paths if path.endswith("%undo")] for paths in stored]
    assert [len(paths) for paths in undone if paths] == [1] * 5


def test_a_value_that_cannot_be_stored_takes_the_call_along() -> None:
    def code(ctx: Context) -> Any:
        value = ctx.step("a", work)
        return (ctx, value)

    assert isinstance(attempt(code), Failed)
    assert stored == [["a"]]


def test_nothing_of_a_lost_run_is_kept() -> None:
    commit = MemoryCommit()
    commit.is_lost = True
    assert isinstance(attempt(returned, commit), Lost) and not commit.entries


@pytest.mark.parametrize("code", [returned, areturned])
def test_who_watches_each_commit_sees_each_call_by_itself(code: Callable[..., Any]) -> None:
    commit = MemoryCommit(hook=noted)
    commit.is_stepwise = True
    attempt(code, commit)
    assert stored == [["a"], []]
