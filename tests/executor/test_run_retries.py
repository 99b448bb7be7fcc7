"""Retries of a run as a whole, and what is never retried as a whole."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_durable import PENDING, Context, NonRetriableError, Retry, RetryLater, RollbackError, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import Status
from django_durable.exceptions import RunFailed, StepFailed
from django_durable.testing import run_until_idle, travel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
AT_ONCE = Retry(max_attempts=3, initial=0, maximum=0)
calls: list[Any] = []
errors: list[BaseException | None] = []
"""What the body raises, call by call; None or nothing left: it returns."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    errors.clear()


def note(what: str) -> str:
    calls.append(what)
    return what


def body(ctx: Context) -> int:
    calls.append(ctx.attempt)
    ctx.step("before", note, "before")
    error = errors.pop(0) if errors else None
    if error is not None:
        raise error
    return ctx.attempt


@durable_workflow(name="retries.retried", retry=AT_ONCE)
def retried(ctx: Context) -> int:
    return body(ctx)


@durable_workflow(name="retries.patient", retry=Retry(max_attempts=2, initial=60, jitter=0))
def patient(ctx: Context) -> int:
    return body(ctx)


@durable_workflow(name="retries.once", retry=Retry(max_attempts=1))
def once(ctx: Context) -> int:
    return body(ctx)


def failed(run: RunHandle[Any]) -> dict[str, Any]:
    """The error of a run that has to have failed."""
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    assert run.refresh().status == Status.FAILED
    return caught.value.error


def test_a_run_is_tried_again_as_a_whole_and_steps_are_not() -> None:
    errors[:] = [ValueError("1"), ValueError("2")]
    run = retried.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == 3
    assert calls == [1, "before", 2, 3]
    assert run.refresh().attempt == 3


def test_it_fails_after_the_last_attempt() -> None:
    errors[:] = [ValueError(str(number)) for number in range(9)]
    run = retried.enqueue()
    run_until_idle()
    error = failed(run)
    assert (error["type"], error["message"]) == ("ValueError", "2")
    assert "in body" in error["traceback"]
    assert calls == [1, "before", 2, 3]


def test_it_waits_between_attempts_and_says_why() -> None:
    errors[:] = [ValueError("first")]
    run = patient.enqueue()
    with travel() as clock:
        run_until_idle()
        assert run.refresh().status == Status.WAITING
        assert run.attempt == 2
        assert run.error is not None
        assert run.error["message"] == "first"
        assert run.why().reason == "waiting: retry"
        clock.advance(seconds=50)
        assert run_until_idle() == 0
        clock.advance(seconds=11)
        run_until_idle()
    assert run.result(timeout=0) == 2


@pytest.mark.parametrize("attempts", [1, 2, 5])
@pytest.mark.parametrize("workflow", [retried, once])
def test_using_max_attempts_counts_instead_of_the_policy(workflow: Any, attempts: int) -> None:
    errors[:] = [ValueError(str(number)) for number in range(9)]
    run = workflow.using(max_attempts=attempts).enqueue()
    run_until_idle(skip_waits=True)
    assert failed(run)["message"] == str(attempts - 1)
    assert run.attempt == attempts


@pytest.mark.behaviour("STEP-07a")
@pytest.mark.parametrize("attempts", [None, 5])
def test_non_retriable_errors_end_the_run_at_once(attempts: int | None) -> None:
    errors[:] = [NonRetriableError("closed"), None]
    run = retried.using(max_attempts=attempts).enqueue()
    run_until_idle()
    assert failed(run)["message"] == "closed"
    assert calls == [1, "before"]


def test_give_up_on_holds_with_max_attempts_too() -> None:
    @durable_workflow(name="retries.choosy", retry=Retry(max_attempts=2, initial=0, maximum=0, give_up_on=KeyError))
    def choosy(ctx: Context) -> int:
        return body(ctx)

    errors[:] = [ValueError(), ValueError(), KeyError("x")]
    run = choosy.using(max_attempts=9).enqueue()
    run_until_idle()
    assert failed(run)["type"] == "KeyError"
    assert run.attempt == 3


