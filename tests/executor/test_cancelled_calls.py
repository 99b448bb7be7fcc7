"""``ctx`` calls that are cancelled while they are under way: by user code the run fails, by the worker it is let go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_durable import AsyncContext, Retry, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core.clock import DatabaseClock
from django_durable.core.flow.lease import Lease
from django_durable.core.ids import uuid7
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Cancelled, Failed, Lost, Outcome, Released
from django_durable.core.journal.states import Status
from django_durable.exceptions import RunFailed, StepFailed
from django_durable.executor.async_attempt import arun_attempt
from django_durable.signals import step_succeeded
from django_durable.store.claiming import Claim, Claimant, claim_next
from django_durable.store.database import Database
from django_durable.store.receipts import Receipt
from django_durable.testing import run_until_idle
from tests.app.models import Counter
from tests.direct_commit import DirectCommit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract, pytest.mark.usefixtures("on_each_loop")]
AT_ONCE = Retry(max_attempts=3, initial=0, maximum=0)
LATER = Retry(max_attempts=3, initial=60)
SOON = 0.01
Body = Callable[[AsyncContext], Awaitable[Any]]
calls: list[Any] = []
body: list[Body] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    body.clear()


@durable_workflow(name="cancelled.given", retry=AT_ONCE, step_retry=AT_ONCE)
async def given(ctx: AsyncContext) -> Any:
    calls.append(ctx.attempt)
    return await body[0](ctx)


async def hang() -> None:
    calls.append("hangs")
    try:
        await asyncio.Event().wait()
    finally:
        calls.append("hung")


def work(run_body: Body) -> RunHandle[Any]:
    body[:] = [run_body]
    run = given.enqueue()
    run_until_idle()
    return run


def misused(run: RunHandle[Any], name: str = "a") -> dict[str, Any]:
    """The error of a run that has failed at once, since its call ``name`` was cancelled."""
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    error = caught.value.error
    assert error["type"] == "django_durable.exceptions.ContextMisuse", error
    assert f"The ctx call {name!r} was cancelled while it was under way" in error["message"]
    assert "timeout=" in error["message"]
    assert run.attempt == 1
    return error


# --- by user code ----------------------------------------------------------------------------


async def timeout(ctx: AsyncContext) -> None:
    async with asyncio.timeout(SOON):
        await ctx.step("a", hang)


async def wait_for(ctx: AsyncContext) -> None:
    await asyncio.wait_for(ctx.step("a", hang), SOON)


async def task(ctx: AsyncContext) -> None:
    call = asyncio.create_task(ctx.step("a", hang))
    while "hangs" not in calls:
        await asyncio.sleep(0)
    call.cancel()
    await call


async def group(ctx: AsyncContext) -> None:
    async def fail() -> None:
        await asyncio.sleep(SOON)
        raise ValueError

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fail())
        await ctx.step("a", hang)


async def its_own_task(ctx: AsyncContext) -> None:
    own = asyncio.current_task()
    assert own is not None
    asyncio.get_running_loop().call_later(SOON, own.cancel)
    await ctx.step("a", hang)


async def its_own_task_beforehand(ctx: AsyncContext) -> None:
    own = asyncio.current_task()
    assert own is not None
    own.cancel()
    await ctx.step("a", hang)


WAYS: list[Body] = [timeout, wait_for, task, group, its_own_task, its_own_task_beforehand]


@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_user_code_cancels_fails_the_run(way: Body) -> None:
    """Else a replay, which finds the call done, would not take the way of the first execution."""

    async def another_way(ctx: AsyncContext) -> str:
        with suppress(Exception, BaseExceptionGroup, asyncio.CancelledError):
            await way(ctx)
            return "one way"
        return await ctx.step("b", lambda: "another way")

    run = work(another_way)
    error = misused(run)
    assert "context.py" in error["traceback"]
    assert run.steps() == []
    assert calls == [1, "hangs", "hung"]


@pytest.mark.parametrize("way", WAYS)
def test_a_misuse_that_nobody_caught_is_not_tried_again(way: Body) -> None:
    run = work(way)
    misused(run)
    assert calls == [1, "hangs", "hung"]


def once(condition: Callable[[], object], call: Callable[[], object]) -> None:
    """Make ``call`` in the turn of the loop in which ``condition()`` is found to hold."""
    if condition():
        call()
    else:
        asyncio.get_running_loop().call_soon(once, condition, call)


def test_a_plain_step_is_waited_for_and_journaled() -> None:
    """Its thread cannot be cancelled: what it has done is not to be done again."""

    def slow() -> str:
        calls.append("begins")
        assert leave.wait(30)
        return "done"

    async def impatient(ctx: AsyncContext) -> None:
        try:
            async with asyncio.timeout(SOON) as scope:
                once(scope.expired, leave.set)
                await ctx.step("a", slow)
        finally:
            calls.append(scope.expired())

    leave = threading.Event()
    run = work(impatient)
    misused(run)
    assert calls == [1, "begins", True]
    assert [(step.path, step.status, step.value) for step in run.steps()] == [("a", "succeeded", "done")]


@pytest.mark.parametrize("retry", [AT_ONCE, LATER])
def test_a_plain_step_that_failed_meanwhile_is_not_tried_again(retry: Retry) -> None:
    def fail() -> None:
        calls.append("begins")
        assert leave.wait(30)
        raise ValueError

    async def impatient(ctx: AsyncContext) -> None:
        call = asyncio.create_task(ctx.step("a", fail, retry=retry))
        once(call.cancelling, leave.set)
        await asyncio.wait_for(call, SOON)

    leave = threading.Event()
    run = work(impatient)
    error = misused(run)
    assert "Unwind" not in str(error.get("cause"))
    assert calls == [1, "begins"]
    assert [(step.path, step.status, step.attempts) for step in run.steps()] == [("a", "retrying", 1)]


@pytest.mark.parametrize("is_left", [False, True])
def test_a_plain_step_that_leads_to_a_coroutine_leads_to_nothing_more(is_left: bool) -> None:
    def lead() -> Awaitable[None]:
        assert leave.wait(30)
        return hang()

    async def impatient(ctx: AsyncContext) -> None:
        call = asyncio.create_task(ctx.step("a", lead))
        if is_left:
            turns = iter(range(20))
            once(lambda: next(turns, None) is None, leave.set)
        else:
            once(call.cancelling, leave.set)
            await asyncio.wait_for(call, SOON)

    leave = threading.Event()
    run = work(impatient)
    if is_left:
        assert run.error is not None
        assert "ended while its ctx call 'a' was under way" in run.error["message"]
    else:
        misused(run)
    assert calls == [1]
    assert run.steps() == []


def test_an_atomic_step_is_committed_whole() -> None:
    def count() -> int:
        counter = Counter.objects.create(name="x", value=7)
        assert leave.wait(30)
        return counter.value

    async def impatient(ctx: AsyncContext) -> None:
        async with asyncio.timeout(SOON) as scope:
            once(scope.expired, leave.set)
            await ctx.step("a", count, atomic=True)

    leave = threading.Event()
    run = work(impatient)
    misused(run)
    assert Counter.objects.get().value == 7
    assert [(step.path, step.value) for step in run.steps()] == [("a", 7)]


# --- while it commits ------------------------------------------------------------------------


class SlowCommit(DirectCommit):
    """Tells when its first write begins, and makes it when it is let to."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self.begun, self.leave = threading.Event(), threading.Event()

    def write(self, lease: Lease, write: Write) -> Receipt:
        self.begun.set()
        assert self.leave.wait(30)
        return super().write(lease, write)


