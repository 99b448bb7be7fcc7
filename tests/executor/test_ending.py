"""How runs end: on_failure, deadlines, cancellation, and code or data that no longer fits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from django_durable import AsyncContext, Context, NonRetriableError, Retry, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import Status
from django_durable.exceptions import RunCancelled, RunFailed
from django_durable.models import Payload, Run
from django_durable.testing import run_until_idle, travel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
AT_ONCE = Retry(max_attempts=2, initial=0, maximum=0)
calls: list[Any] = []
failures: list[RunFailed] = []
hook_errors: list[BaseException] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    failures.clear()
    hook_errors.clear()


def apologise(failure: RunFailed) -> str:
    failures.append(failure)
    if hook_errors:
        raise hook_errors.pop(0)
    return "sorry"


async def apologise_async(failure: RunFailed) -> str:
    return apologise(failure)


def raise_error(kind: str) -> None:
    calls.append(kind)
    raise NonRetriableError(kind) if kind == "closed" else ValueError(kind)


@durable_workflow(name="ending.hooked", retry=AT_ONCE, step_retry=AT_ONCE, on_failure=apologise)
def hooked(ctx: Context, how: str) -> str:
    match how:
        case "step":
            ctx.step("pay", raise_error, how)
        case "sleep":
            ctx.sleep("nap", timedelta(days=2))
        case "body" | "closed":
            raise_error(how)
    return "well"


@durable_workflow(name="ending.hooked_async", retry=AT_ONCE, step_retry=AT_ONCE, on_failure=apologise)
async def hooked_async(ctx: AsyncContext, how: str) -> None:
    await ctx.step("pay", raise_error, how)


@durable_workflow(name="ending.coroutine_hook", retry=AT_ONCE, step_retry=AT_ONCE, on_failure=apologise_async)
def coroutine_hook(ctx: Context, how: str) -> None:
    ctx.step("pay", raise_error, how)


def error_of(run: RunHandle[Any]) -> dict[str, Any]:
    with pytest.raises(RunFailed) as caught:
        run.result(timeout=0)
    return caught.value.error


# --- on_failure ------------------------------------------------------------------------------


@pytest.mark.behaviour("STEP-07b", "STEP-07c")
@pytest.mark.parametrize(
    ("how", "attempts", "message"),
    [("step", 2, "Step 'pay' failed"), ("body", 2, "body"), ("closed", 1, "closed")],
)
def test_on_failure_is_called_once_with_the_failure_as_a_journaled_step(how: str, attempts: int, message: str) -> None:
    run = hooked.enqueue(how)
    run_until_idle()
    assert len(calls) == attempts
    [failure] = failures
    error = error_of(run)
    assert failure.run_id == run.id
    assert failure.error == error
    assert message in error["message"]
    assert error.get("step") == ("pay" if how == "step" else None)
    last = run.steps()[-1]
    assert (last.path, last.kind, last.status, last.value) == ("%on_failure", "step", "succeeded", "sorry")


@pytest.mark.parametrize("workflow", [hooked_async, coroutine_hook])
def test_on_failure_in_both_colours(workflow: Any) -> None:
    run = workflow.enqueue("step")
    run_until_idle()
    assert len(failures) == 1
    assert error_of(run)["step"] == "pay"


def test_on_failure_is_not_called_on_success() -> None:
    run = hooked.enqueue("well")
    run_until_idle()
    assert run.result(timeout=0) == "well"
    assert failures == []


@pytest.mark.behaviour("STEP-07d")
def test_on_failure_is_not_called_on_cancellation() -> None:
    run = hooked.enqueue("sleep")
    run_until_idle()
    run.cancel("changed my mind")
    run_until_idle()
    with pytest.raises(RunCancelled, match="changed my mind"):
        run.result(timeout=0)
    assert failures == []


def test_on_failure_is_retried_like_a_step() -> None:
    hook_errors[:] = [OSError("mail server")]
    run = hooked.enqueue("step")
    run_until_idle()
    assert len(failures) == 2
    assert run.steps()[-1].attempts == 2
    assert error_of(run)["step"] == "pay"


def test_an_on_failure_that_fails_does_not_hide_the_failure() -> None:
    hook_errors[:] = [OSError("mail server")] * 9
    run = hooked.enqueue("body")
    run_until_idle()
    assert len(failures) == 2
    assert error_of(run)["message"] == "body"
    assert run.steps()[-1].status == "failed"
    assert run.steps()[-1].error["message"] == "mail server"


def test_on_failure_hears_of_a_deadline() -> None:
    run = hooked.using(timeout=60).enqueue("sleep")
    run_until_idle(skip_waits=True)
    [failure] = failures
    assert failure.error["type"] == "django_durable.exceptions.RunTimeout"
    assert error_of(run) == failure.error


# --- deadlines -------------------------------------------------------------------------------


@durable_workflow(name="ending.waiting", timeout=timedelta(hours=1))
def waiting(ctx: Context, kind: str) -> None:
    calls.append(ctx.attempt)
    match kind:
        case "sleep":
            ctx.sleep("wait", timedelta(days=1))
        case "event":
            ctx.wait_for_event("wait")
        case "child":
            ctx.run_workflow("wait", listener)


@durable_workflow(name="ending.listener")
def listener(ctx: Context) -> None:
    ctx.wait_for_event("never")


@pytest.mark.parametrize("kind", ["sleep", "event", "child"])
def test_a_waiting_run_ends_at_its_deadline(kind: str) -> None:
    run = waiting.enqueue(kind)
    with travel() as clock:
        run_until_idle()
        assert run.refresh().status == Status.WAITING
        clock.advance(minutes=59)
        run_until_idle()
        assert run.refresh().status == Status.WAITING
        clock.advance(minutes=1.1)
        run_until_idle()
        error = error_of(run)
    assert error["type"] == "django_durable.exceptions.RunTimeout"
    assert run.attempt == 1


@durable_workflow(name="ending.raced", timeout=60)
def raced(ctx: Context) -> str:
    def loser(ctx: Context) -> None:
        retry = Retry(max_attempts=3, initial=100, maximum=100, jitter=0)
        ctx.step("lost", int, compensate=lambda _: undo_at_last(), retry=retry)
        ctx.sleep("long", 3600)

    return ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.sleep("nap", 1)})[0]


def undo_at_last() -> None:
    calls.append("undo")
    if len(calls) < 3:
        raise OSError("away")


def test_a_deadline_that_comes_after_the_function_has_returned_does_not_bind_what_losers_did() -> None:
    run = raced.enqueue()
    with travel():
        run_until_idle(skip_waits=True)
    assert (run.refresh().status, calls) == (Status.SUCCEEDED, ["undo"] * 3), run.error
    assert run.result(timeout=0) == "winner"


def test_a_child_inherits_the_deadline() -> None:
    run = waiting.enqueue("child")
    run_until_idle()
    child = Run.objects.get(parent_id=run.id)
    assert child.deadline_at == run.run.deadline_at
    with travel() as clock:
        clock.advance(hours=1.1)
        run_until_idle()
        child.refresh_from_db()
        assert child.status == Status.FAILED
        assert run.refresh().status == Status.FAILED


def test_a_child_s_own_deadline_counts_where_it_is_earlier() -> None:
    @durable_workflow(name="ending.hasty_parent", timeout=3600)
    def hasty_parent(ctx: Context) -> None:
        ctx.start_workflow("hasty", listener.using(timeout=60))
        ctx.start_workflow("lazy", listener.using(timeout=7200))
        ctx.start_workflow("free", listener.using(detached=True))

    run = hasty_parent.enqueue()
    run_until_idle()
    deadlines = dict(Run.objects.filter(parent_id=run.id).values_list("parent_path", "deadline_at"))
    assert run.run.deadline_at is not None
    assert deadlines["hasty"] is not None
    assert deadlines["hasty"] < run.run.deadline_at - timedelta(minutes=50)
    assert deadlines["lazy"] == run.run.deadline_at
    assert deadlines["free"] is None


def test_using_timeout_replaces_the_workflow_s() -> None:
    run = waiting.using(timeout=timedelta(hours=5)).enqueue("event")
    assert run.run.deadline_at is not None
    assert timedelta(hours=4.9) < run.run.deadline_at - run.run.created_at < timedelta(hours=5.1)


def test_a_run_that_never_started_in_time_does_not_run() -> None:
    run = waiting.enqueue("sleep")
    with travel() as clock:
        clock.advance(hours=2)
        run_until_idle()
    assert error_of(run)["type"] == "django_durable.exceptions.RunTimeout"
    assert calls == []


# --- cancellation ----------------------------------------------------------------------------


@pytest.mark.behaviour("CANCEL-01b")
def test_cancelling_a_waiting_run_lets_its_finally_run_and_nothing_else() -> None:
    @durable_workflow(name="ending.tidy")
    def tidy(ctx: Context) -> None:
        try:
            ctx.sleep("nap", 3600)
        finally:
            calls.append("finally")
            ctx.step("after", calls.append, "step")

    run = tidy.enqueue()
    run_until_idle()
    run.cancel()
    run_until_idle()
    assert run.refresh().status == Status.CANCELLED
    assert "step" not in calls
    assert [step.path for step in run.steps()] == ["nap"]


@pytest.mark.behaviour("CANCEL-01c")
def test_a_cancellation_during_a_step_is_heeded_before_the_next() -> None:
    @durable_workflow(name="ending.cancelled_within")
    def cancelled_within(ctx: Context) -> None:
        run_id = ctx.run_id
        ctx.step("first", lambda: RunHandle[Any](run_id).cancel("enough"))
        ctx.step("second", calls.append, "second")

    run = cancelled_within.enqueue()
    run_until_idle()
    with pytest.raises(RunCancelled, match="enough"):
        run.result(timeout=0)
    assert calls == []
    assert [step.path for step in run.steps()] == ["first"]


@pytest.mark.behaviour("CANCEL-01e")
@pytest.mark.parametrize("how", ["value", "error"])
def test_a_cancellation_that_was_acknowledged_wins_over_the_end(how: str) -> None:
    @durable_workflow(name="ending.cancelled_last", retry=Retry(max_attempts=1), on_failure=apologise)
    def cancelled_last(ctx: Context, how: str) -> str:
        RunHandle[Any](ctx.run_id).cancel()
        if how == "error":
            raise ValueError
        return "too late"

    run = cancelled_last.enqueue(how)
    run_until_idle()
    with pytest.raises(RunCancelled):
        run.result(timeout=0)
    assert failures == []


# --- what no longer fits ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "stored",
    ['{"nope": 1}', "{}", '{"how": 1, "more": 2}', "{", '{"how":{"$":"@gone","v":1}}', "[]", "5", "null"],
)
def test_input_that_no_longer_fits_blocks_the_run(stored: str) -> None:
    run = hooked.enqueue("well")
    Payload.objects.filter(run_id=run.id, kind="input").update(data=stored)
    run_until_idle()
    assert run.refresh().status == Status.BLOCKED
    assert run.run.block_reason == "undecodable"
    assert run.run.fingerprint == hooked.fingerprint
    assert run.attempt == 1
    assert run.why().reason == "blocked: undecodable"
    assert failures == []
    Payload.objects.filter(run_id=run.id, kind="input").update(data='{"how":"well"}')
    run.resume()
    run_until_idle()
    assert run.result(timeout=0) == "well"


def test_input_that_is_gone_blocks_the_run() -> None:
    run = hooked.enqueue("well")
    Payload.objects.filter(run_id=run.id, kind="input").delete()
    run_until_idle()
    assert run.refresh().status == Status.BLOCKED
    assert "the input is gone" in run.why().text


def test_a_journaled_value_that_no_longer_decodes_blocks_the_run() -> None:
    @durable_workflow(name="ending.undecodable")
    def undecodable(ctx: Context) -> int:
        value = ctx.step("pay", lambda: 5)
        ctx.sleep("nap", 3600)
        return value

    run = undecodable.enqueue()
    run_until_idle()
    journal = run.run.journal.filter(path="pay")
    journal.update(value='{"$":"@gone","v":1}')
    Run.objects.filter(pk=run.id).update(wake_at=F("created_at"))
    run_until_idle()
    assert run.refresh().status == Status.BLOCKED
    assert "@gone" in run.why().text or "'gone'" in run.why().text
    journal.update(value="7")
    run.resume()
    run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == 7


def test_another_kind_under_a_name_blocks_the_run_until_the_code_fits() -> None:
    changed: list[bool] = []

    @durable_workflow(name="ending.diverging")
    def diverging(ctx: Context) -> str:
        if changed:
            ctx.sleep("pay", 1)
        else:
            ctx.step("pay", int)
        ctx.sleep("nap", 3600)
        return "done"

    run = diverging.enqueue()
    run_until_idle()
    changed.append(True)
    run_until_idle(skip_waits=True)
    assert run.refresh().status == Status.BLOCKED
    why = run.why()
    assert why.reason == "blocked: diverged"
    assert why.text == (
        "'pay' is a step in the journal, but the code now asks for a sleep. "
        "A worker with other code tries it again, and so does a resume."
    )
    changed.clear()
    run.resume()
    run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == "done"


def test_is_executing_ends_with_the_attempt() -> None:
    from django_durable.core.flow.executing import is_executing

    seen = []

    @durable_workflow(name="ending.executing")
    def executing(ctx: Context) -> None:
        seen.append(is_executing())
        ctx.step("inside", lambda: seen.append(is_executing()))

    executing.enqueue()
    run_until_idle()
    assert seen == [True, True]
    assert not is_executing()
