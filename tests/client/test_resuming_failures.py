"""Resuming: what ended a run starts anew, what it has handled stays."""

from __future__ import annotations

from typing import Any

import pytest

import django_durable
from django_durable import Context, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import Status
from django_durable.exceptions import (
    IllegalTransition,
    RunNotFound,
    StepFailed,
)
from django_durable.models import Audit, Run
from django_durable.testing import run_until_idle, travel
from tests.client.orders import ONCE, calls, charge, in_status, is_broken, order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@pytest.mark.behaviour("STEP-05a")
def test_a_failed_run_goes_on_with_the_attempts_of_its_step_reset() -> None:
    run = in_status(Status.FAILED)
    run.resume("gateway is back", actor="ann")
    assert run.status == Status.QUEUED
    assert run.error is None
    assert run.run.finished_at is None
    # Still broken: the step has all its attempts again, the one before it is not repeated.
    run_until_idle()
    assert calls == ["charge", "charge"]
    assert run.refresh().status == Status.FAILED
    is_broken.clear()
    run.resume()
    run_until_idle()
    assert run.result(timeout=0) == "charged"
    assert calls == ["charge"] * 3
    assert run.steps()[1].attempts == 1
    assert [(audit.verb, audit.reason, audit.actor) for audit in Audit.objects.order_by("pk")] == [
        ("resume", "gateway is back", "ann"),
        ("resume", "", ""),
    ]


def test_a_cancelled_run_goes_on() -> None:
    run = in_status(Status.CANCELLED)
    run.resume()
    run_until_idle()
    assert run.refresh().status == Status.WAITING
    run.send_event("packed", 5)
    run_until_idle()
    assert run.result(timeout=0) == 5
    assert calls == []


@pytest.mark.parametrize("status", [Status.PAUSED, Status.BLOCKED])
def test_paused_and_blocked_runs_go_on(status: Status) -> None:
    run = in_status(status)
    run.resume()
    assert (run.status, run.run.block_reason) == (Status.QUEUED, "")
    run.send_event("packed", 5)
    run_until_idle()
    assert run.result(timeout=0) == 5


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED, Status.RUNNING, Status.WAITING, Status.SUCCEEDED])
def test_other_runs_cannot_be_resumed(status: Status) -> None:
    run = in_status(status)
    with pytest.raises(IllegalTransition, match=f"is {status}: it cannot be resumed") as caught:
        run.resume()
    assert (caught.value.run_id, caught.value.status) == (run.id, status)
    assert run.refresh().status == status


def test_a_run_that_does_not_exist_cannot_be_resumed() -> None:
    with pytest.raises(RunNotFound):
        RunHandle[Any](uuid7()).resume()


def test_a_deadline_that_has_passed_does_not_end_it_again() -> None:
    run = order.using(timeout=60).enqueue()
    with travel() as clock:
        run_until_idle()
        clock.advance(minutes=2)
        run_until_idle()
        assert run.refresh().status == Status.FAILED
        run.resume()
        run_until_idle()
        assert run.refresh().status == Status.WAITING


def test_on_failure_is_called_again_when_a_resumed_run_fails_again() -> None:
    told: list[str] = []

    @durable_workflow(
        name="verbs.hooked", retry=ONCE, step_retry=ONCE, on_failure=lambda failure: told.append(failure.error["type"])
    )
    def hooked(ctx: Context) -> Any:
        return ctx.step("charge", charge)

    run = hooked.enqueue()
    run_until_idle()
    run.resume()
    assert [step.path for step in run.steps()] == ["charge"]
    run_until_idle()
    assert run.refresh().status == Status.FAILED
    assert told == ["django_durable.exceptions.StepFailed"] * 2
    is_broken.clear()
    run.resume()
    run_until_idle()
    assert run.result(timeout=0) == "charged"
    assert [step.path for step in run.steps()] == ["charge"]


def test_resume_runs_counts_those_that_could() -> None:
    for status in Status:
        in_status(status)
    resumable = {Status.PAUSED, Status.BLOCKED, Status.FAILED, Status.CANCELLED}
    assert django_durable.resume_runs(Run.objects.all()) == len(resumable)


def test_a_failure_that_the_workflow_has_caught_stays_one() -> None:
    def card_a() -> None:
        calls.append("card A")
        raise OSError("declined")

    @durable_workflow(name="verbs.catching", retry=ONCE, step_retry=ONCE)
    def catching(ctx: Context) -> Any:
        try:
            ctx.step("card A", card_a)
        except StepFailed:
            ctx.step("card B", calls.append, "card B")
        return ctx.step("mail", charge)

    run = catching.enqueue()
    run_until_idle()
    is_broken.clear()
    run.resume()
    run_until_idle()
    assert run.result(timeout=0) == "charged"
    assert calls == ["card A", "card B", "charge", "charge"]


def test_an_error_of_the_workflow_s_own_repeats_no_step() -> None:
    @durable_workflow(name="verbs.translating", retry=ONCE, step_retry=ONCE)
    def translating(ctx: Context) -> str:
        try:
            return ctx.step("charge", charge)
        except StepFailed:
            if is_broken:
                raise ValueError("no money") from None
            return "unpaid"

    run = translating.enqueue()
    run_until_idle()
    is_broken.clear()
    run.resume()
    run_until_idle()
    assert (run.result(timeout=0), calls) == ("unpaid", ["charge"])
