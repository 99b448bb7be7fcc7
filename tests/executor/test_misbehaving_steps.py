"""What steps and bodies can do to the process and its connections, and that the run and the journal survive it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import TestCase

from django_durable import AsyncContext, Context, Retry, current_step, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.exceptions import RunFailed
from django_durable.testing import run_until_idle
from tests.app.models import Counter

pytestmark = pytest.mark.contract
in_database = pytest.mark.django_db(transaction=True)
AT_ONCE = Retry(max_attempts=2, initial=0, maximum=0)
bodies: list[Callable[[], Any]] = []
"""What the step does, attempt by attempt; nothing left: it returns."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    bodies.clear()


def misbehave() -> str:
    if bodies:
        bodies.pop(0)()
    return "well"


async def misbehave_async() -> str:
    return misbehave()


def count() -> int:
    counter, _ = Counter.objects.get_or_create(name="steps")
    counter.value += 1
    counter.save()
    return counter.value


@durable_workflow(name="misbehaving.plain", step_retry=AT_ONCE, retry=Retry(max_attempts=1))
def plain(ctx: Context) -> list[Any]:
    before = ctx.step("before", count)
    return [before, ctx.step("misbehave", misbehave), ctx.step("after", count)]


@durable_workflow(name="misbehaving.awaited", step_retry=AT_ONCE, retry=Retry(max_attempts=1))
async def awaited(ctx: AsyncContext) -> list[Any]:
    before = await ctx.step("before", count)
    return [before, await ctx.step("misbehave", misbehave), await ctx.step("after", count)]


both = pytest.mark.parametrize("workflow", [plain, awaited])


def finished(workflow: Any) -> RunHandle[Any]:
    run: RunHandle[Any] = workflow.enqueue()
    run_until_idle()
    return run


def step_error(run: RunHandle[Any]) -> dict[str, Any]:
    """The error of the step of a run that failed for it."""
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    assert caught.value.error["step"] == "misbehave"
    error: dict[str, Any] = run.steps()[1].error
    return error


# --- connections -----------------------------------------------------------------------------


def leave_transaction_open() -> None:
    transaction.atomic().__enter__()
    Counter.objects.create(name="never committed")


def leave_nested_transactions_open() -> None:
    transaction.atomic().__enter__()
    leave_transaction_open()


def leave_transaction_open_and_raise() -> None:
    leave_transaction_open()
    raise ValueError("in the middle")


def turn_autocommit_off() -> None:
    transaction.set_autocommit(False)
    Counter.objects.create(name="never committed")


def close_within_a_transaction() -> None:
    leave_transaction_open()
    connection.close()


def break_the_transaction() -> None:
    transaction.atomic().__enter__()
    connection.cursor().execute("SELECT nonsense FROM nowhere")


HARM = [
    leave_transaction_open,
    leave_nested_transactions_open,
    leave_transaction_open_and_raise,
    turn_autocommit_off,
    close_within_a_transaction,
    break_the_transaction,
]


@in_database
@both
@pytest.mark.parametrize("harm", HARM)
def test_what_a_step_leaves_open_is_rolled_back_and_is_its_failure(workflow: Any, harm: Callable[[], Any]) -> None:
    bodies[:] = [harm]
    run = finished(workflow)
    assert run.result(timeout=0) == [1, "well", 2]
    assert [(step.path, step.attempts) for step in run.steps()] == [("before", 1), ("misbehave", 2), ("after", 1)]
    assert not Counter.objects.filter(name="never committed").exists()
    assert not connection.in_atomic_block
    assert connection.get_autocommit()


@in_database
@both
def test_what_was_left_open_is_told(workflow: Any) -> None:
    bodies[:] = [leave_transaction_open] * 2
    error = step_error(finished(workflow))
    assert error["type"] == "django_durable.exceptions.ContextMisuse"
    assert "left a transaction open on 'default'; it was rolled back" in error["message"]
    bodies[:] = [leave_transaction_open_and_raise] * 2
    assert step_error(finished(workflow))["message"] == "in the middle"


