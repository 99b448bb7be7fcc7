"""Pausing: at rest at once, while running at the next call; what time and others do meanwhile is seen afterwards."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async

import django_durable
from django_durable import AsyncContext, Context, Retry, current_step, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import LIVE, EntryStatus, Phase, Status
from django_durable.exceptions import EventTimeout, IllegalTransition, RunCancelled, RunFailed, RunNotFound
from django_durable.models import Audit, JournalEntry, Run
from django_durable.store.database import Database
from django_durable.store.scheduling import database_now
from django_durable.testing import run_until_idle, travel
from tests.client.orders import in_status, is_broken, order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
OPTIONS: dict[str, Any] = {"retry": Retry(max_attempts=1), "step_retry": Retry(max_attempts=1)}
calls: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    is_broken[:] = [True]


def work(name: str) -> str:
    calls.append(name)
    return name


def pausing(name: str) -> str:
    """A step in whose midst somebody pauses the run."""
    django_durable.get_run(current_step().run_id).pause("while it works")
    return work(name)


# --- where it stands -------------------------------------------------------------------------


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED, Status.WAITING])
def test_what_rests_is_paused_at_once(status: Status) -> None:
    run = in_status(status)
    before = database_now(Database())
    run.pause("closed", actor="ann")
    assert run.status == Status.PAUSED
    assert run.why().reason == "paused"
    audit = Audit.objects.get()
    assert (audit.verb, audit.actor, audit.reason, audit.status_before) == ("pause", "ann", "closed", status)
    assert before <= audit.at <= database_now(Database())
    run_until_idle()
    assert run.refresh().status == Status.PAUSED


@pytest.mark.parametrize("status", sorted({*Status} - LIVE | {Status.BLOCKED}))
def test_what_is_over_or_blocked_is_not_paused(status: Status) -> None:
    run = in_status(status)
    with pytest.raises(IllegalTransition, match=f"is {status}: it cannot be paused"):
        run.pause()
    assert (run.refresh().status, Audit.objects.filter(verb="pause").count()) == (status, 0)


def test_a_second_pause_changes_nothing() -> None:
    waiting, running = in_status(Status.WAITING), in_status(Status.RUNNING)
    for run in (waiting, running, waiting, running):
        run.pause()
    assert Audit.objects.filter(verb="pause").count() == 2
    assert running.why().reason == "running: pausing"


def test_what_is_asked_to_stop_is_not_held_back() -> None:
    run = in_status(Status.RUNNING)
    run.cancel()
    with pytest.raises(IllegalTransition):
        run.pause()
    assert run.run.pause_requested_at is None


def test_a_run_that_does_not_exist() -> None:
    with pytest.raises(RunNotFound):
        RunHandle[Any](uuid7()).pause()


def test_pause_runs_takes_a_queryset_and_counts() -> None:
    for status in Status:
        in_status(status)
    assert django_durable.pause_runs(Run.objects.all(), reason="all") == 4
    assert django_durable.pause_runs(Run.objects.all()) == 0
    assert set(Audit.objects.filter(verb="pause").values_list("reason", flat=True)) == {"all"}


# --- while it runs ---------------------------------------------------------------------------


@durable_workflow(name="pausing.steps", **OPTIONS)
def steps(ctx: Context) -> list[str]:
    return [ctx.step("first", pausing, "first"), ctx.step("second", work, "second")]


async def apausing(name: str) -> str:
    return await sync_to_async(pausing)(name)


@durable_workflow(name="pausing.steps_async", **OPTIONS)
async def steps_async(ctx: AsyncContext) -> list[str]:
    return [await ctx.step("first", apausing, "first"), await ctx.step("second", work, "second")]


@pytest.mark.parametrize("workflow", [steps, steps_async], ids=["sync", "async"])
def test_the_step_under_way_is_journaled_and_the_next_one_waits_for_a_resume(workflow: Any) -> None:
    run = workflow.enqueue()
    assert run_until_idle() == 1
    assert (run.refresh().status, calls) == (Status.PAUSED, ["first"])
    assert [(step.path, step.status) for step in run.steps()] == [("first", EntryStatus.SUCCEEDED)]
    assert (run.run.lease_token, run.attempt) == (None, 1)
    run.resume("open again")
    run_until_idle()
    assert run.result(timeout=0) == ["first", "second"]
    assert calls == ["first", "second"]
    assert [audit.verb for audit in Audit.objects.order_by("pk")] == ["pause", "resume"]


@durable_workflow(name="pausing.beside", **OPTIONS)
def beside(ctx: Context) -> Any:
    return ctx.join(
        "both",
        {
            "asks": lambda ctx: [ctx.step("one", pausing, "asks"), ctx.step("two", work, "asked")],
            "works": lambda ctx: [ctx.step("one", work, "works"), ctx.step("two", work, "worked")],
        },
    )


async def _asks(ctx: AsyncContext) -> Any:
    return [await ctx.step("one", apausing, "asks"), await ctx.step("two", work, "asked")]


async def _works(ctx: AsyncContext) -> Any:
    return [await ctx.step("one", apausing, "works"), await ctx.step("two", work, "worked")]


@durable_workflow(name="pausing.beside_async", **OPTIONS)
async def beside_async(ctx: AsyncContext) -> Any:
    return await ctx.join("both", {"asks": _asks, "works": _works})


@pytest.mark.parametrize("workflow", [beside, beside_async], ids=["sync", "async"])
def test_branches_end_their_steps_and_begin_no_others(workflow: Any) -> None:
    run = workflow.enqueue()
    run_until_idle()
    assert run.refresh().status == Status.PAUSED
    assert not {"asked", "worked"} & {*calls}
    began = len(calls)
    assert len([step for step in run.steps() if step.kind == "step"]) == began
    run.resume()
    run_until_idle()
    assert run.result(timeout=0) == {"asks": ["asks", "asked"], "works": ["works", "worked"]}
    assert sorted(calls) == ["asked", "asks", "worked", "works"]


@durable_workflow(name="pausing.under_way", **OPTIONS)
async def under_way(ctx: AsyncContext) -> Any:
    is_left = asyncio.Event()

    async def pauses(ctx: AsyncContext) -> None:
        try:
            await ctx.step("one", apausing, "pauses")
            await ctx.step("two", work, "two")
        finally:
            is_left.set()

    async def slow() -> str:
        await is_left.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        return work("slow")

    return await ctx.join("both", {"pauses": pauses, "slow": lambda ctx: ctx.step("slow", slow)})


def test_a_coroutine_under_way_in_another_branch_is_not_interrupted() -> None:
    run = under_way.enqueue()
    run_until_idle()
    assert (run.refresh().status, calls) == (Status.PAUSED, ["pauses", "slow"])
    assert {step.path: step.status for step in run.steps()}["both/slow/slow"] == EntryStatus.SUCCEEDED


@durable_workflow(name="pausing.suspends", **OPTIONS)
def suspends(ctx: Context) -> Any:
    ctx.step("first", pausing, "first")
    return "over"


def test_a_run_that_comes_to_its_end_first_is_over() -> None:
    run = suspends.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == "over"


def pausing_for_a_moment() -> None:
    handle = django_durable.get_run(current_step().run_id)
    handle.pause()
    handle.resume()


@durable_workflow(name="pausing.withdrawn", **OPTIONS)
def withdrawn(ctx: Context) -> Any:
    ctx.step("first", pausing_for_a_moment)
    return ctx.step("second", work, "second")


def test_a_pause_that_is_withdrawn_before_it_is_met_stops_nothing() -> None:
    run = withdrawn.enqueue()
    assert run_until_idle() == 1
    assert run.result(timeout=0) == "second"


def test_a_pause_that_has_not_been_met_is_withdrawn_by_a_resume() -> None:
    run = in_status(Status.RUNNING)
    run.pause()
    run.resume("never mind")
    assert (run.status, run.run.pause_requested_at) == (Status.RUNNING, None)
    with pytest.raises(IllegalTransition):
        run.resume()


def test_a_failure_that_meets_a_pause_compensates_after_it() -> None:
    @durable_workflow(name="pausing.failing", **OPTIONS)
    def failing(ctx: Context) -> None:
        ctx.step("stock", pausing, "stock", compensate=lambda name: work(f"-{name}"))
        raise ValueError("no")

    run = failing.enqueue()
    run_until_idle()
    assert (run.refresh().status, run.run.phase, calls) == (Status.PAUSED, Phase.COMPENSATING, ["stock"])
    run.resume()
    run_until_idle()
    assert (run.refresh().status, calls) == (Status.FAILED, ["stock", "-stock"])
    with pytest.raises(RunFailed, match="no"):
        run.result(timeout=0)


# --- what happens meanwhile --------------------------------------------------------------------


@durable_workflow(name="pausing.asks", **OPTIONS)
def asks(ctx: Context) -> Any:
    try:
        return ctx.wait_for_event("word", timeout=timedelta(hours=1)).payload
    except EventTimeout:
        return "nobody"


def test_an_event_that_comes_meanwhile_is_seen_after_the_resume() -> None:
    run = asks.enqueue()
    run_until_idle()
    run.pause()
    run.send_event("word", "go")
    run_until_idle()
    assert run.refresh().status == Status.PAUSED
    run.resume()
    run_until_idle()
    assert run.result(timeout=0) == "go"


@pytest.mark.parametrize(("hours", "answer"), [(2, "nobody"), (0.5, None)])
def test_time_goes_on_meanwhile(hours: float, answer: str | None) -> None:
    run = asks.enqueue()
    with travel() as clock:
        run_until_idle()
        run.pause()
        clock.advance(hours=hours)
        run_until_idle()
        assert run.refresh().status == Status.PAUSED
        run.resume()
        run_until_idle()
        if answer is None:
            assert run.refresh().status == Status.WAITING
            clock.advance(hours=1 - hours, seconds=1)
            run_until_idle()
        assert run.result(timeout=0) == "nobody"


def test_a_start_that_is_still_to_come_still_is() -> None:
    run = order.using(run_after=3600).enqueue("well")
    run.pause()
    run.resume()
    assert (run.status, run_until_idle()) == (Status.SCHEDULED, 0)
    run.pause()
    with travel() as clock:
        clock.advance(hours=2)
        run_until_idle()
        assert run.refresh().status == Status.PAUSED
        run.resume()
        assert run.status == Status.QUEUED
        run_until_idle()
    assert run.refresh().status == Status.SUCCEEDED


def test_the_deadline_holds() -> None:
    run = asks.using(timeout=600).enqueue()
    with travel() as clock:
        run_until_idle()
        run.pause()
        clock.advance(hours=1)
        run_until_idle()
        assert run.refresh().status == Status.PAUSED
        run.resume()
        run_until_idle()
        assert run.error is not None and run.error["type"].endswith("RunTimeout")


@durable_workflow(name="pausing.parent", **OPTIONS)
def parent(ctx: Context) -> Any:
    return ctx.run_workflow("child", asks)


def test_children_go_on_and_their_end_is_seen_after_the_resume() -> None:
    run = parent.enqueue()
    run_until_idle()
    child = django_durable.get_run(Run.objects.get(parent_id=run.id).pk)
    run.pause()
    child.send_event("word", "from the child")
    run_until_idle()
    assert (child.refresh().status, run.refresh().status) == (Status.SUCCEEDED, Status.PAUSED)
    run.resume()
    run_until_idle()
    assert run.result(timeout=0) == "from the child"


def test_a_child_that_is_paused_does_not_pause_its_parent() -> None:
    run = parent.enqueue()
    run_until_idle()
    child = django_durable.get_run(Run.objects.get(parent_id=run.id).pk)
    child.pause()
    run_until_idle()
    assert run.refresh().status == Status.WAITING


def test_a_paused_run_can_be_cancelled_and_undoes_what_it_did() -> None:
    @durable_workflow(name="pausing.undoing", **OPTIONS)
    def undoing(ctx: Context) -> None:
        ctx.step("stock", work, "stock", compensate=lambda name: work(f"-{name}"))
        ctx.wait_for_event("packed")

    run = undoing.enqueue()
    run_until_idle()
    run.pause()
    run.cancel("after all")
    run_until_idle()
    with pytest.raises(RunCancelled):
        run.result(timeout=0)
    assert calls == ["stock", "-stock"]


def test_a_resume_ends_a_back_off_and_resets_no_attempts() -> None:
    def flaky() -> str:
        calls.append("try")
        if len(calls) == 1:
            raise OSError("busy")
        return "done"

    @durable_workflow(name="pausing.retrying", retry=OPTIONS["retry"], step_retry=Retry(max_attempts=2, initial=60))
    def retrying(ctx: Context) -> Any:
        return ctx.step("flaky", flaky)

    run = retrying.enqueue()
    run_until_idle()
    run.pause()
    run.resume()
    run_until_idle()
    assert run.result(timeout=0) == "done"
    assert JournalEntry.objects.get(run_id=run.id).attempts == 2
