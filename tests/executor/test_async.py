"""``async def`` workflows: plain and coroutine steps, time-outs, cancellation, and the same replay."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from django_durable import AsyncContext, Context, Retry, current_step, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.core.journal.outcomes import Cancelled, Lost, Outcome, Released
from django_durable.core.journal.states import Status
from django_durable.exceptions import ChildFailed, EventTimeout, RunCancelled, RunFailed, StepFailed, StepTimeout
from django_durable.executor.async_attempt import arun_attempt
from django_durable.store.claiming import Claim, Claimant, claim_next
from django_durable.store.database import Database
from django_durable.testing import run_until_idle
from tests.app.models import Counter
from tests.direct_commit import DirectCommit

from .by_hand import timed_by_hand

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
ONCE = Retry(max_attempts=1)
calls: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def double(number: int) -> int:
    calls.append(("double", number))
    return number * 2


async def triple(number: int) -> int:
    await asyncio.sleep(0)
    calls.append(("triple", number))
    return number * 3


def failed(run: RunHandle[Any]) -> dict[str, Any]:
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    return caught.value.error


@durable_workflow(name="async.everything")
async def everything(ctx: AsyncContext, number: int) -> list[Any]:
    started: list[Any] = [ctx.now(), str(ctx.uuid4()), ctx.random()]
    plain = await ctx.step("plain", double, number)
    coroutine = await ctx.step("coroutine", triple, number)
    await ctx.sleep("nap", 60)
    await ctx.sleep_until("until", started[0])
    event = await ctx.wait_for_event("packed", timeout=60, default=None)
    inside = await ctx.run_workflow("inside", everything_s_child, number)
    aside = await ctx.start_workflow("aside", everything_s_child, number)
    return [plain, coroutine, event, inside, str(aside), *started[1:]]


@durable_workflow(name="async.child")
async def everything_s_child(ctx: AsyncContext, number: int) -> int:
    return await ctx.step("double", double, number + 100)


def test_everything_is_replayed() -> None:
    run = everything.enqueue(5)
    run_until_idle(skip_waits=True)
    plain, coroutine, event, inside, aside, *_ = run.result(timeout=0)
    assert [plain, coroutine, event, inside] == [10, 15, None, 210]
    assert len(aside) == 36
    # Each body once, however often the function was called from the top.
    assert sorted(calls) == [("double", 5), ("double", 105), ("double", 105), ("triple", 5)]
    assert run.refresh().run.claims >= 4


def test_plain_steps_run_where_the_orm_may_be_used() -> None:
    loops: list[bool] = []

    def write() -> int:
        loops.append(threading.current_thread() is threading.main_thread())
        return Counter.objects.create(name="x", value=7).value

    async def read() -> int:
        counter = await Counter.objects.aget(name="x")
        return counter.value

    @durable_workflow(name="async.orm")
    async def orm(ctx: AsyncContext) -> list[int]:
        return [await ctx.step("write", write), await ctx.step("read", read)]

    run = orm.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == [7, 7]
    assert loops == [True]


def test_an_async_callable_of_any_sort_is_awaited() -> None:
    class Callable:
        async def __call__(self, number: int) -> int:
            return number + 1

    from functools import partial

    @durable_workflow(name="async.callables")
    async def callables(ctx: AsyncContext) -> list[int]:
        return [
            await ctx.step("object", Callable(), 1),
            await ctx.step("partial", partial(triple, 2)),
            await ctx.step("lambda", lambda: triple(3)),
        ]

    run = callables.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == [2, 6, 9]


def test_a_plain_workflow_runs_coroutine_steps() -> None:
    @durable_workflow(name="async.mixed")
    def mixed(ctx: Context) -> Any:
        return [ctx.step("coroutine", triple, 2), ctx.step("known", known)]

    async def known() -> str:
        return current_step().path

    run = mixed.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == [6, "known"]


def test_context_variables_of_the_workflow_reach_its_steps() -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")

    @durable_workflow(name="async.tenant")
    async def of_tenant(ctx: AsyncContext) -> list[str]:
        tenant.set("acme")

        async def ask() -> str:
            return tenant.get()

        return [await ctx.step("plain", tenant.get), await ctx.step("coroutine", ask)]

    run = of_tenant.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == ["acme", "acme"]


# --- errors ----------------------------------------------------------------------------------


def test_errors_are_the_same_as_in_plain_workflows() -> None:
    async def refuse() -> None:
        raise ValueError("no")

    @durable_workflow(name="async.failing_child", step_retry=ONCE)
    async def failing_child(ctx: AsyncContext) -> None:
        await ctx.step("refuse", refuse)

    @durable_workflow(name="async.catching", step_retry=Retry(max_attempts=2, initial=0, maximum=0))
    async def catching(ctx: AsyncContext) -> list[Any]:
        found: list[Any] = []
        try:
            await ctx.step("refuse", refuse)
        except StepFailed as error:
            found.append(error.attempts)
        try:
            await ctx.wait_for_event("never", timeout=1)
        except EventTimeout as error:
            found.append(error.event)
        try:
            await ctx.run_workflow("child", failing_child)
        except ChildFailed as error:
            found.append(error.status)
        return found

    run = catching.enqueue()
    run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == [2, "never", "failed"]


def test_a_task_group_around_a_suspension_changes_nothing() -> None:
    @durable_workflow(name="async.grouped")
    async def grouped(ctx: AsyncContext) -> str:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ctx.sleep("nap", 60))
        return "awake"

    run = grouped.enqueue()
    run_until_idle()
    assert run.refresh().status == Status.WAITING
    run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == "awake"


# --- time-outs -------------------------------------------------------------------------------


@pytest.mark.behaviour("STEP-03a", "STEP-03b")
def test_step_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    began = clock.monotonic()
    # The clock stands still for ``seconds_left``, and not for the event loop.
    monkeypatch.setattr(clock, "monotonic", lambda: began)

    async def hang() -> None:
        calls.append(current_step().seconds_left)
        try:
            await asyncio.Event().wait()
        finally:
            calls.append("cleaned up")

    @durable_workflow(name="async.hanging", step_retry=Retry(max_attempts=2, initial=0, maximum=0))
    async def hanging(ctx: AsyncContext) -> None:
        await ctx.step("hang", hang, timeout=0.02)

    run = hanging.enqueue()
    run_until_idle()
    assert failed(run)["step"] == "hang"
    step = run.steps()[0]
    assert (step.attempts, step.error["type"]) == (2, "django_durable.exceptions.StepTimeout")
    assert step.error["message"] == "Step 'hang' took longer than 0.02 s."
    assert calls == [pytest.approx(0.02), "cleaned up"] * 2


@pytest.mark.behaviour("STEP-03c")
def test_give_up_on_step_timeout() -> None:
    @durable_workflow(name="async.hanging_once")
    async def hanging_once(ctx: AsyncContext) -> None:
        await ctx.step("hang", asyncio.sleep, 60, timeout=0.01, retry=Retry(give_up_on=StepTimeout))

    run = hanging_once.enqueue()
    run_until_idle()
    failed(run)
    assert run.steps()[0].attempts == 1


def test_a_step_in_time_and_a_timeout_error_of_its_own() -> None:
    async def own() -> None:
        raise TimeoutError("of a client")

    @durable_workflow(name="async.in_time", step_retry=ONCE)
    async def in_time(ctx: AsyncContext) -> str:
        await ctx.step("quick", triple, 1, timeout=60)
        try:
            await ctx.step("own", own, timeout=60)
        except StepFailed as error:
            return str(error.error["type"])
        return ""

    run = in_time.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == "TimeoutError"


def wait_for_ever() -> None:
    # A function of its own: in Python 3.13 what is raised at a loop's jump back is outside the "try" around the loop.
    while True:
        threading.Event().wait(0.001)


def test_a_plain_step_that_timed_out_has_left_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else another worker could begin the next attempt while the thread of this one goes on."""
    time_is_over = timed_by_hand(monkeypatch)

    def hang() -> None:
        calls.append("in")
        try:
            time_is_over()
            wait_for_ever()
        finally:
            calls.append("out")

    @durable_workflow(name="async.hanging_thread", step_retry=ONCE)
    async def hanging_thread(ctx: AsyncContext) -> list[Any]:
        try:
            await ctx.step("hang", hang, timeout=1)
        except StepFailed as error:
            return [error.error["type"], *calls]
        return []

    run = hanging_thread.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == ["django_durable.exceptions.StepTimeout", "in", "out"]


