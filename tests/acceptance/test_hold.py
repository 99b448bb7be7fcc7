"""Holding a queue or a workflow under workers that live: nothing of it is claimed, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import django_durable
from django_durable.core.journal.states import Status
from django_durable.models import Run
from django_durable.models import Worker as Process
from django_durable.store.database import Database
from django_durable.store.scheduling import database_now
from tests.acceptance.traces import executions, new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults, workflows
from tests.processes import Worker, wait_until

pytestmark = pytest.mark.django_db(transaction=True)
HOLDS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "queue": (lambda: django_durable.hold_queue("default"), lambda: django_durable.release_queue("default")),
    "workflow": (
        lambda: django_durable.hold_workflow("app.doubling"),
        lambda: django_durable.release_workflow("app.doubling"),
    ),
}


@pytest.mark.parametrize("kind", HOLDS)
def test_what_is_held_waits_and_goes_on_within_a_heartbeat_of_its_release(kind: str) -> None:
    hold, release = HOLDS[kind]
    assert hold()
    before = workflows.doubling.enqueue(1)
    # One worker of a queue that is held would be enough to claim: another queue shows that it works.
    Worker("--queues", "default,other", durable={"REAP_SECONDS": 300})
    wait_for_success(workflows.many_steps.using(queue="other").enqueue(2).id)
    after = workflows.doubling.enqueue(2)
    wait_for_success(workflows.many_steps.using(queue="other").enqueue(2).id)
    assert set(Run.objects.filter(pk__in=[before.id, after.id]).values_list("status", "claims")) == {("queued", 0)}
    assert before.why().reason == "queued: held"

    release()
    # The next sweep comes when nobody waits any more.
    for run in (before, after):
        wait_for_success(run.id)
    assert [before.result(), after.result()] == [2, 4]


def test_a_worker_at_work_hears_of_a_hold_and_finishes_what_it_has() -> None:
    gate = new_gate()
    run = faults.held_inside.enqueue(gate)
    worker = Worker("--queues", "default,other")
    wait_for_trace(run.id, "second")
    django_durable.hold_queue("default", reason="the disk is full")

    # What the first heartbeat after it tells is heeded once its answer has come: before the second one is sent.
    since = database_now(Database())
    for number in ("first", "second"):
        beats = Process.objects.filter(heartbeat_at__gt=since)
        wait_until(beats.exists, message=f"the {number} heartbeat")
        since = beats.get().heartbeat_at
    later = workflows.doubling.enqueue(1)
    wait_for_success(workflows.doubling.using(queue="other").enqueue(1).id)
    assert Run.objects.get(pk=later.id).claims == 0
    open_gate(gate)
    wait_for_success(run.id)
    assert executions(run.id) == {"first": 1, "second": 1, "third": 1}
    assert later.refresh().status == Status.QUEUED
    assert worker.stop() == 0


@pytest.mark.parametrize("kind", HOLDS)
def test_a_burst_does_not_wait_for_what_is_held(kind: str) -> None:
    hold, release = HOLDS[kind]
    hold()
    held = workflows.doubling.enqueue(1)
    other = workflows.many_steps.using(queue="other").enqueue(2)
    assert Worker("--burst", "--queues", "default,other").wait() == 0
    assert (held.refresh().status, other.refresh().status) == (Status.QUEUED, Status.SUCCEEDED)
    release()
    assert Worker("--burst").wait() == 0
    assert held.result() == 2
