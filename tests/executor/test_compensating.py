"""Compensation as part of a run's life: what brings it about, how it looks from outside, and how the run then ends."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from django_durable import (
    AsyncContext,
    Context,
    NonRetriableError,
    Retry,
    RollbackError,
    current_step,
    durable_workflow,
    get_run,
)
from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import EntryStatus, Phase, Status
from django_durable.exceptions import RunCancelled, RunFailed
from django_durable.models import JournalEntry
from django_durable.testing import crash_after, force_replay, run_until_idle, travel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
AT_ONCE = Retry(max_attempts=2, initial=0, maximum=0)
ONCE = Retry(max_attempts=1)
log: list[Any] = []
broken: list[Exception] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    log.clear()
    broken.clear()


def take(what: str) -> str:
    log.append(what)
    return what


def give_back(what: str) -> None:
    if broken:
        raise broken.pop(0)
    log.append(f"-{what}")


async def agive_back(what: str) -> None:
    give_back(what)


def fail(how: str) -> None:
    match how:
        case "rollback":
            raise RollbackError("undo it all")
        case "critical":
            raise NonRetriableError("never")
        case _:
            raise ValueError(how)


@durable_workflow(name="undo.order", retry=AT_ONCE, step_retry=AT_ONCE, on_failure=lambda failure: take("told"))
def order(ctx: Context, how: str) -> str:
    ctx.step("stock", take, "stock", compensate=give_back)
    ctx.step("card", take, "card", compensate=give_back)
    if how == "wait":
        ctx.wait_for_event("packed")
    if how == "body":
        fail(how)
    if how != "well":
        ctx.step("ship", fail, how)
    return "shipped"


@durable_workflow(name="undo.order_async", retry=AT_ONCE, step_retry=AT_ONCE, on_failure=lambda failure: take("told"))
async def order_async(ctx: AsyncContext, how: str) -> str:
    await ctx.step("stock", take, "stock", compensate=agive_back)
    await ctx.step("card", take, "card", compensate=give_back)
    if how == "wait":
        await ctx.wait_for_event("packed")
    if how == "body":
        fail(how)
    if how != "well":
        await ctx.step("ship", fail, how)
    return "shipped"


both = pytest.mark.parametrize("workflow", [order, order_async], ids=["sync", "async"])


def error_of(run: RunHandle[Any]) -> dict[str, Any]:
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    return caught.value.error


@pytest.mark.behaviour("FLOW-06a")
@both
@pytest.mark.parametrize(
    ("how", "error"),
    [("step", "StepFailed"), ("body", "ValueError"), ("rollback", "StepFailed"), ("critical", "StepFailed")],
)
def test_a_run_that_fails_undoes_what_it_did_then_tells_and_ends_with_its_own_error(
    workflow: Any, how: str, error: str
) -> None:
    run = workflow.enqueue(how)
    run_until_idle()
    assert log == ["stock", "card", "-card", "-stock", "told"]
    assert error_of(run)["type"].rpartition(".")[2] == error
    assert "not_undone" not in error_of(run)
    entries = JournalEntry.objects.filter(run_id=run.id, kind="undo").order_by("seq")
    assert [(entry.path, entry.status, entry.attempts) for entry in entries] == [
        ("card%undo", EntryStatus.SUCCEEDED, 1),
        ("stock%undo", EntryStatus.SUCCEEDED, 1),
    ]


@both
def test_a_run_that_succeeds_undoes_nothing(workflow: Any) -> None:
    run = workflow.enqueue("well")
    run_until_idle()
    assert run.result(timeout=0) == "shipped"
    assert log == ["stock", "card"]


@pytest.mark.behaviour("FLOW-06i")
@both
def test_a_cancelled_run_undoes_too_and_on_failure_is_not_told(workflow: Any) -> None:
    run = workflow.enqueue("wait")
    run_until_idle()
    run.cancel("changed my mind")
    run_until_idle()
    assert log == ["stock", "card", "-card", "-stock"]
    with pytest.raises(RunCancelled):
        run.result(timeout=0)


@durable_workflow(name="undo.kept", step_retry=AT_ONCE, compensate_on_cancel=False)
def kept(ctx: Context) -> None:
    ctx.step("stock", take, "stock", compensate=give_back)
    ctx.wait_for_event("packed")


@pytest.mark.behaviour("FLOW-06i")
def test_a_workflow_may_keep_what_a_cancelled_run_did() -> None:
    run = kept.enqueue()
    run_until_idle()
    run.cancel()
    run_until_idle()
    assert run.refresh().status == Status.CANCELLED
    assert log == ["stock"]


@pytest.mark.behaviour("FLOW-06j")
@both
def test_a_deadline_ends_the_run_and_does_not_bind_its_compensation(workflow: Any) -> None:
    run = workflow.using(timeout=timedelta(hours=1)).enqueue("wait")
    with travel() as clock:
        run_until_idle()
        clock.advance(hours=2)
        run_until_idle()
    assert error_of(run)["type"].endswith("RunTimeout")
    assert log == ["stock", "card", "-card", "-stock", "told"]


@pytest.mark.behaviour("FLOW-06e")
@both
def test_while_it_waits_for_a_compensation_s_retry_it_is_seen_as_compensating(workflow: Any) -> None:
    broken.append(OSError("away"))
    run = workflow.using().enqueue("rollback")
    patient = Retry(max_attempts=3, initial=60, jitter=0)
    object.__setattr__(workflow.options, "step_retry", patient)
    try:
        run_until_idle()
        row = run.refresh().run
        assert (row.status, row.phase, row.waiting_on) == (Status.WAITING, Phase.COMPENSATING, "retry:card%undo")
        assert run.why().text.startswith("It undoes what it did")
        assert log == ["stock", "card"]
        run_until_idle(skip_waits=True)
    finally:
        object.__setattr__(workflow.options, "step_retry", AT_ONCE)
    assert log == ["stock", "card", "-card", "-stock", "told"]


@pytest.mark.behaviour("FLOW-06c")
@both
def test_a_compensation_that_fails_for_good_is_told_with_the_error_and_the_others_still_run(workflow: Any) -> None:
    broken.extend([OSError("away"), OSError("gone")])
    run = workflow.enqueue("body")
    run_until_idle()
    assert log == ["stock", "card", "-stock", "told"]
    error = error_of(run)
    assert error["type"] == "ValueError"
    assert error["not_undone"]["card"]["message"] == "gone"


@pytest.mark.behaviour("FLOW-06d")
@both
@pytest.mark.parametrize("path", ["card%undo", "stock%undo"])
def test_a_crash_between_compensations_repeats_none(workflow: Any, path: str) -> None:
    run = workflow.enqueue("body")
    with crash_after(path):
        run_until_idle()
    assert log == ["stock", "card", "-card", "-stock", "told"]
    assert error_of(run)["type"] == "ValueError"


@durable_workflow(name="undo.patient", step_retry=Retry(max_attempts=2, initial=60, jitter=0))
def patient(ctx: Context) -> None:
    ctx.step("stock", take, "stock", compensate=give_back)
    ctx.wait_for_event("packed")


def test_that_it_was_cancelled_does_not_cut_the_back_off_of_a_compensation_short() -> None:
    broken.append(OSError("away"))
    run = patient.enqueue()
    run_until_idle()
    run.cancel()
    assert run_until_idle(max_claims=20) == 2
    assert run.refresh().run.waiting_on == "retry:stock%undo"
    run_until_idle(skip_waits=True)
    assert (run.refresh().status, log) == (Status.CANCELLED, ["stock", "-stock"])


@both
def test_a_cancellation_that_came_first_undoes_although_the_function_returned(
    workflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for inside the last step, and acknowledged with that step's commit or with the outcome."""
    run = workflow.enqueue("well")

    def take_and_cancel(what: str) -> str:
        if what == "card":
            run.cancel()
        log.append(what)
        return what

    monkeypatch.setitem(globals(), "take", take_and_cancel)
    run_until_idle()
    assert run.refresh().status == Status.CANCELLED
    assert log == ["stock", "card", "-card", "-stock"]