def test_retry_later_names_the_time() -> None:
    errors[:] = [RetryLater(after=timedelta(hours=3))]
    run = retried.enqueue()
    with travel() as clock:
        run_until_idle()
        clock.advance(hours=2.9)
        assert run_until_idle() == 0
        clock.advance(hours=0.2)
        assert run_until_idle() == 1
    assert run.result(timeout=0) == 2


# --- errors that were retried where they happened ---------------------------------------------


def refuse() -> None:
    calls.append("refuse")
    raise ValueError("no stock")


@durable_workflow(name="retries.step_fails", retry=AT_ONCE, step_retry=Retry(max_attempts=2, initial=0, maximum=0))
def step_fails(ctx: Context, is_caught: bool) -> str:
    calls.append(ctx.attempt)
    try:
        ctx.step("reserve", refuse)
    except StepFailed as error:
        if not is_caught:
            raise
        return ctx.step("apologise", note, f"{error.step} {error.attempts} {error.error['message']}")
    return "reserved"


def test_an_exhausted_step_does_not_retry_the_run() -> None:
    run = step_fails.enqueue(False)
    run_until_idle()
    error = failed(run)
    assert error["step"] == "reserve"
    assert error["type"] == "django_durable.exceptions.StepFailed"
    assert error["cause"]["type"] == "ValueError"
    assert run.attempt == 1
    assert calls == [1, "refuse", "refuse"]


def wait_in_vain(ctx: Context) -> Any:
    return ctx.wait_for_event("word", timeout=60).payload


def poll_in_vain(ctx: Context) -> Any:
    return ctx.poll("ask", lambda: PENDING, every=60, timeout=60)


def turn_in_vain(ctx: Context) -> Any:
    return ctx.loop("rows", lambda ctx, state: ctx.step("turn", note, "turn") and None, max_iterations=2)


def race_in_vain(ctx: Context) -> Any:
    return ctx.race("any", {"wait": wait_in_vain, "turn": turn_in_vain})


IN_VAIN: dict[str, tuple[Any, str, str]] = {
    "EventTimeout": (wait_in_vain, "word", "word"),
    "PollTimeout": (poll_in_vain, "ask", "ask"),
    "LoopLimit": (turn_in_vain, "rows", "rows"),
    "RaceError": (race_in_vain, "any", "any any/turn/rows any/wait/word"),
}


@pytest.mark.parametrize("kind", IN_VAIN)
def test_what_the_journal_says_to_every_replay_does_not_retry_the_run_and_is_tried_anew_by_resume(kind: str) -> None:
    fn, step, culprits = IN_VAIN[kind]

    @durable_workflow(name="retries.in_vain", retry=AT_ONCE)
    def in_vain(ctx: Context) -> Any:
        calls.append(ctx.attempt)
        return fn(ctx)

    run = in_vain.enqueue()
    for _ in range(2):
        run_until_idle(skip_waits=True)
        error = failed(run)
        assert (error["type"].rpartition(".")[2], error["step"]) == (kind, step)
        assert " ".join(sorted(error["culprits"])) == culprits
        assert run.attempt == 1
        run.resume()
    assert set(calls) <= {1, "turn"}


@pytest.mark.parametrize("is_grouped", [False, True])
def test_nor_does_an_error_that_was_made_of_it(is_grouped: bool) -> None:
    @durable_workflow(name="retries.wrapping", retry=AT_ONCE, step_retry=Retry(max_attempts=1))
    def wrapping(ctx: Context) -> None:
        try:
            ctx.step("reserve", refuse)
        except StepFailed as failure:
            calls.append(ctx.attempt)
            error = LookupError("nothing to sell")
            if is_grouped:
                error.__cause__ = failure
                raise ExceptionGroup("several", [OSError(), error]) from None
            raise error from failure

    run = wrapping.enqueue()
    run_until_idle()
    assert failed(run)["culprits"] == ["reserve"]
    assert calls == ["refuse", 1]