async def until(event: threading.Event) -> None:
    while not event.is_set():
        await asyncio.sleep(0.001)


async def turns() -> None:
    """Time enough for whoever is cancelled to end."""
    for _ in range(20):
        await asyncio.sleep(0)


def attempt(
    run_body: Body, meanwhile: Callable[[asyncio.Task[Outcome], Claim], Awaitable[Any]], commit: DirectCommit
) -> tuple[RunHandle[Any], Outcome]:
    """One attempt, and what happens beside it on its loop."""
    body[:] = [run_body]
    run = given.enqueue()
    who = Claimant(uuid7(), ("default",), ("cancelled.given",))
    [claim] = claim_next(Database(), who, 1, lease=30, time=DatabaseClock())

    async def make() -> Outcome:
        made = asyncio.create_task(arun_attempt(claim, given, commit))
        await meanwhile(made, claim)
        return await made

    return run, async_to_sync(make)()


async def quick() -> str:
    return "done"


@pytest.mark.parametrize("is_the_worker", [False, True])
def test_a_commit_under_way_is_not_abandoned(is_the_worker: bool) -> None:
    commit, step_calls = SlowCommit(Database()), list[asyncio.Task[str]]()

    async def in_a_task(ctx: AsyncContext) -> str:
        step_calls.append(asyncio.create_task(ctx.step("a", quick)))
        return await step_calls[0]

    async def cancel(made: asyncio.Task[Outcome], claim: Claim) -> None:
        await until(commit.begun)
        for _ in range(3):
            (made if is_the_worker else step_calls[0]).cancel()
            await turns()
        assert not made.done()
        assert not step_calls[0].done()
        commit.leave.set()

    run, outcome = attempt(in_a_task, cancel, commit)
    assert [(step.path, step.value) for step in run.steps()] == [("a", "done")]
    if is_the_worker:
        assert outcome == Released()
        assert run.refresh().status == Status.QUEUED
    else:
        assert isinstance(outcome, Failed)
        misused(run.refresh())


