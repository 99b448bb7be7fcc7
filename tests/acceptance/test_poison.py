"""Runs that take their process down are found out alone; those that were only in company are not harmed."""

from __future__ import annotations

import pytest

from django_durable.models import Run
from tests.acceptance.traces import executions, new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults
from tests.processes import Worker, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.contract
def test_a_run_that_kills_its_process_is_blocked_and_its_neighbours_succeed() -> None:
    worker = Worker()
    gate, never_in_doubt = new_gate(), new_gate()
    poison = faults.poisonous.enqueue(gate)
    company = [faults.held_inside.enqueue(never_in_doubt) for _ in range(5)]
    for run in company:
        wait_for_trace(run.id, "second")
    open_gate(gate)
    # Seen a second time: in the process of its own, after the first was killed under it.
    wait_for_trace(company[0].id, "second", count=2)
    later = [faults.plodding.enqueue(3, 0) for _ in range(20)]
    open_gate(never_in_doubt)

    wait_until(lambda: poison.refresh().status == "blocked", message="the run to be blocked")
    wait_for_success(*(run.id for run in (*company, *later)))
    row = poison.refresh().run
    # Once in company, which proves nothing, then three times alone.
    assert (row.block_reason, row.crashes, row.attempt) == ("crashed", 3, 1)
    assert executions(poison.id)["kill"] == 4
    for run in company:
        assert executions(run.id) == {"first": 1, "second": 2, "third": 1}
    assert not Run.objects.exclude(pk=poison.id).filter(crashes__gt=0).exists()
    assert worker.running
    assert worker.stop() == 0
    assert poison.why().reason == "blocked: crashed"


def test_sys_exit_fails_the_step_and_not_the_process() -> None:
    worker = Worker()
    # Before its child works, a process may have others, for a moment.
    worker.wait_for_start()
    children = worker.children()
    exits = faults.exiting.enqueue()
    wait_until(lambda: exits.refresh().status == "failed", message="the run to fail")
    [step] = exits.steps()
    assert (step.status, step.error["type"], step.error["message"]) == ("failed", "SystemExit", "enough")
    assert exits.error is not None
    assert "exit" in exits.error["message"]
    after = faults.plodding.enqueue(1, 0)
    wait_for_success(after.id)
    assert worker.children() == children