@durable_workflow(name="undo.racing", retry=AT_ONCE, step_retry=AT_ONCE)
def racing(ctx: Context) -> Any:
    def loser(ctx: Context) -> None:
        ctx.step("lost", take, "lost", compensate=give_back)
        ctx.wait_for_event("never")

    winner = ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.step("won", take, "won", compensate=give_back)})
    ctx.wait_for_event("go")
    return winner


@pytest.mark.behaviour("FLOW-02d")
def test_losers_of_a_race_are_undone_before_the_run_comes_to_a_rest() -> None:
    run = racing.enqueue()
    run_until_idle()
    assert log == ["lost", "won", "-lost"]
    assert run.refresh().run.waiting_on == "event:go"
    run.send_event("go")
    run_until_idle()
    assert run.result(timeout=0) == ("winner", "won")
    assert log == ["lost", "won", "-lost"]


def test_a_loser_s_compensation_that_fails_is_tried_again_and_the_run_does_not_end_before() -> None:
    broken.append(OSError("away"))
    run = racing.using().enqueue()
    run.send_event("go")
    run_until_idle()
    assert run.result(timeout=0) == ("winner", "won")
    assert log == ["lost", "won", "-lost"]
    entry = JournalEntry.objects.get(run_id=run.id, path="any/loser/lost%undo")
    assert entry.attempts == 2


@durable_workflow(name="undo.racing_within", retry=AT_ONCE, step_retry=AT_ONCE)
def racing_within(ctx: Context, pauses: bool = False) -> str:
    def loser(ctx: Context) -> None:
        ctx.step("lost", take, "lost", compensate=give_back)
        ctx.wait_for_event("never")

    ctx.try_block("at", lambda ctx: ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.sleep("nap", 1)})[0])
    ctx.step("later", pause_own_run if pauses else int)
    return ctx.step("last", take, "last")


def pause_own_run() -> None:
    get_run(current_step().run_id).pause()