def test_nor_is_one_of_the_testing_kit() -> None:
    """There the receivers of signals are called before the commit returns."""
    loops: list[asyncio.AbstractEventLoop] = []
    step_calls: list[asyncio.Task[str]] = []
    cancelled = threading.Event()

    async def in_a_task(ctx: AsyncContext) -> str:
        loops.append(asyncio.get_running_loop())
        step_calls.append(asyncio.create_task(ctx.step("a", quick)))
        try:
            return await step_calls[0]
        finally:
            calls.append("over")

    async def cancel_it() -> None:
        step_calls[0].cancel()
        await turns()
        cancelled.set()

    def receive(**facts: Any) -> None:
        asyncio.run_coroutine_threadsafe(cancel_it(), loops[0])
        assert cancelled.wait(30)
        calls.append("told")

    step_succeeded.connect(receive)
    try:
        run = work(in_a_task)
    finally:
        step_succeeded.disconnect(receive)
    misused(run)
    assert calls == [1, "told", "over"]


# --- by the worker ---------------------------------------------------------------------------


async def until_it_hangs(made: asyncio.Task[Outcome], claim: Claim) -> None:
    while "hangs" not in calls:
        await asyncio.sleep(0)


async def cancel(made: asyncio.Task[Outcome], claim: Claim) -> None:
    await until_it_hangs(made, claim)
    made.cancel()