def test_a_coroutine_step_of_a_plain_workflow_is_timed_too() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    @durable_workflow(name="async.mixed_hanging", step_retry=ONCE)
    def mixed_hanging(ctx: Context) -> object:
        return ctx.step("hang", hang, timeout=0.02)

    run = mixed_hanging.enqueue()
    run_until_idle()
    failed(run)
    assert run.steps()[0].error["type"] == "django_durable.exceptions.StepTimeout"


# --- cancellation ----------------------------------------------------------------------------


@pytest.mark.behaviour("CANCEL-01c")
def test_a_cancelled_run_ends_before_its_next_step() -> None:
    @durable_workflow(name="async.cancelled")
    async def cancelled(ctx: AsyncContext) -> None:
        await ctx.step("first", lambda: RunHandle[Any](current_step().run_id).cancel("enough"))
        await ctx.step("second", double, 1)

    run = cancelled.enqueue()
    run_until_idle()
    with pytest.raises(RunCancelled, match="enough"):
        run.result(timeout=0)
    assert calls == []


def interrupt(prepare: Any) -> tuple[RunHandle[Any], Outcome]:
    """Cancel the attempt's task while a step hangs, as a worker may."""
    reached = asyncio.Event()

    async def hang() -> None:
        reached.set()
        await asyncio.Event().wait()

    @durable_workflow(name="async.interrupted", retry=Retry(max_attempts=3, initial=0, maximum=0))
    async def interrupted(ctx: AsyncContext) -> None:
        await ctx.step("before", double, 1)
        await ctx.step("hang", hang)

    async def work(claim: Claim, commit: DirectCommit) -> Outcome:
        task = asyncio.create_task(arun_attempt(claim, interrupted, commit))
        await asyncio.wait_for(reached.wait(), 30)
        await sync_to_async(prepare)(claim)
        task.cancel()
        return await task

    run = interrupted.enqueue()
    db = Database()
    who = Claimant(uuid7(), ("default",), ("async.interrupted",))
    [claim] = claim_next(db, who, 1, lease=30, time=DatabaseClock())
    return run, async_to_sync(work)(claim, DirectCommit(db))