@pytest.mark.behaviour("FLOW-02d", "FLOW-06l")
def test_a_loser_in_a_scope_that_is_over_is_undone_after_a_crash_and_under_forced_replay() -> None:
    with crash_after("later"):
        racing_within.enqueue()
        run_until_idle(skip_waits=True)
    assert log == ["lost", "last", "-lost"]
    log.clear()
    racing_within.enqueue()
    with force_replay():
        run_until_idle(skip_waits=True)
    assert log == ["lost", "last", "-lost"]


@pytest.mark.behaviour("FLOW-06l")
def test_a_paused_run_and_its_fork_both_undo_the_loser_that_was_not_undone_before() -> None:
    run = racing_within.enqueue(pauses=True)
    run_until_idle(skip_waits=True)
    assert (run.refresh().status, log) == (Status.PAUSED, ["lost"])
    fork = run.fork("later")
    run.resume()
    run_until_idle(skip_waits=True)
    fork.resume()
    run_until_idle(skip_waits=True)
    assert (run.refresh().status, fork.refresh().status) == (Status.SUCCEEDED, Status.SUCCEEDED)
    assert log.count("-lost") == 2


def test_a_loser_that_cannot_be_undone_is_told_of_where_the_run_succeeds() -> None:
    broken.extend([OSError("away"), OSError("gone")])
    run = racing_within.enqueue()
    run_until_idle(skip_waits=True)
    assert run.refresh().status == Status.SUCCEEDED
    assert run.why().text.endswith("What losers of races did could not be undone: 'at/any/loser/lost'.")
    [undo] = [step for step in run.steps() if step.kind == "undo"]
    assert (undo.status, undo.error["message"]) == ("failed", "gone")


@durable_workflow(name="undo.racing_kept", step_retry=Retry(max_attempts=2, initial=60), compensate_on_cancel=False)
def racing_kept(ctx: Context) -> Any:
    ctx.step("stock", take, "stock", compensate=give_back)
    return racing.fn(ctx)


@pytest.mark.behaviour("FLOW-06l")
def test_a_loser_is_undone_also_where_a_cancelled_run_keeps_what_it_did() -> None:
    broken.append(OSError("away"))
    run = racing_kept.enqueue()
    run_until_idle()
    assert run.refresh().status == Status.WAITING
    assert JournalEntry.objects.get(run_id=run.id, kind="undo").status == EntryStatus.RETRYING
    run.cancel()
    run_until_idle(skip_waits=True)
    assert run.refresh().status == Status.CANCELLED
    assert log == ["stock", "lost", "won", "-lost"]


@both
def test_a_resumed_run_goes_forward_again_from_what_it_undid(workflow: Any) -> None:
    """Resume of a failed run that was undone does its steps anew: what was given back has to be taken again."""
    run = workflow.enqueue("body")
    run_until_idle()
    log.clear()
    run.resume("the cause is mended")
    run_until_idle()
    assert log[:2] == ["stock", "card"]


clocks: list[Any] = []


@durable_workflow(name="undo.late", retry=ONCE, step_retry=ONCE, timeout=timedelta(seconds=100))
async def late(ctx: AsyncContext) -> str:
    began, go = asyncio.Event(), asyncio.Event()

    async def pay() -> str:
        began.set()
        await go.wait()
        clocks[0].advance(seconds=200)
        return await asyncio.to_thread(take, "paid")

    async def loser(ctx: AsyncContext) -> None:
        await ctx.step("pay", pay, compensate=give_back)

    async def winner(ctx: AsyncContext) -> None:
        await began.wait()

    await ctx.race("any", {"loser": loser, "winner": winner})
    go.set()
    return "in time"


@pytest.mark.behaviour("FLOW-06j")
def test_a_function_that_ended_in_time_is_not_too_late_for_what_a_loser_of_it_still_does() -> None:
    with travel() as clock:
        clocks[:] = [clock]
        run = late.enqueue()
        run_until_idle()
        assert (run.result(timeout=0), log) == ("in time", ["paid", "-paid"])


@durable_workflow(name="undo.telling", step_retry=ONCE)
def telling(ctx: Context) -> None:
    def branch(ctx: Context) -> None:
        ctx.step("b", int, compensate=lambda value: ctx.log.info("undoing b"))

    ctx.step("a", int, compensate=lambda value: ctx.log.info("undoing a"))
    ctx.join("both", {"left": branch})
    ctx.step("fail", fail, "rollback")


@durable_workflow(name="undo.telling_async", step_retry=ONCE)
async def telling_async(ctx: AsyncContext) -> None:
    async def branch(ctx: AsyncContext) -> None:
        async def undo(value: int) -> None:
            ctx.log.info("undoing b")

        await ctx.step("b", int, compensate=undo)

    await ctx.step("a", int, compensate=lambda value: ctx.log.info("undoing a"))
    await ctx.join("both", {"left": branch})
    await ctx.step("fail", fail, "rollback")


@pytest.mark.parametrize("workflow", [telling, telling_async])
def test_what_a_compensation_says_is_in_the_run_s_log(workflow: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="django_durable.workflow")
    run = workflow.enqueue()
    run_until_idle()
    assert [line.message for line in run.log()] == caplog.messages == ["undoing b", "undoing a"]