@in_database
@both
@pytest.mark.parametrize("is_raised", [False, True])
def test_a_step_may_close_the_connection(workflow: Any, is_raised: bool) -> None:
    def close() -> None:
        connection.close()
        if is_raised:
            raise ValueError

    bodies[:] = [close]
    assert finished(workflow).result(timeout=0) == [1, "well", 2]


@in_database
@both
def test_a_connection_that_breaks_under_a_step_is_the_step_s_error(workflow: Any) -> None:
    def break_connection() -> None:
        connection.ensure_connection()
        assert connection.connection is not None
        connection.connection.close()
        Counter.objects.count()

    bodies[:] = [break_connection]
    assert finished(workflow).result(timeout=0) == [1, "well", 2]


@in_database
@both
def test_a_step_s_own_transactions_are_its_own(workflow: Any) -> None:
    def commit() -> None:
        with transaction.atomic():
            Counter.objects.create(name="committed")

    def roll_back() -> None:
        with pytest.raises(IntegrityError), transaction.atomic():
            Counter.objects.create(name="committed")

    def both_ways() -> None:
        commit()
        roll_back()

    bodies[:] = [both_ways]
    assert finished(workflow).result(timeout=0) == [1, "well", 2]
    assert Counter.objects.filter(name="committed").exists()


# --- in a test's own transaction -------------------------------------------------------------


class TestInATestCase(TestCase):
    """A fault of the step under test must not end the transaction that the test lives in."""

    def test_harm(self) -> None:
        for workflow in (plain, awaited):
            for harm in (leave_transaction_open, leave_nested_transactions_open, leave_transaction_open_and_raise):
                with self.subTest(workflow=workflow, harm=harm):
                    Counter.objects.all().delete()
                    Counter.objects.create(name="of the test")
                    bodies[:] = [harm]
                    assert finished(workflow).result(timeout=0) == [1, "well", 2]
                    assert Counter.objects.filter(name="of the test").exists()
                    assert not Counter.objects.filter(name="never committed").exists()
                    assert connection.in_atomic_block


# --- exceptions ------------------------------------------------------------------------------


class Rude(BaseException):
    pass


def raising(error: BaseException) -> Callable[[], None]:
    def fn() -> None:
        raise error

    return fn


RUDE: list[Callable[[], None]] = [
    lambda: sys.exit(3),
    raising(KeyboardInterrupt()),
    raising(GeneratorExit()),
    raising(Rude("rude")),
    raising(StopIteration(5)),
    raising(StopAsyncIteration()),
    raising(asyncio.CancelledError()),
    raising(BaseExceptionGroup("several", [SystemExit(1)])),
]
IDS = ["exit", "interrupt", "generator", "rude", "stop", "stop-async", "cancelled", "group"]


@durable_workflow(name="misbehaving.coroutine", step_retry=AT_ONCE, retry=Retry(max_attempts=1))
async def coroutine(ctx: AsyncContext) -> list[Any]:
    before = await ctx.step("before", count)
    return [before, await ctx.step("misbehave", misbehave_async), await ctx.step("after", count)]


@durable_workflow(name="misbehaving.mixed", step_retry=AT_ONCE, retry=Retry(max_attempts=1))
def mixed(ctx: Context) -> list[Any]:
    before = ctx.step("before", count)
    return [before, ctx.step("misbehave", misbehave_async), ctx.step("after", count)]


@pytest.mark.behaviour("STEP-08b")
@in_database
@pytest.mark.parametrize("workflow", [plain, awaited, coroutine, mixed])
@pytest.mark.parametrize("body", RUDE, ids=IDS)
def test_whatever_a_step_raises_is_its_failure_and_is_retried(workflow: Any, body: Callable[[], None]) -> None:
    bodies[:] = [body]
    run = finished(workflow)
    assert run.result(timeout=0) == [1, "well", 2]
    assert run.steps()[1].attempts == 2
    assert run.refresh().attempt == 1


