"""``ctx`` calls side by side, in other threads and after the end: refused. Nothing acts once the attempt is over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction

from django_durable import AsyncContext, Break, Context, Retry, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.core.journal.outcomes import Failed, Outcome, Released
from django_durable.core.journal.states import Status
from django_durable.core.unwinding import Unwind
from django_durable.exceptions import ContextMisuse, RunFailed
from django_durable.executor.async_attempt import arun_attempt
from django_durable.store.claiming import Claim, Claimant, claim_next
from django_durable.store.database import Database
from django_durable.testing import force_replay, run_until_idle
from tests.direct_commit import DirectCommit

from .on_a_loop import after_turns

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract, pytest.mark.usefixtures("on_each_loop")]
PATIENCE = 60
AT_ONCE = Retry(max_attempts=3, initial=0, maximum=0)
Body = Callable[[AsyncContext], Awaitable[Any]]
calls: list[Any] = []
body: list[Body] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    body.clear()


@durable_workflow(name="beside.given", retry=AT_ONCE, step_retry=AT_ONCE)
async def given(ctx: AsyncContext) -> Any:
    calls.append(ctx.attempt)
    return await body[0](ctx)


async def turn() -> str:
    await asyncio.sleep(0)
    return "turned"


async def hang() -> None:
    calls.append("hangs")
    try:
        await asyncio.Event().wait()
    finally:
        calls.append("hung")


def misused(run: RunHandle[Any]) -> dict[str, Any]:
    """The error of a run that has failed at once, for a ctx call that was refused."""
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    error = caught.value.error
    assert error["type"] == "django_durable.exceptions.ContextMisuse", error
    assert run.attempt == 1
    return error


def work(run_body: Body) -> RunHandle[Any]:
    body[:] = [run_body]
    run = given.enqueue()
    run_until_idle()
    return run


# --- side by side ----------------------------------------------------------------------------


async def in_group(ctx: AsyncContext) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ctx.step("a", turn))
        tasks.create_task(ctx.step("b", turn))


async def racing(ctx: AsyncContext) -> Any:
    waits = [asyncio.create_task(ctx.sleep("a", 60)), asyncio.create_task(ctx.wait_for_event("b"))]
    done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    return [task.result() for task in done]


async def beside_a_task(ctx: AsyncContext) -> Any:
    task = asyncio.create_task(ctx.step("a", turn))
    await asyncio.sleep(0)
    try:
        return str(ctx.now())
    finally:
        task.cancel()


SIDE_BY_SIDE: dict[str, Body] = {
    "step and sleep": lambda ctx: asyncio.gather(ctx.step("a", turn), ctx.sleep("b", 60)),
    "sleep and step": lambda ctx: asyncio.gather(ctx.sleep("a", 60), ctx.step("b", turn)),
    "plain steps": lambda ctx: asyncio.gather(ctx.step("a", int), ctx.step("b", int)),
    "events": lambda ctx: asyncio.gather(ctx.wait_for_event("a"), ctx.wait_for_event("b")),
    "caught": lambda ctx: asyncio.gather(ctx.step("a", turn), ctx.step("b", turn), return_exceptions=True),
    "in a group": in_group,
    "racing": racing,
}


@pytest.mark.parametrize("run_body", SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE)
def test_a_call_beside_another_one_fails_the_run_at_once(run_body: Body) -> None:
    error = misused(work(run_body))
    assert "at 'b' while its call 'a' was not over. Await each ctx call before the next one" in error["message"]
    assert "context.py" in error["traceback"]
    assert calls == [1]


def test_a_value_is_a_call_too() -> None:
    assert "at 'now' while its call 'a' was not over" in misused(work(beside_a_task))["message"]


def test_tasks_that_are_awaited_one_after_the_other_are_well() -> None:
    async def one_by_one(ctx: AsyncContext) -> list[Any]:
        first = await asyncio.create_task(ctx.step("a", turn))
        await asyncio.wait_for(ctx.sleep("b", 60), 30)
        return [first, await asyncio.create_task(ctx.step("c", turn))]

    run = work(one_by_one)
    assert run.refresh().status == Status.WAITING
    run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == ["turned", "turned"]


def test_a_function_that_only_unwinds_is_well() -> None:
    async def tidy(ctx: AsyncContext) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(ctx.sleep("nap", 60))
        finally:
            await ctx.step("tidy up", calls.append, "tidied")

    run = work(tidy)
    assert run.refresh().status == Status.WAITING
    assert calls == [1]
    run_until_idle(skip_waits=True)
    run.result(timeout=0)
    assert calls == [1, 1, "tidied"]


def test_what_unwinds_within_a_transaction_only_unwinds() -> None:
    seen: list[type[BaseException]] = []

    @durable_workflow(name="beside.unwinding")
    def unwinding(ctx: Context) -> None:
        try:
            ctx.sleep("nap", 60)
        finally:
            try:
                with transaction.atomic():
                    ctx.step("tidy up", int)
            except BaseException as error:
                seen.append(type(error))

    run = unwinding.enqueue()
    run_until_idle()
    assert run.status == Status.WAITING
    assert seen == [Unwind]


# --- still under way at the end --------------------------------------------------------------


async def leave_it(ctx: AsyncContext) -> str:
    calls.append(asyncio.create_task(ctx.step("a", hang)))
    while "hangs" not in calls:
        await asyncio.sleep(0)
    return "left"


async def leave_it_before_its_first_turn(ctx: AsyncContext) -> str:
    calls.append(asyncio.create_task(ctx.step("a", hang)))
    return "left"


async def fail_meanwhile(ctx: AsyncContext) -> str:
    calls.append(asyncio.create_task(ctx.step("a", hang)))
    raise ValueError("mine")


@pytest.mark.behaviour("STEP-09b")
@pytest.mark.parametrize("run_body", [leave_it, leave_it_before_its_first_turn, fail_meanwhile])
def test_a_call_that_is_left_under_way_is_ended_and_fails_the_run(run_body: Body) -> None:
    run = work(run_body)
    error = misused(run)
    assert "ended while its ctx call 'a' was under way. Await each ctx call" in error["message"]
    assert error.get("cause", {}).get("message") == ("mine" if run_body is fail_meanwhile else None)
    assert [call for call in calls if isinstance(call, str)] == ["hangs", "hung"]
    assert run.steps() == []


def test_a_thread_is_waited_for() -> None:
    async def leave_a_thread(ctx: AsyncContext) -> None:
        async def several() -> None:
            await ctx.step("a", slow)
            ctx.now()

        calls.append(asyncio.create_task(several()))
        after_turns(leave.set)

    leave = threading.Event()

    def slow() -> str:
        assert leave.wait(PATIENCE)
        calls.append("slept")
        return "done"

    run = work(leave_a_thread)
    misused(run)
    assert calls[2:] == ["slept"]
    assert [(step.path, step.value) for step in run.steps()] == [("a", "done")]


def test_a_thread_that_failed_is_not_tried_again() -> None:
    async def leave_a_thread(ctx: AsyncContext) -> None:
        async def several() -> None:
            await ctx.step("a", fail)
            await ctx.step("b", int)

        calls.append(asyncio.create_task(several()))
        after_turns(leave.set)

    leave = threading.Event()

    def fail() -> None:
        assert leave.wait(PATIENCE)
        calls.append("failed")
        raise ValueError

    run = work(leave_a_thread)
    misused(run)
    assert calls[2:] == ["failed"]
    assert [(step.path, step.attempts) for step in run.steps()] == [("a", 1)]


def test_a_step_that_refuses_to_be_cancelled_is_waited_for() -> None:
    async def stubborn() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(300)
        for _ in range(20):
            await asyncio.sleep(0)
        calls.append("over")

    async def leave_it_stubborn(ctx: AsyncContext) -> None:
        calls.append(asyncio.create_task(ctx.step("a", stubborn)))

    misused(work(leave_it_stubborn))
    assert calls[2:] == ["over"]


def attempt(run_body: Body, meanwhile: Callable[[asyncio.Task[Outcome]], Awaitable[Any]]) -> Outcome:
    """One attempt in a loop that lives on after it."""
    body[:] = [run_body]
    given.enqueue()
    db = Database()
    (claim,) = claim_next(db, Claimant(uuid7(), ("default",), ("beside.given",)), 1, lease=30, time=DatabaseClock())

    async def make(claim: Claim) -> Outcome:
        task = asyncio.create_task(arun_attempt(claim, given, DirectCommit(db)))
        await meanwhile(task)
        return await task

    return async_to_sync(make)(claim)


def test_a_task_that_lives_on_can_do_nothing() -> None:
    errors: list[BaseException] = []

    async def persistent(ctx: AsyncContext) -> None:
        while not errors:
            # Whoever cancels it does not get rid of it.
            with suppress(asyncio.CancelledError):
                await over.wait()
                try:
                    await ctx.step("late", calls.append, "late")
                except BaseException as error:
                    errors.append(error)

    over = asyncio.Event()

    async def leave_persistent(ctx: AsyncContext) -> str:
        calls.append(asyncio.create_task(persistent(ctx)))
        return "left"

    async def wait(task: asyncio.Task[Outcome]) -> None:
        await task
        over.set()
        await calls[1]

    attempt(leave_persistent, wait)
    [error] = errors
    assert isinstance(error, ContextMisuse)
    assert "after the workflow's function had ended, at 'late'" in str(error)
    assert "late" not in calls


def test_a_task_whose_thread_was_waited_for_is_cancelled() -> None:
    async def leave_a_thread(ctx: AsyncContext) -> None:
        async def several() -> None:
            await ctx.step("a", leave.wait, PATIENCE)
            await asyncio.Event().wait()

        calls.append(asyncio.create_task(several()))
        after_turns(leave.set)

    leave = threading.Event()

    async def wait(task: asyncio.Task[Outcome]) -> None:
        await task
        await asyncio.wait({calls[1]}, timeout=PATIENCE)

    attempt(leave_a_thread, wait)
    assert calls[1].cancelled()


@pytest.mark.parametrize("is_in_thread", [False, True])
def test_an_attempt_that_is_interrupted_ends_what_it_left_under_way(is_in_thread: bool) -> None:
    def slow() -> None:
        calls.append("hangs")
        assert leave.wait(PATIENCE)
        calls.append("hung")

    leave = threading.Event()

    async def wait_for_it(ctx: AsyncContext) -> None:
        await asyncio.wait({asyncio.create_task(ctx.step("a", slow if is_in_thread else hang))})

    async def interrupt(task: asyncio.Task[Outcome]) -> None:
        while "hangs" not in calls:
            await asyncio.sleep(0.001)
        for _ in range(5 if is_in_thread else 1):
            task.cancel()
            await asyncio.sleep(0)
        leave.set()

    assert attempt(wait_for_it, interrupt) == Released()
    assert calls == [1, "hangs", "hung"]


# --- never begun -----------------------------------------------------------------------------


async def forget_a_step(ctx: AsyncContext) -> str:
    ctx.step("charge", note)  # type: ignore[unused-coroutine]
    await ctx.step("other", turn)
    return "paid"


async def forget_the_last(ctx: AsyncContext) -> str:
    await ctx.step("other", turn)
    ctx.step("charge", note)  # type: ignore[unused-coroutine]
    return "paid"


async def forget_a_join(ctx: AsyncContext) -> str:
    ctx.join("charge", {"a": lambda ctx: ctx.step("a", note)})  # type: ignore[unused-coroutine]
    return "paid"


async def forget_in_a_branch(ctx: AsyncContext) -> Any:
    async def branch(ctx: AsyncContext) -> str:
        ctx.sleep("charge", 60)  # type: ignore[unused-coroutine]
        return "slept"

    return await ctx.join("both", {"a": branch})


async def forget_in_a_turn(ctx: AsyncContext) -> Any:
    async def once(ctx: AsyncContext, state: None) -> Break:
        ctx.step("charge", note)  # type: ignore[unused-coroutine]
        return Break()

    return await ctx.loop("turns", once)


async def return_it(ctx: AsyncContext) -> Any:
    return ctx.step("charge", note)


def note() -> None:
    calls.append("charged")


FORGETFUL = [forget_a_step, forget_the_last, forget_a_join, forget_in_a_branch, forget_in_a_turn, return_it]


@pytest.mark.behaviour("STEP-09b")
@pytest.mark.parametrize("run_body", FORGETFUL)
def test_a_call_that_is_never_awaited_fails_the_run(run_body: Body) -> None:
    # Replayed before every commit: an attempt that only unwinds has forgotten nothing yet.
    with force_replay() if run_body is forget_a_step else nullcontext():
        run = work(run_body)
    assert "The ctx call 'charge' was not awaited, so nothing of it was done" in misused(run)["message"]
    assert "charged" not in calls


def test_calls_may_be_made_before_they_are_awaited() -> None:
    async def prepare(ctx: AsyncContext) -> list[str]:
        made = [ctx.step("a", turn, key=n) for n in range(3)]
        first = await made[1]
        return [first, await made[0], await asyncio.wait_for(made[2], 30)]

    assert work(prepare).result(timeout=0) == ["turned"] * 3


def test_what_the_function_did_not_come_to_is_not_forgotten() -> None:
    async def wait(ctx: AsyncContext) -> str:
        later = ctx.step("later", turn)
        await ctx.sleep("nap", 60)
        return await later

    run = work(wait)
    assert run.refresh().status == Status.WAITING

    async def fail(ctx: AsyncContext) -> str:
        later = ctx.step("later", turn)
        await ctx.step("fail", int, "x", retry=Retry(max_attempts=1))
        return await later

    run = work(fail)
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    assert caught.value.error["type"] == "django_durable.exceptions.StepFailed"


# --- other threads ---------------------------------------------------------------------------


def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(function, *args).result()


@durable_workflow(name="beside.threads", retry=AT_ONCE)
def threads(ctx: Context, call: str) -> Any:
    match call:
        case "step":
            return in_thread(ctx.step, "a", int)
        case "sleep":
            return in_thread(ctx.sleep, "a", 60)
        case _:
            return str(in_thread(ctx.now))


@pytest.mark.parametrize("call", ["step", "sleep", "now"])
def test_a_call_in_another_thread_is_refused(call: str) -> None:
    run = threads.enqueue(call)
    run_until_idle()
    assert f"another thread than the workflow's own, at {'now' if call == 'now' else 'a'!r}" in misused(run)["message"]
    assert run.steps() == []


@pytest.mark.parametrize("to_thread", [asyncio.to_thread, lambda fn: sync_to_async(fn)()])
def test_a_call_in_another_thread_is_refused_in_async_workflows(to_thread: Any) -> None:
    async def ask(ctx: AsyncContext) -> str:
        return str(await to_thread(ctx.now))

    assert "another thread than the workflow's own, at 'now'" in misused(work(ask))["message"]


def outlive(errors: list[BaseException], function: Callable[..., Any], *args: Any) -> None:
    """Call it in a thread that nobody hears anything of."""

    def call() -> None:
        try:
            function(*args)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


@pytest.mark.parametrize("where", ["function", "branch", "step", "async"])
def test_a_thread_that_nobody_hears_of_fails_the_run(where: str) -> None:
    errors: list[BaseException] = []

    @durable_workflow(name="beside.unheard", retry=AT_ONCE)
    def unheard(ctx: Context) -> str:
        match where:
            case "function":
                outlive(errors, ctx.step, "a", int)
            case "branch":
                ctx.join("both", {"a": lambda ctx: outlive(errors, ctx.step, "a", int), "b": lambda ctx: 1})
            case _:
                ctx.step("a step", outlive, errors, ctx.step, "a", int)
        return "nothing heard"

    async def unheard_async(ctx: AsyncContext) -> str:
        outlive(errors, ctx.now)
        return "nothing heard"

    if where == "async":
        run: RunHandle[Any] = work(unheard_async)
    else:
        run = unheard.enqueue()
        run_until_idle()
    assert "another thread than the workflow's own" in misused(run)["message"]
    assert [type(error) for error in errors] == [ContextMisuse]


def test_a_ctx_that_was_kept_is_of_no_use() -> None:
    kept: list[Context] = []

    @durable_workflow(name="beside.keeping")
    def keeping(ctx: Context) -> int:
        kept.append(ctx)
        return threading.get_ident()

    run = keeping.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == threading.get_ident()
    with pytest.raises(ContextMisuse, match="after the workflow's function had ended, at 'late'"):
        kept[0].step("late", int)


def test_on_failure_hears_of_it() -> None:
    heard: list[str] = []

    @durable_workflow(name="beside.heard", on_failure=lambda failure: heard.append(failure.error["type"]))
    async def told(ctx: AsyncContext) -> Any:
        return await asyncio.gather(ctx.step("a", turn), ctx.step("b", turn), return_exceptions=True)

    run = told.enqueue()
    run_until_idle()
    misused(run)
    assert heard == ["django_durable.exceptions.ContextMisuse"]


def test_the_outcome_is_a_failure_also_where_it_was_caught() -> None:
    async def nothing(task: asyncio.Task[Outcome]) -> None:
        return None

    assert isinstance(attempt(SIDE_BY_SIDE["caught"], nothing), Failed)