@pytest.mark.parametrize("is_asked", [False, True])
def test_an_attempt_that_is_interrupted_is_handed_back_unharmed(is_asked: bool) -> None:
    run, outcome = interrupt(lambda claim: setattr(claim.lease, "release_requested", is_asked))
    assert outcome == Released()
    assert run.status == Status.QUEUED
    assert run.attempt == 1
    assert run.error is None
    assert [(step.path, step.status) for step in run.steps()] == [("before", "succeeded")]


def test_an_attempt_that_is_interrupted_for_a_cancellation() -> None:
    run, outcome = interrupt(lambda claim: setattr(claim.lease, "cancel_requested", True))
    assert outcome == Cancelled()
    assert run.status == Status.CANCELLED


def test_an_attempt_that_is_interrupted_since_its_lease_is_lost() -> None:
    run, outcome = interrupt(lambda claim: claim.lease.lose())
    assert outcome == Lost()
    assert run.status == Status.RUNNING  # as before: it is the next holder's


def test_a_cancelled_error_of_the_user_s_own_is_an_error_like_any() -> None:
    @durable_workflow(name="async.own_cancellation", retry=ONCE)
    async def own_cancellation(ctx: AsyncContext) -> None:
        raise asyncio.CancelledError("mine")

    run = own_cancellation.enqueue()
    run_until_idle()
    assert failed(run)["message"] == "mine"