@in_database
@pytest.mark.parametrize("workflow", [plain, awaited, coroutine, mixed])
@pytest.mark.parametrize(
    ("body", "expected"),
    [(RUDE[0], "SystemExit"), (RUDE[1], "KeyboardInterrupt"), (RUDE[3], f"{__name__}.Rude")],
)
def test_exhausted_by_what_is_no_exception(workflow: Any, body: Callable[[], None], expected: str) -> None:
    bodies[:] = [body] * 2
    assert step_error(finished(workflow))["type"] == expected


# --- ctx in a transaction --------------------------------------------------------------------

CALLS: dict[str, Callable[[Context], Any]] = {
    "step": lambda ctx: ctx.step("refused", count),
    "sleep": lambda ctx: ctx.sleep("refused", 60),
    "wait_for_event": lambda ctx: ctx.wait_for_event("refused"),
    "run_workflow": lambda ctx: ctx.run_workflow("refused", plain),
    "start_workflow": lambda ctx: ctx.start_workflow("refused", plain),
    "now": lambda ctx: ctx.now(),
}
call: list[Callable[[Context], Any]] = []


@durable_workflow(name="misbehaving.in_transaction", retry=Retry(max_attempts=1))
def in_transaction(ctx: Context) -> None:
    with transaction.atomic():
        Counter.objects.create(name="of the body")
        call[0](ctx)


@pytest.mark.parametrize("name", CALLS)
@in_database
def test_ctx_inside_a_transaction_is_refused(name: str) -> None:
    call[:] = [CALLS[name]]
    run = finished(in_transaction)
    with pytest.raises(RunFailed, match=r"ctx was used inside transaction\.atomic\(\)"):
        run.result(timeout=0)
    assert run.steps() == []
    assert not Counter.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("name", CALLS)
def test_also_in_a_test_that_is_in_a_transaction_itself(name: str) -> None:
    call[:] = [CALLS[name]]
    with pytest.raises(RunFailed, match=r"ctx was used inside transaction\.atomic\(\)"):
        finished(in_transaction).result(timeout=0)
    assert not Counter.objects.exists()


@in_database
def test_a_refusal_can_be_caught_outside_of_the_transaction() -> None:
    @durable_workflow(name="misbehaving.refused_once")
    def refused_once(ctx: Context) -> int:
        try:
            with transaction.atomic():
                ctx.step("count", count)
        except Exception:
            return ctx.step("count", count)
        return 0

    assert finished(refused_once).result(timeout=0) == 1


@in_database
def test_what_the_body_itself_leaves_open_is_rolled_back() -> None:
    @durable_workflow(name="misbehaving.open_body")
    def open_body(ctx: Context) -> str:
        leave_transaction_open()
        return "done"

    assert finished(open_body).result(timeout=0) == "done"
    assert not connection.in_atomic_block
    assert not Counter.objects.exists()


# --- ctx inside a step, current_step ----------------------------------------------------------


@in_database
@both
def test_a_step_knows_itself(workflow: Any) -> None:
    seen: list[Any] = []

    def look() -> None:
        step = current_step()
        seen.append([step.run_id, step.path, step.attempt, step.deadline, step.cancelled, step.idempotency_key()])
        if step.attempt == 1:
            raise ValueError

    bodies[:] = [look, look]
    run = finished(workflow)
    first, second = seen
    assert first[:5] == [run.id, "misbehave", 1, None, False]
    assert second[:5] == [run.id, "misbehave", 2, None, False]
    assert first[5] == second[5]


@in_database
def test_ctx_inside_a_step_is_refused() -> None:
    @durable_workflow(name="misbehaving.nested", step_retry=Retry(max_attempts=1))
    def nested(ctx: Context) -> None:
        ctx.step("misbehave", lambda: ctx.step("inner", count))

    run = finished(nested)
    with pytest.raises(RunFailed, match="ctx was used inside a step, at 'inner'"):
        run.result(timeout=0)
    assert [step.path for step in run.steps()] == ["misbehave"]
