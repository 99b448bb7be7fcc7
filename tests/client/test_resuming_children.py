"""Parents and children that failed or were cancelled, resumed apart and together."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import django_durable
from django_durable import Context, durable_workflow, get_run
from django_durable.core.journal.states import Status
from django_durable.exceptions import (
    ChildFailed,
    IllegalTransition,
)
from django_durable.models import Run
from django_durable.testing import run_until_idle
from tests.client.orders import ONCE, charge, is_broken, order, parent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


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
    assert run.steps() == []
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
