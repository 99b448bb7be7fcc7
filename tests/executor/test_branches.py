"""Branches on a real database, in the thread of a test: both forms of workflow, one after the other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_durable import AsyncContext, Break, Context, Continue, Retry, durable_workflow
from django_durable.core.journal.states import EntryStatus, Status
from django_durable.exceptions import RunFailed
from django_durable.models import JournalEntry, Run
from django_durable.testing import crash_after, force_replay, run_until_idle, travel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
ONCE = Retry(max_attempts=1)
calls: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def work(name: str) -> str:
    calls.append(name)
    return f"{name}!"


async def awork(name: str) -> str:
    return work(name)


def asking(ctx: Context) -> Any:
    before = ctx.step("before", work, "before")
    return [before, ctx.wait_for_event("word", timeout=timedelta(days=9)).payload]


def napping(ctx: Context) -> str:
    ctx.sleep("nap", timedelta(hours=1))
    return ctx.step("after", work, "after")


@durable_workflow(name="branches.both", retry=ONCE, step_retry=ONCE)
def both(ctx: Context) -> Any:
    return ctx.join("both", {"asking": asking, "napping": napping})


async def a_asking(ctx: AsyncContext) -> Any:
    before = await ctx.step("before", awork, "before")
    event = await ctx.wait_for_event("word", timeout=timedelta(days=9))
    return [before, event.payload]


async def a_napping(ctx: AsyncContext) -> str:
    await ctx.sleep("nap", timedelta(hours=1))
    return await ctx.step("after", work, "after")


@durable_workflow(name="branches.both_async", retry=ONCE, step_retry=ONCE)
async def both_async(ctx: AsyncContext) -> Any:
    return await ctx.join("both", {"asking": a_asking, "napping": a_napping})


@pytest.mark.behaviour("FLOW-01g")
@pytest.mark.parametrize("workflow", [both, both_async], ids=["sync", "async"])
def test_all_that_is_left_waits_so_the_run_waits_once_for_whatever_comes_first(workflow: Any) -> None:
    with travel() as clock:
        run = workflow.enqueue()
        run_until_idle()
        row = run.refresh().run
        assert (row.status, row.waiting_on) == (Status.WAITING, "join:both")
        assert run.why().reason == "waiting: join"
        assert abs((row.wake_at - clock.now()).total_seconds() - 3600) < 60
        run.send_event("word", "go")
        run_until_idle()
        assert run.refresh().status == Status.WAITING
        clock.advance(hours=1, seconds=1)
        run_until_idle()
        assert run.result(timeout=0) == {"asking": ["before!", "go"], "napping": "after!"}
    assert calls == ["before", "after"]


@pytest.mark.parametrize("workflow", [both, both_async], ids=["sync", "async"])
def test_a_time_that_comes_first_leaves_the_other_wait_open(workflow: Any) -> None:
    run = workflow.enqueue()
    with travel() as clock:
        run_until_idle()
        clock.advance(hours=2)
        run_until_idle()
        assert run.refresh().status == Status.WAITING
        assert calls == ["before", "after"]
        run.send_event("word", 1)
        run_until_idle()
        assert run.result(timeout=0)["asking"] == ["before!", 1]


@pytest.mark.behaviour("FLOW-01h")
@pytest.mark.parametrize("workflow", [both, both_async], ids=["sync", "async"])
@pytest.mark.parametrize("path", ["both/asking/before", "both/napping/after"])
def test_a_crash_in_a_branch_repeats_no_other(workflow: Any, path: str) -> None:
    run = workflow.enqueue()
    run.send_event("word", "early")
    with crash_after(path):
        run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == {"asking": ["before!", "early"], "napping": "after!"}
    assert calls == ["before", "after"]


@durable_workflow(name="branches.first", retry=ONCE, step_retry=ONCE)
def first(ctx: Context) -> Any:
    winner = ctx.race(
        "any",
        {
            "late": lambda ctx: ctx.sleep("late", timedelta(days=1)),
            "child": lambda ctx: ctx.run_workflow("never", listener),
            "quick": lambda ctx: ctx.step("quick", work, "quick"),
        },
    )
    ctx.wait_for_event("go")
    return winner


@durable_workflow(name="branches.first_async", retry=ONCE, step_retry=ONCE)
async def first_async(ctx: AsyncContext) -> Any:
    winner = await ctx.race(
        "any",
        {
            "late": lambda ctx: ctx.sleep("late", timedelta(days=1)),
            "child": lambda ctx: ctx.run_workflow("never", listener),
            "quick": lambda ctx: ctx.step("quick", awork, "quick"),
        },
    )
    await ctx.wait_for_event("go")
    return winner


@durable_workflow(name="branches.listener")
def listener(ctx: Context) -> None:
    ctx.wait_for_event("never")


@pytest.mark.behaviour("FLOW-02c")
@pytest.mark.parametrize("workflow", [first, first_async], ids=["sync", "async"])
def test_losers_wait_for_nothing_and_their_children_are_cancelled(workflow: Any) -> None:
    run = workflow.enqueue()
    run_until_idle()
    row = run.refresh().run
    assert (row.status, row.waiting_on, row.wake_at) == (Status.WAITING, "event:go", None), run.why()
    statuses = dict(JournalEntry.objects.filter(run_id=run.id).values_list("path", "status"))
    assert statuses["any/quick/quick"] == EntryStatus.SUCCEEDED
    assert statuses.get("any/late/late", EntryStatus.ABANDONED) == EntryStatus.ABANDONED
    children = Run.objects.filter(parent_id=run.id)
    assert [child.status for child in children] == [Status.CANCELLED]
    run.send_event("go")
    run_until_idle()
    assert run.result(timeout=0) == ("quick", "quick!")


@durable_workflow(name="branches.many", retry=ONCE, step_retry=ONCE)
def many(ctx: Context, count: int, limit: int | None) -> Any:
    return ctx.map("square", square, range(count), max_parallel=limit)


def square(n: int) -> int:
    calls.append(n)
    return n * n


@pytest.mark.parametrize("limit", [None, 1, 3])
def test_map_journals_each_result_under_its_index(limit: int | None) -> None:
    run = many.enqueue(7, limit)
    run_until_idle()
    assert run.result(timeout=0) == [0, 1, 4, 9, 16, 25, 36]
    assert JournalEntry.objects.filter(run_id=run.id, path="square[6]", kind="step").exists()


@durable_workflow(name="branches.squarer", retry=ONCE)
def squarer(ctx: Context, n: int) -> int:
    if n < 0:
        raise ValueError("negative")
    return square(n)


@durable_workflow(name="branches.children", retry=ONCE)
def children(ctx: Context, items: list[int], limit: int | None = None) -> Any:
    return ctx.map("square", squarer, items, max_parallel=limit)


@pytest.mark.parametrize("limit", [None, 1, 2])
def test_map_of_a_workflow_starts_a_child_for_each_item(limit: int | None) -> None:
    run = children.enqueue([1, 2, 3, 4, 5], limit)
    run_until_idle()
    assert run.result(timeout=0) == [1, 4, 9, 16, 25]
    assert Run.objects.filter(parent_id=run.id, status=Status.SUCCEEDED).count() == 5


def test_a_fan_out_wakes_its_parent_once() -> None:
    run = children.enqueue(list(range(20)))
    run_until_idle()
    assert run.refresh().run.claims == 2


def test_a_child_s_failure_comes_by_index_with_its_run() -> None:
    run = children.enqueue([1, -1, 2])
    run_until_idle()
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    failed = Run.objects.get(parent_id=run.id, status=Status.FAILED)
    assert caught.value.error["type"] == "django_durable.exceptions.JoinError"
    assert failed.parent_path == "square[1]"
    assert "negative" in caught.value.error["message"]


@durable_workflow(name="branches.looping", retry=ONCE, step_retry=ONCE)
def looping(ctx: Context, turns: int) -> Any:
    def turn(ctx: Context, n: int) -> Any:
        ctx.step("count", square, n)
        ctx.sleep("rest", 60)
        return Break(n) if n == turns else Continue(n + 1)

    return ctx.loop("count", turn, 0, history=3)


@pytest.mark.behaviour("FLOW-03i")
def test_a_loop_keeps_a_bounded_journal_and_repeats_nothing() -> None:
    run = looping.enqueue(12)
    run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == 12
    assert calls == list(range(13))
    assert JournalEntry.objects.filter(run_id=run.id).count() == 1


@pytest.mark.behaviour("FLOW-03g")
def test_a_loop_under_way_has_no_more_than_its_history_in_the_tables() -> None:
    run = looping.enqueue(50)
    with travel() as clock:
        for _ in range(20):
            run_until_idle()
            clock.advance(minutes=2)
        entries = JournalEntry.objects.filter(run_id=run.id, path__startswith="count[")
        # Its two calls, and the state that each turn began with.
        assert entries.count() <= 3 * 5
    assert run.refresh().status == Status.WAITING


@pytest.mark.parametrize("workflow", [both, both_async, first, first_async], ids=lambda workflow: workflow.name)
def test_every_commit_may_be_the_last_of_a_process(workflow: Any) -> None:
    run = workflow.enqueue()
    run.send_event("word", 1)
    run.send_event("go", 1)
    with force_replay():
        run_until_idle(skip_waits=True)
    assert run.refresh().status == Status.SUCCEEDED
    assert len(calls) == len(set(calls))
