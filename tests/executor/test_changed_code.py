"""Runs that are claimed by code that has changed since: what goes on, what is told, and what is blocked."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from django_durable import AsyncContext, Context, NonRetriableError, Retry, durable_workflow, get_run
from django_durable.client.handle import RunHandle
from django_durable.core import registry
from django_durable.core.journal.states import BlockReason, PayloadKind, Phase, Status
from django_durable.models import Payload, Worker
from django_durable.store.database import Database
from django_durable.store.fitting import unblock_known
from django_durable.testing import run_until_idle
from django_durable.workflows.registry import workflows

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

NAME = "changing.order"
performed: list[str] = []


def work(name: str) -> str:
    performed.append(name)
    return name


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    performed.clear()
    registry.definitions()
    monkeypatch.setattr(registry, "_named", {})


def deploy(fn: Callable[..., Any], settings: Any, version: str, **options: Any) -> Any:
    """Put this code, in this version, in the place of what has the name."""
    settings.DURABLE = {**settings.DURABLE, "VERSION": version}
    registry._named.clear()
    workflow = durable_workflow(name=NAME, **options)(fn)
    registry.definitions()
    return workflow


def steps(*names: str, removed: tuple[str, ...] = ()) -> Callable[[Context], None]:
    """Steps, and at a ``?`` a wait."""

    def code(ctx: Context) -> None:
        for name in removed:
            ctx.removed(name)
        for name in names:
            if name == "?":
                ctx.wait_for_event("go")
            else:
                ctx.step(name, work, name)

    return code


def asteps(*names: str) -> Any:
    async def code(ctx: AsyncContext) -> None:
        for name in names:
            if name == "?":
                await ctx.wait_for_event("go")
            else:
                await ctx.step(name, work, name)

    return code


def begun(settings: Any, *names: str, **options: Any) -> RunHandle[Any]:
    """A run that waits, with the event that it waits for."""
    run = deploy(steps(*names, "?"), settings, "1", **options).enqueue()
    run_until_idle()
    assert run.refresh().status == Status.WAITING
    run.send_event("go")
    performed.clear()
    return get_run(run.id)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "django_durable.executor"]


@pytest.mark.parametrize(
    ("code", "done"),
    [
        (steps("a", "b", "?", "c"), ["c"]),
        (steps("a", "new", "b", "?"), ["new"]),
        (steps("b", "?", "a"), []),
        (asteps("?", "b", "a"), []),
    ],
    ids=["behind", "between", "reordered", "awaited"],
)
def test_steps_may_be_added_and_reordered(
    settings: Any, caplog: pytest.LogCaptureFixture, code: Any, done: list[str]
) -> None:
    run = begun(settings, "a", "b")
    deploy(code, settings, "2", strict=True)
    run_until_idle()
    assert (run.refresh().status, performed, run.divergence, lines(caplog)) == (Status.SUCCEEDED, done, [], [])


@pytest.mark.parametrize("code", [steps("?"), asteps("?")])
def test_what_the_code_no_longer_has_is_told(settings: Any, caplog: pytest.LogCaptureFixture, code: Any) -> None:
    run = begun(settings, "a", "b", "c")
    assert run.divergence == []
    deploy(code, settings, "2")
    run_until_idle()
    assert (run.refresh().status, run.divergence) == (Status.SUCCEEDED, ["a", "b", "c"])
    assert lines(caplog) == [
        f"diverged run={run.id} workflow={NAME}: The function returned without coming to 'a' and 2 more, "
        "which the journal has. Say ctx.removed() for what the code no longer has."
    ]
    assert caplog.records[-1].levelno >= logging.WARNING


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_said_to_be_removed_is_not_told(settings: Any, caplog: pytest.LogCaptureFixture, strict: bool) -> None:
    run = begun(settings, "a", "b")
    deploy(steps("b", "?", removed=("a",)), settings, "2", strict=strict)
    run_until_idle()
    assert (run.refresh().status, run.divergence, lines(caplog)) == (Status.SUCCEEDED, [], [])


def take_up() -> int:
    """What a worker with the code that is there now does when it looks at blocked runs."""
    fingerprints = {name: workflow.fingerprint for name, workflow in workflows().items()}
    return len(unblock_known(Database(), fingerprints, ["default"]))


def message(run: RunHandle[Any]) -> str:
    return str(run.why().text)


def test_strict_blocks_and_goes_on_when_the_code_fits_again(settings: Any) -> None:
    run = begun(settings, "a", "b")
    deploy(steps("?", "b", "late"), settings, "2", strict=True)
    run_until_idle()
    assert (run.refresh().status, run.run.block_reason) == (Status.BLOCKED, BlockReason.DIVERGED)
    assert "without coming to 'a', which the journal has. Say ctx.removed()" in message(run)
    assert performed == ["late"]
    assert take_up() == 0  # the same code would find the same
    deploy(steps("?", "b", "late", removed=("a",)), settings, "3", strict=True)
    assert take_up() == 1
    run_until_idle()
    assert (run.refresh().status, run.divergence) == (Status.SUCCEEDED, [])
    assert performed == ["late"]
    assert not Payload.objects.filter(run_id=run.id, kind=PayloadKind.MISSED).exists()


def test_another_kind_blocks_with_what_was_expected_and_found(settings: Any) -> None:
    run = begun(settings, "a", "b")

    def other(ctx: Context) -> None:
        ctx.step("a", work, "a")
        ctx.sleep("b", 1)

    deploy(other, settings, "2")
    run_until_idle()
    assert (run.refresh().status, run.run.block_reason) == (Status.BLOCKED, BlockReason.DIVERGED)
    assert "'b' is a step in the journal, but the code now asks for a sleep." in message(run)
    assert take_up() == 0
    deploy(steps("a", "b", "?", "c"), settings, "3")
    assert take_up() == 1
    run_until_idle()
    assert (run.refresh().status, performed) == (Status.SUCCEEDED, ["c"])


# --- cancelling what does not fit ------------------------------------------------------------


def undoable(kind: str) -> Callable[[Context], None]:
    """Something to undo, and then a call of this ``kind``."""

    def code(ctx: Context) -> None:
        ctx.step("reserve", work, "reserve", compensate=lambda _: work("-reserve"))
        if kind == "step":
            ctx.step("x", work, "x")
        else:
            ctx.sleep("x", 0)
        ctx.wait_for_event("go")

    return code


def misfit(settings: Any) -> RunHandle[Any]:
    """A blocked run that has something to undo."""
    run = deploy(undoable("step"), settings, "1").enqueue()
    run_until_idle()
    run.send_event("go")
    deploy(undoable("sleep"), settings, "2")
    run_until_idle()
    assert run.refresh().status == Status.BLOCKED
    performed.clear()
    return get_run(run.id)


@pytest.mark.behaviour("CANCEL-01i", "FLOW-06i")
def test_a_blocked_run_that_is_cancelled_is_undone_by_code_that_fits(settings: Any) -> None:
    run = misfit(settings)
    run.cancel("enough")
    run_until_idle()
    # This code cannot say what there is to undo.
    assert (run.refresh().status, performed) == (Status.BLOCKED, [])
    assert message(run).startswith("It was asked to stop, and has to undo what it did;")
    deploy(undoable("step"), settings, "3")
    assert take_up() == 1
    run_until_idle()
    assert (run.refresh().status, performed, run.error) == (Status.CANCELLED, ["-reserve"], None)


@pytest.mark.behaviour("CANCEL-01i")
def test_cancelled_once_more_it_ends_and_tells_what_stands(settings: Any) -> None:
    run = misfit(settings)
    run.cancel("enough")
    run_until_idle()
    run.cancel("now")
    assert (run.refresh().status, performed) == (Status.CANCELLED, [])
    assert run.error is not None
    assert (run.error["type"], list(run.error["not_undone"])) == ("CompensationFailed", ["reserve"])


@pytest.mark.behaviour("CANCEL-01i", "FLOW-06i")
def test_a_cancellation_that_comes_while_the_code_turns_out_not_to_fit_loses_nothing(settings: Any) -> None:
    run = deploy(undoable("step"), settings, "1").enqueue()
    run_until_idle()
    run.send_event("go")

    def cancelled_meanwhile(ctx: Context) -> None:
        get_run(ctx.run_id).cancel()
        undoable("sleep")(ctx)

    deploy(cancelled_meanwhile, settings, "2")
    run_until_idle()
    assert (run.refresh().status, run.run.phase) == (Status.BLOCKED, Phase.COMPENSATING)
    performed.clear()
    deploy(undoable("step"), settings, "3")
    take_up()
    run_until_idle()
    assert (run.refresh().status, performed) == (Status.CANCELLED, ["-reserve"])


@pytest.mark.behaviour("RUN-09a")
@pytest.mark.parametrize("attempts", [1, 3])
def test_a_run_that_was_queued_before_any_worker_has_the_retries_of_its_workflow(settings: Any, attempts: int) -> None:
    """Of the code that works on it: what the process that started it knew is stored nowhere."""

    def code(ctx: Context) -> None:
        performed.append("tried")
        raise ValueError

    run = deploy(code, settings, "1", retry=Retry(max_attempts=2, initial=0)).enqueue()
    assert not Worker.objects.exists()
    deploy(code, settings, "2", retry=Retry(max_attempts=attempts, initial=0, maximum=0))
    run_until_idle(skip_waits=True)
    assert (run.refresh().status, performed) == (Status.FAILED, ["tried"] * attempts)


def test_the_marks_of_what_was_undone_are_no_work_that_a_gate_or_strict_would_miss(settings: Any) -> None:
    """Resumed, the run does that step again and is not past what comes later."""

    def code(is_open: bool) -> Callable[[Context], int]:
        def body(ctx: Context) -> int:
            ctx.step("reserve", work, "reserve", compensate=lambda _: work("-reserve"))
            if not is_open:
                raise NonRetriableError
            return ctx.version("gate", 2)

        return body

    run = deploy(code(False), settings, "1", strict=True).enqueue()
    run_until_idle()
    assert (run.refresh().status, performed) == (Status.FAILED, ["reserve", "-reserve"])
    deploy(code(True), settings, "2", strict=True)
    run.resume()
    run_until_idle()
    assert (run.refresh().status, run.result(timeout=0)) == (Status.SUCCEEDED, 2)
