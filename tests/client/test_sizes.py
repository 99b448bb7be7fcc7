"""Values that are large are refused, or logged: inputs, events, results of steps and of runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_durable import Context, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import Status
from django_durable.exceptions import PayloadError
from django_durable.models import Event, Run
from django_durable.testing import run_until_idle

pytestmark = pytest.mark.django_db

WARN, MAX = 500, 1000
bodies: list[int] = []


@pytest.fixture(autouse=True)
def _small_sizes(settings: Any) -> None:
    bodies.clear()
    settings.DURABLE = {**settings.DURABLE, "WARN_PAYLOAD_BYTES": WARN, "MAX_PAYLOAD_BYTES": MAX}


def make(size: int) -> str:
    bodies.append(size)
    return "x" * size


@durable_workflow(name="sizes.taking")
def taking(ctx: Context, text: str) -> None:
    ctx.wait_for_event("packed")


@durable_workflow(name="sizes.stepping")
def stepping(ctx: Context, size: int) -> None:
    ctx.step("make", make, size)


@durable_workflow(name="sizes.returning")
def returning(ctx: Context, size: int) -> str:
    return "x" * size


# --- too large -------------------------------------------------------------------------------

STARTS: dict[str, Callable[[str], object]] = {
    "enqueue": taking.enqueue,
    "using": lambda text: taking.using(idempotency_key="k").enqueue(text),
    "many": lambda text: taking.enqueue_many([{"text": "small"}, {"text": text}]),
}


@pytest.mark.parametrize("start", STARTS)
def test_an_input_that_is_too_large_starts_nothing(start: str) -> None:
    with pytest.raises(PayloadError, match=r"^input.* takes 1,\d+ bytes as JSON and the cap is 1,000"):
        STARTS[start]("x" * MAX)
    assert not Run.objects.exists()


def test_an_event_that_is_too_large_is_not_sent() -> None:
    run = taking.enqueue("small")
    run_until_idle()
    with pytest.raises(PayloadError, match=r"^payload.* takes 1,002 bytes as JSON and the cap is 1,000"):
        run.send_event("packed", "x" * MAX)
    assert not Event.objects.exists()
    assert run.refresh().status == Status.WAITING


def test_a_step_whose_result_is_too_large_fails_at_once() -> None:
    """Its body has run, and would come to the same result again."""
    run = stepping.enqueue(MAX)
    run_until_idle()
    [step] = run.steps()
    assert step.error is not None
    assert (step.error["type"], step.attempts) == ("django_durable.exceptions.PayloadError", 1)
    assert (run.refresh().status, bodies) == (Status.FAILED, [MAX])


def test_a_run_whose_result_is_too_large_fails() -> None:
    run = returning.enqueue(MAX)
    run_until_idle()
    assert (run.status, run.attempt) == (Status.FAILED, 1)
    assert run.error is not None
    assert "takes 1,002 bytes" in run.error["message"]


# --- large -----------------------------------------------------------------------------------


def send() -> RunHandle[None]:
    run = taking.enqueue("small")
    run.send_event("packed", "x" * WARN)
    return run


LARGE: dict[str, tuple[Callable[[], RunHandle[Any]], str]] = {
    "input": (lambda: taking.enqueue("x" * WARN), "what='input'"),
    "event": (send, "what=\"event 'packed'\""),
    "step": (lambda: stepping.enqueue(WARN), "what=\"result of step 'make'\""),
    "result": (lambda: returning.enqueue(WARN), "what='result'"),
}


@pytest.mark.parametrize("what", LARGE)
def test_what_is_large_is_logged_once(caplog: pytest.LogCaptureFixture, what: str) -> None:
    start, named = LARGE[what]
    run = start()
    run_until_idle()
    [line] = [line.getMessage() for line in caplog.records if line.name == "django_durable.payloads"]
    assert line.startswith(f"large payload run={run.id} {named} bytes=5")


@pytest.mark.parametrize("what", LARGE)
def test_what_is_not_is_not(caplog: pytest.LogCaptureFixture, settings: Any, what: str) -> None:
    settings.DURABLE = {**settings.DURABLE, "WARN_PAYLOAD_BYTES": MAX}
    LARGE[what][0]()
    run_until_idle()
    assert "large payload" not in caplog.text