@pytest.mark.parametrize("way", WAYS[:-1])
def test_the_worker_may_cancel_whatever_the_code_would_have_done_later(
    way: Body, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.SOON", 30)

    async def patient_task(ctx: AsyncContext) -> None:
        # Awaited by the function: it is cancelled with it.
        await asyncio.create_task(ctx.step("a", hang))

    run, outcome = attempt(patient_task if way is task else way, cancel, DirectCommit(Database()))
    assert outcome == Released()
    assert (run.refresh().status, run.attempt, run.steps()) == (Status.QUEUED, 1, [])
    assert calls == [1, "hangs", "hung"]


def test_a_run_that_is_asked_to_stop_ends_as_asked() -> None:
    async def ask_and_cancel(made: asyncio.Task[Outcome], claim: Claim) -> None:
        await until_it_hangs(made, claim)
        claim.lease.cancel_requested = True
        made.cancel()

    async def lose_and_cancel(made: asyncio.Task[Outcome], claim: Claim) -> None:
        await until_it_hangs(made, claim)
        claim.lease.lose()
        made.cancel()

    assert attempt(its_own_task, ask_and_cancel, DirectCommit(Database()))[1] == Cancelled()
    calls.clear()
    assert attempt(its_own_task, lose_and_cancel, DirectCommit(Database()))[1] == Lost()


def test_code_that_swallows_the_worker_s_cancellation_does_nothing_more() -> None:
    async def stubborn(ctx: AsyncContext) -> str:
        with suppress(asyncio.CancelledError):
            await ctx.step("a", hang)
        with suppress(BaseException):
            await ctx.step("b", lambda: calls.append("b"))
        return "over"

    run, outcome = attempt(stubborn, cancel, DirectCommit(Database()))
    assert outcome == Released()
    assert run.refresh().status == Status.QUEUED
    assert calls == [1, "hangs", "hung"]


def test_the_worker_waits_for_a_plain_step_and_journals_it() -> None:
    """Else the run would be handed back while its code is running, and another worker could run the step as well."""
    begun, leave = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert leave.wait(30)
        return "done"

    async def patient(ctx: AsyncContext) -> None:
        await ctx.step("a", slow)
        await asyncio.Event().wait()

    async def interrupt(made: asyncio.Task[Outcome], claim: Claim) -> None:
        await until(begun)
        for _ in range(3):
            made.cancel()
            await turns()
        assert not made.done()
        leave.set()

    run, outcome = attempt(patient, interrupt, DirectCommit(Database()))
    assert outcome == Released()
    assert [(step.path, step.value) for step in run.steps()] == [("a", "done")]


def test_a_misuse_stands_although_the_worker_cancels() -> None:
    async def misuse_and_wait(ctx: AsyncContext) -> None:
        with suppress(Exception):
            await timeout(ctx)
        calls.append("caught")
        await asyncio.Event().wait()

    async def interrupt(made: asyncio.Task[Outcome], claim: Claim) -> None:
        while "caught" not in calls:
            await asyncio.sleep(0.001)
        made.cancel()

    run, outcome = attempt(misuse_and_wait, interrupt, DirectCommit(Database()))
    assert isinstance(outcome, Failed)
    misused(run.refresh())


# --- what harms nobody -----------------------------------------------------------------------


async def in_time(ctx: AsyncContext) -> str:
    async with asyncio.timeout(30):
        first = await ctx.step("a", quick)
    return first + await asyncio.wait_for(ctx.step("b", lambda: "!"), 30)


async def around_a_suspension(ctx: AsyncContext) -> str:
    async with asyncio.timeout(30):
        await asyncio.wait_for(ctx.sleep("nap", 60), 30)
        await ctx.wait_for_event("never", timeout=60, default=None)
    return "done!"


async def within_a_step(ctx: AsyncContext) -> str:
    async def impatient() -> str:
        try:
            async with asyncio.timeout(SOON):
                await asyncio.Event().wait()
        except TimeoutError:
            return "done"
        return "in time"

    return await ctx.step("a", impatient) + "!"


async def around_something_else(ctx: AsyncContext) -> str:
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), SOON)
    with suppress(TimeoutError):
        async with asyncio.timeout(SOON):
            await asyncio.Event().wait()
    return await ctx.step("a", quick) + "!"


async def before_its_first_turn(ctx: AsyncContext) -> str:
    call = asyncio.create_task(ctx.step("a", hang))
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    return await ctx.step("a", quick) + "!"


HARMLESS: list[Body] = [in_time, around_a_suspension, within_a_step, around_something_else, before_its_first_turn]


@pytest.mark.parametrize("run_body", HARMLESS)
def test_what_cancels_no_call_under_way_is_well(run_body: Body) -> None:
    run = work(run_body)
    run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == "done!"
    assert "hangs" not in calls


def test_a_step_that_cancels_itself_has_failed() -> None:
    async def cancelled() -> None:
        calls.append("tried")
        raise asyncio.CancelledError

    async def catching(ctx: AsyncContext) -> int:
        try:
            await ctx.step("a", cancelled)
        except StepFailed as error:
            return error.attempts
        return 0

    run = work(catching)
    assert run.result(timeout=0) == 3
    assert calls == [1, "tried", "tried", "tried"]


def test_a_function_that_cancels_its_own_task_outside_of_calls_has_failed() -> None:
    """It was handed back before, and so tried without an end."""

    async def self_willed(ctx: AsyncContext) -> None:
        own = asyncio.current_task()
        assert own is not None
        own.cancel()
        await asyncio.sleep(0)

    run = work(self_willed)
    assert run.status == Status.FAILED
    assert run.attempt == 3
    assert run.error is not None
    assert run.error["type"] == "asyncio.exceptions.CancelledError"
