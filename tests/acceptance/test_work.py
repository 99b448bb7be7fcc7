"""Runs finish in real worker processes."""

from __future__ import annotations

import pytest

from django_durable.models import Run, Worker
from tests.app import workflows
from tests.processes import Worker as WorkerProcess
from tests.processes import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@pytest.mark.behaviour("RUN-01a")
def test_runs_finish_in_two_processes() -> None:
    process = WorkerProcess("--processes", "2")
    handles = workflows.many_steps.enqueue_many([{"count": 5}] * 20)
    asynchronous = [workflows.doubling_async.enqueue(number) for number in range(20)]
    wait_until(lambda: Run.objects.filter(status="succeeded").count() == 40, message="40 runs succeed")
    assert {handle.result() for handle in handles} == {20}
    assert [handle.result() for handle in asynchronous] == [number * 2 for number in range(20)]
    assert process.stop() == 0
    assert not Run.objects.filter(status="running").exists()
    assert not Worker.objects.filter(stopped_at=None).exists()


@pytest.mark.behaviour("RUN-16a")
def test_burst_works_until_nothing_is_due_and_exits() -> None:
    later = workflows.doubling.using(run_after=3600).enqueue(2)
    now = workflows.parent.enqueue(3)
    process = WorkerProcess("--burst")
    assert process.wait() == 0
    assert now.result()[1] == 6
    assert later.status == "scheduled"
