"""The verbs on runs: events, cancel, resume, rerun, in every status and over parents and children."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

import django_durable
from django_durable import Context, Retry, durable_workflow, get_run
from django_durable.client.handle import RunHandle
from django_durable.core.ids import uuid7
from django_durable.core.states import LIVE, TERMINAL, Status
from django_durable.exceptions import (
    ChildFailed,
    IllegalTransition,
    InvalidName,
    PayloadError,
    RunCancelled,
    RunNotFound,
    StepFailed,
)
from django_durable.models import Audit, Event, Run
from django_durable.signals import run_enqueued
from django_durable.testing import run_until_idle, travel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
ONCE = Retry(max_attempts=1)
TWICE = Retry(max_attempts=2, initial=0, maximum=0)
calls: list[Any] = []
is_broken: list[bool] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    is_broken[:] = [True]


def charge() -> str:
    calls.append("charge")
    if is_broken:
        raise OSError("gateway")
    return "charged"


@durable_workflow(name="verbs.order", retry=ONCE, step_retry=TWICE)
def order(ctx: Context, how: str = "wait") -> Any:
    ctx.step("reserve", calls.append, "reserve")
    if how == "fail":
        return ctx.step("charge", charge)
    if how == "raise":
        raise ValueError
    return ctx.wait_for_event("packed").payload if how == "wait" else None


@durable_workflow(name="verbs.parent", retry=ONCE, step_retry=TWICE)
def parent(ctx: Context, how: str) -> Any:
    return ctx.run_workflow("order", order, how)


def in_status(status: Status) -> RunHandle[Any]:
    """A run that stands in ``status``."""
    match status:
        case Status.SCHEDULED:
            return order.using(run_after=3600).enqueue()
        case Status.QUEUED:
            return order.enqueue()
    run = order.enqueue({Status.SUCCEEDED: "well", Status.FAILED: "fail"}.get(status, "wait"))
    run_until_idle()
    columns: dict[str, Any] = {}
    match status:
        case Status.CANCELLED:
            run.cancel()
            run_until_idle()
        case Status.RUNNING:
            expiry = run.run.created_at + timedelta(days=1)
            lease = {"lease_token": uuid7(), "leased_by": uuid7(), "lease_expires_at": expiry}
            columns = {"status": status, "waiting_on": "", **lease}
        case Status.PAUSED:
            columns = {"status": status, "waiting_on": ""}
        case Status.BLOCKED:
            columns = {"status": status, "waiting_on": "", "block_reason": "diverged"}
    if columns:
        Run.objects.filter(pk=run.id).update(**columns)
    assert run.refresh().status == status
    calls.clear()
    return run


# --- events ----------------------------------------------------------------------------------


@pytest.mark.behaviour("WAIT-02a", "WAIT-02b")
def test_an_event_wakes_the_run_that_waits_for_it() -> None:
    run = in_status(Status.WAITING)
    run.send_event("other", 1)
    assert run.refresh().status == Status.WAITING
    run.send_event("packed", {"tracking": ("T", 1)})
    assert run.refresh().status == Status.QUEUED
    run_until_idle()
    assert run.result(timeout=0) == {"tracking": ("T", 1)}
    assert Event.objects.get(name="packed").consumed_by == "packed"
    assert Event.objects.get(name="other").consumed_at is None


def test_the_wake_comes_with_the_sender_s_commit() -> None:
    run = in_status(Status.WAITING)
    with transaction.atomic():
        run.send_event("packed", 1)
        assert run.refresh().status == Status.WAITING
    assert run.refresh().status == Status.QUEUED
    other = in_status(Status.WAITING)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        other.send_event("packed", 1)
        _ = 1 / 0
    assert other.refresh().status == Status.WAITING
    assert not Event.objects.filter(run_id=other.id).exists()


@pytest.mark.parametrize("status", sorted(LIVE))
def test_every_live_run_takes_events(status: Status) -> None:
    run = in_status(status)
    run.send_event("packed", 1)
    assert Event.objects.filter(run_id=run.id).count() == 1
    assert not Audit.objects.exists()


def test_an_event_that_somebody_sends_is_in_the_audit() -> None:
    run = in_status(Status.WAITING)
    run.send_event("packed", 1, reason="by phone", actor="ann")
    django_durable.get_run(run.id).send_event("packed", 2, actor="x" * 200)
    first, second = Audit.objects.order_by("pk")
    assert (first.run_id, first.verb, first.actor, first.reason, first.status_before) == (
        run.id,
        "send_event",
        "ann",
        "packed: by phone",
        "waiting",
    )
    assert (second.actor, second.reason, second.status_before) == ("x" * 150, "packed", "queued")


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_finished_run_refuses_events(status: Status) -> None:
    run = in_status(status)
    with pytest.raises(IllegalTransition, match=f"is {status}: it cannot be sent events"):
        run.send_event("packed")
    assert not Event.objects.exists()


@pytest.mark.parametrize("timeout", [0, -1])
def test_an_event_that_was_sent_before_the_first_claim_is_found_by_a_wait_without_time(timeout: int) -> None:
    @durable_workflow(name="verbs.polling")
    def polling(ctx: Context) -> Any:
        event = ctx.wait_for_event("packed", timeout=timeout, default=None)
        return None if event is None else event.payload

    run, other = polling.enqueue(), polling.enqueue()
    run.send_event("packed", "early")
    run_until_idle()
    assert run.result(timeout=0) == "early"
    assert other.result(timeout=0) is None


@pytest.mark.behaviour("WAIT-02i")
def test_an_event_that_comes_while_the_run_executes_is_not_lost() -> None:
    @durable_workflow(name="verbs.own_event")
    def own_event(ctx: Context) -> Any:
        run_id = ctx.run_id
        ctx.step("send", lambda: get_run(run_id).send_event("packed", "meanwhile"))
        return ctx.wait_for_event("packed", timeout=3600).payload

    run = own_event.enqueue()
    run_until_idle()
    assert run.result(timeout=0) == "meanwhile"


@pytest.mark.behaviour("WAIT-02e")
def test_events_are_first_in_first_out_and_each_taken_once() -> None:
    @durable_workflow(name="verbs.three")
    def three(ctx: Context) -> list[Any]:
        return [ctx.wait_for_event("note", key=turn).payload for turn in range(3)]

    run = three.enqueue()
    for number in (1, 2):
        run.send_event("note", number)
    run_until_idle()
    run.send_event("note", 3)
    run_until_idle()
    assert run.result(timeout=0) == [1, 2, 3]
    assert list(Event.objects.order_by("id").values_list("consumed_by", flat=True)) == ["note[0]", "note[1]", "note[2]"]


def test_the_same_idempotency_key_sends_once() -> None:
    run, other = order.enqueue(), order.enqueue()
    for _ in range(3):
        run.send_event("packed", 1, idempotency_key="k")
    run.send_event("packed", 2, idempotency_key="l")
    other.send_event("packed", 3, idempotency_key="k")
    run.send_event("packed", 4)
    run.send_event("packed", 4)
    assert list(Event.objects.order_by("id").values_list("payload", flat=True)) == ["1", "2", "3", "4", "4"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("", 1), InvalidName),
        (("a\nb", 1), InvalidName),
        (("x" * 201, 1), InvalidName),
        (("packed", object()), PayloadError),
        (("packed", 1, ""), InvalidName),
        (("packed", 1, "x" * 201), InvalidName),
    ],
)
def test_bad_events_are_refused(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    run = order.enqueue()
    with pytest.raises(error):
        run.send_event(*arguments)
    assert not Event.objects.exists()


def test_an_event_for_a_run_that_does_not_exist() -> None:
    with pytest.raises(RunNotFound):
        RunHandle[Any](uuid7()).send_event("packed")


# --- cancel ----------------------------------------------------------------------------------


@pytest.mark.behaviour("CANCEL-01a")
@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED, Status.BLOCKED])
def test_cancelling_what_has_no_code_under_way_is_final_at_once(status: Status) -> None:
    run = in_status(status)
    run.cancel("no need", actor="ann")
    assert run.status == Status.CANCELLED
    assert run.run.finished_at is not None
    run_until_idle()
    assert calls == []
    audit = Audit.objects.get()
    assert (audit.run_id, audit.verb, audit.reason, audit.actor, audit.status_before) == (
        run.id,
        "cancel",
        "no need",
        "ann",
        status,
    )


@pytest.mark.behaviour("CANCEL-01b")
@pytest.mark.parametrize("status", [Status.WAITING, Status.PAUSED])
def test_cancelling_what_has_begun_lets_a_worker_end_it(status: Status) -> None:
    run = in_status(status)
    run.cancel("no need")
    assert run.status == Status.QUEUED
    run_until_idle()
    with pytest.raises(RunCancelled, match="no need"):
        run.result(timeout=0)
    assert calls == []


def test_cancelling_what_runs_is_only_asked_for() -> None:
    run = in_status(Status.RUNNING)
    run.cancel()
    assert run.status == Status.RUNNING
    assert run.run.cancel_requested_at is not None


@pytest.mark.behaviour("CANCEL-01d")
@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_cancelling_what_is_over_changes_nothing(status: Status) -> None:
    run = in_status(status)
    before = Run.objects.filter(pk=run.id).values().get()
    audits = Audit.objects.count()
    run.cancel("too late")
    assert Run.objects.filter(pk=run.id).values().get() == before
    assert Audit.objects.count() == audits


def test_cancel_is_part_of_the_caller_s_transaction() -> None:
    run = order.enqueue()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        run.cancel()
        _ = 1 / 0
    assert run.refresh().status == Status.QUEUED


def test_cancel_twice_keeps_the_first_time() -> None:
    run = in_status(Status.RUNNING)
    run.cancel("first")
    first = run.run.cancel_requested_at
    with travel() as clock:
        clock.advance(hours=1)
        run.cancel("second")
    assert run.run.cancel_requested_at == first


def test_cancel_runs_counts_those_that_were_live() -> None:
    runs = [in_status(status) for status in Status]
    assert django_durable.cancel_runs(Run.objects.all(), reason="closing") == len(LIVE)
    run_until_idle()
    assert {run.refresh().status for run in runs} == {
        Status.SUCCEEDED,
        Status.FAILED,
        Status.CANCELLED,
        Status.RUNNING,
    }
    assert django_durable.cancel_runs([]) == 0


# --- resume ----------------------------------------------------------------------------------


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


def test_a_child_whose_parent_has_journaled_its_failure_stays() -> None:
    run = parent.enqueue("fail")
    run_until_idle()
    child = get_run(Run.objects.get(parent_id=run.id).pk)
    assert (run.refresh().status, child.status) == (Status.FAILED, Status.FAILED)
    with pytest.raises(IllegalTransition):
        child.resume()
    assert django_durable.resume_runs(Run.objects.filter(pk=child.id)) == 0
    assert child.refresh().status == Status.FAILED


def test_a_parent_goes_on_with_a_new_child_in_place_of_the_one_that_failed() -> None:
    run = parent.enqueue("fail")
    run_until_idle()
    old = get_run(Run.objects.get(parent_id=run.id).pk)
    is_broken.clear()
    run.resume("gateway is back")
    run_until_idle()
    assert run.result(timeout=0) == "charged"
    [new] = Run.objects.filter(parent_id=run.id).exclude(pk=old.id)
    assert (new.status, new.parent_path, new.root_id) == (Status.SUCCEEDED, "order", run.id)
    # It stays as it ended, in the tree, and what it did is not undone; but it is nobody's child to wait for.
    assert (old.refresh().status, old.run.parent_path, old.run.root_id) == (Status.FAILED, "", run.id)
    assert [(step.path, step.status) for step in run.steps()] == [("order", "succeeded")]
    with pytest.raises(IllegalTransition):
        old.resume()


def test_a_parent_may_be_resumed_until_its_child_succeeds() -> None:
    run = parent.enqueue("fail")
    run_until_idle()
    for tries in (2, 3):
        run.resume()
        run_until_idle()
        assert run.refresh().status == Status.FAILED
        assert Run.objects.filter(parent_id=run.id).count() == tries
    assert Run.objects.filter(parent_id=run.id, parent_path="order").count() == 1


def test_parents_and_their_failed_children_resumed_at_once_start_one_new_child_each() -> None:
    run = parent.enqueue("fail")
    run_until_idle()
    is_broken.clear()
    assert django_durable.resume_runs(Run.objects.all()) == 1
    run_until_idle()
    assert run.result(timeout=0) == "charged"
    assert sorted(Run.objects.filter(parent_id=run.id).values_list("status", flat=True)) == ["failed", "succeeded"]


def test_a_child_that_was_cancelled_with_its_parent_is_started_anew_with_it() -> None:
    run = parent.enqueue("wait")
    run_until_idle()
    old = get_run(Run.objects.get(parent_id=run.id).pk)
    run.cancel()
    run_until_idle()
    assert (run.refresh().status, old.refresh().status) == (Status.CANCELLED, Status.CANCELLED)
    run.resume()
    run_until_idle()
    [new] = Run.objects.filter(parent_id=run.id, parent_path="order")
    assert (run.refresh().status, old.refresh().status, new.status) == ("waiting", "cancelled", "waiting")
    get_run(new.pk).send_event("packed", 8)
    run_until_idle()
    assert run.result(timeout=0) == 8


def test_a_child_that_was_cancelled_with_its_parent_and_is_resumed_with_it_goes_on_itself() -> None:
    run = parent.enqueue("wait")
    run_until_idle()
    run.cancel()
    run_until_idle()
    assert django_durable.resume_runs(Run.objects.all()) == 2
    run_until_idle()
    [child] = Run.objects.filter(parent_id=run.id)
    get_run(child.pk).send_event("packed", 9)
    run_until_idle()
    assert run.result(timeout=0) == 9


def test_a_child_that_succeeded_is_not_started_anew() -> None:
    @durable_workflow(name="verbs.late", retry=ONCE, step_retry=ONCE)
    def late(ctx: Context) -> Any:
        ctx.run_workflow("order", order, "well")
        return ctx.step("charge", charge)

    run = late.enqueue()
    run_until_idle()
    is_broken.clear()
    run.resume()
    run_until_idle()
    assert run.result(timeout=0) == "charged"
    assert Run.objects.filter(parent_id=run.id).count() == 1


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


def test_a_child_whose_parent_has_not_seen_its_failure_may_go_on() -> None:
    run = parent.enqueue("wait")
    run_until_idle()
    child = get_run(Run.objects.get(parent_id=run.id).pk)
    child.cancel()
    # The parent is woken by the child's end; before it sees it, the operator is quicker.
    Run.objects.filter(pk=run.id).update(status=Status.PAUSED, waiting_on="", wake_at=None)
    run_until_idle()
    child.resume()
    child.send_event("packed", 7)
    run.resume()
    run_until_idle()
    assert run.result(timeout=0) == 7


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


@pytest.mark.parametrize("how", ["fails", "blocks"])
def test_a_child_s_failure_that_the_parent_has_caught_stays_one(how: str) -> None:
    @durable_workflow(name="verbs.catching_child", retry=ONCE, step_retry=ONCE)
    def catching_child(ctx: Context) -> Any:
        with suppress(ChildFailed):
            ctx.run_workflow("order", order, "fail")
        return ctx.step("charge", charge) if how == "fails" else ctx.wait_for_event("packed").payload

    run = catching_child.enqueue()
    run_until_idle()
    if how == "blocks":
        Run.objects.filter(pk=run.id).update(status="blocked", block_reason="crashed", waiting_on="")
    is_broken.clear()
    run.resume()
    run.send_event("packed", "charged")
    run_until_idle()
    assert run.result(timeout=0) == "charged"
    [child] = Run.objects.filter(parent_id=run.id)
    assert (child.status, child.parent_path) == (Status.FAILED, "order")


# --- rerun -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", sorted(Status))
def test_rerun_is_a_new_run_with_the_same_input(status: Status) -> None:
    run = in_status(status)
    again = run.rerun("once more", actor="ann")
    assert again != run
    assert run.refresh().status == status
    assert (again.workflow, again.status, again.attempt) == ("verbs.order", Status.QUEUED, 1)
    assert (again.run.parent_id, again.run.root_id) == (None, again.id)
    audit = Audit.objects.filter(verb="rerun").get()
    assert (audit.run_id, audit.reason, audit.actor) == (run.id, "once more", "ann")


def test_rerun_repeats_what_was_done() -> None:
    run = order.enqueue("well")
    run_until_idle()
    again = run.rerun()
    run_until_idle()
    assert again.refresh().status == Status.SUCCEEDED
    assert calls == ["reserve", "reserve"]


def test_rerun_keeps_the_options() -> None:
    options: dict[str, Any] = {"queue": "vip", "priority": 7, "max_attempts": 4, "tags": ["a", "b"]}
    run = order.using(**options, run_after=3600).enqueue("well")
    with travel() as clock:
        clock.advance(hours=2)
        again = run.rerun().run
    assert (again.queue, again.priority, again.max_attempts) == ("vip", 7, 4)
    assert set(again.tags.values_list("name", flat=True)) == {"a", "b"}
    assert again.status == Status.QUEUED


def time_left(run: RunHandle[Any]) -> timedelta | None:
    row = run.refresh().run
    return None if row.deadline_at is None else row.deadline_at - row.created_at


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("run_after", [None, 3600])
def test_rerun_has_the_same_time_as_an_enqueue_from_its_own_start_on(run_after: int | None, turns: int) -> None:
    """How long the first one was to wait is no part of that, whether it still waits or has begun."""
    run = order.using(timeout=600, run_after=run_after).enqueue("well")
    with travel() as clock:
        for _ in range(2):
            again = run
            for _ in range(turns):
                again = again.rerun()
            assert time_left(again) == pytest.approx(timedelta(minutes=10), abs=timedelta(seconds=5))
            clock.advance(hours=2)
            run_until_idle()


def test_rerun_has_the_time_that_was_asked_for_and_not_what_was_left_of_another_s() -> None:
    @durable_workflow(name="verbs.hurried_parent")
    def hurried(ctx: Context) -> None:
        ctx.start_workflow("unlimited", order)
        ctx.start_workflow("limited", order.using(timeout=7200))

    hurried.using(timeout=60).enqueue()
    run_until_idle()
    with travel() as clock:
        unlimited, limited = (get_run(child.pk) for child in Run.objects.filter(workflow=order.name).order_by("pk"))
        clock.advance(minutes=2)
        run_until_idle()
        assert limited.refresh().status == Status.FAILED
        limited.resume()
        assert limited.run.deadline_at is None
        assert time_left(unlimited.rerun()) is None
        assert time_left(limited.rerun()) == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=5))


def test_rerun_is_announced_like_every_enqueue() -> None:
    run = in_status(Status.SUCCEEDED)
    heard: list[Any] = []

    def hear(sender: Any, run_id: Any, **more: Any) -> None:
        heard.append((sender, run_id, sorted(more)))

    run_enqueued.connect(hear)
    try:
        with transaction.atomic():
            again = run.rerun()
            assert heard == []
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            run.rerun()
            _ = 1 / 0
    finally:
        run_enqueued.disconnect(hear)
    assert heard == [(order, again.id, ["signal"])]


def test_rerun_of_a_run_that_does_not_exist() -> None:
    with pytest.raises(RunNotFound):
        RunHandle[Any](uuid7()).rerun()