def test_an_exhausted_step_that_is_caught_goes_on() -> None:
    run = step_fails.enqueue(True)
    run_until_idle()
    assert run.result(timeout=0) == "reserve 2 no stock"
    assert [(step.path, step.status, step.attempts) for step in run.steps()] == [
        ("reserve", "failed", 2),
        ("apologise", "succeeded", 1),
    ]
    assert run.steps()[0].error["message"] == "no stock"
    assert run.error is None


def test_an_error_after_a_caught_one_retries_the_run_and_not_the_step() -> None:
    @durable_workflow(name="retries.later_error", retry=AT_ONCE, step_retry=Retry(max_attempts=1))
    def later_error(ctx: Context) -> int:
        try:
            ctx.step("reserve", refuse)
        except StepFailed:
            calls.append("caught")
        if ctx.attempt < 3:
            raise KeyError("x")
        return ctx.attempt

    run = later_error.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == 3
    assert calls == ["refuse", "caught", "caught", "caught"]


def reuse(ctx: Context) -> None:
    ctx.step("same", note, "same")
    ctx.step("same", note, "same")


def misuse(ctx: Context) -> None:
    with transaction.atomic():
        ctx.step("inside", note, "inside")


def misname(ctx: Context) -> None:
    ctx.step("", note, "nameless")


def misfit(ctx: Context) -> None:
    ctx.run_workflow("child", once, "too", "many")


def misfill(ctx: Context) -> None:
    ctx.run_workflow("child", loose, object())


def in_a_group(ctx: Context) -> None:
    try:
        ctx.step("a\nb", note, "nameless")
    except Exception as error:
        raise ExceptionGroup("several", [OSError(), error]) from None


@durable_workflow(name="retries.loose")
def loose(ctx: Context, anything: Any) -> None: ...


HOPELESS: dict[str, Any] = {
    "StepNameReused": reuse,
    "ContextMisuse": misuse,
    "InvalidName": misname,
    "InvalidInput": misfit,
    "PayloadError": misfill,
    "ExceptionGroup": in_a_group,
}


@pytest.mark.parametrize("kind", HOPELESS)
def test_what_can_never_succeed_fails_the_run_at_once(kind: str) -> None:
    @durable_workflow(name="retries.hopeless", retry=AT_ONCE)
    def hopeless(ctx: Context) -> None:
        calls.append(ctx.attempt)
        HOPELESS[kind](ctx)

    run = hopeless.enqueue()
    run_until_idle()
    assert failed(run)["type"].rpartition(".")[2] == kind
    assert run.attempt == 1
    assert [call for call in calls if call != "same"] == [1]


def test_a_result_that_cannot_be_stored_fails_the_run_once() -> None:
    @durable_workflow(name="retries.unstorable", retry=AT_ONCE)
    def unstorable(ctx: Context) -> Any:
        calls.append(ctx.attempt)
        return {"client": object()}

    run = unstorable.enqueue()
    run_until_idle()
    error = failed(run)
    assert error["type"] == "django_durable.exceptions.PayloadError"
    assert "result['client']" in error["message"]
    assert calls == [1]


def test_a_suspension_that_was_swallowed_is_told() -> None:
    @durable_workflow(name="retries.swallowing", retry=AT_ONCE)
    def swallowing(ctx: Context) -> str:
        calls.append(ctx.attempt)
        try:
            ctx.sleep("nap", 60)
        except BaseException:
            return "swallowed"
        return "awake"

    run = swallowing.enqueue()
    run_until_idle()
    error = failed(run)
    assert error["type"] == "django_durable.exceptions.SuspensionSwallowed"
    assert "'nap'" in error["message"]
    assert calls == [1]


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), BaseExceptionGroup("g", [KeyboardInterrupt()])]
)
def test_a_body_that_raises_a_base_exception_is_no_run_that_hangs(error: BaseException) -> None:
    errors[:] = [error]
    run = once.enqueue()
    run_until_idle()
    assert failed(run)["type"] == type(error).__name__


def test_a_rollback_in_a_group_is_not_tried_again() -> None:
    errors.append(ExceptionGroup("two", [ValueError("one"), RollbackError("the other")]))
    run = retried.enqueue()
    run_until_idle()
    assert failed(run)["type"] == "ExceptionGroup"
    assert calls == [1, "before"]
