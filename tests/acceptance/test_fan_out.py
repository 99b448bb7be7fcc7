"""Hundreds of children of one parent on real workers, whose slots the waiting parent leaves to them."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from django_durable.core.journal.states import Status
from django_durable.models import JournalEntry, Run
from tests.acceptance.traces import let_leases_lapse, new_gate, open_gate
from tests.app import fanning
from tests.processes import Worker, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


def ended(part: str = fanning.part.name) -> int:
    return Run.objects.filter(workflow=part, status=Status.SUCCEEDED).count()


def test_two_workers_with_a_slot_each_bring_six_hundred_children_to_their_end_and_wake_the_parent_once() -> None:
    Worker("--concurrency", "1")
    Worker("--concurrency", "1")
    run = fanning.whole.enqueue(600)
    assert run.result(timeout=90) == [2 * number for number in range(600)]
    # One to start them all, in two commits; and one when the last had ended.
    assert run.refresh().run.claims == 2
    assert ended() == Run.objects.filter(parent_id=run.id).count() == 600
    assert JournalEntry.objects.filter(run_id=run.id, kind="child", status="succeeded").count() == 600
    call_command("durable_check", verbosity=0)


def test_a_worker_that_is_killed_among_them_costs_no_child_and_no_wake() -> None:
    doomed = Worker("--concurrency", "4")
    gate = new_gate()
    run = fanning.gated_whole.enqueue(300, 100, gate)
    wait_until(lambda: run.refresh().status == "waiting", message="all of the children to be started")
    wait_until(lambda: ended(fanning.gated_part.name) >= 30, message="some of the children are over")
    doomed.kill()
    assert ended(fanning.gated_part.name) <= 100
    let_leases_lapse()
    open_gate(gate)
    Worker("--concurrency", "4")
    assert run.result(timeout=90) == [2 * number for number in range(300)]
    # What the dead process had under way is done again, and the parent is none of that.
    assert run.refresh().run.claims == 2
    assert Run.objects.filter(parent_id=run.id).count() == 300
