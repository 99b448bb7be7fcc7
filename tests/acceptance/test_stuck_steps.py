"""A step that goes on although its time and the grace are over: only the end of its process ends it."""

from __future__ import annotations

import time

import pytest

from tests.acceptance.traces import (
    executions,
    new_gate,
    open_gate,
    traces,
    wait_for_entry,
    wait_for_success,
    wait_for_trace,
)
from tests.app import faults
from tests.processes import Worker, is_alive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.behaviour("RUN-06b", "RUN-07a")
def test_its_process_drains_and_ends_and_its_lease_lives_as_long_as_its_code() -> None:
    # A lease that does not lapse meanwhile: who gets the run has it from the supervisor.
    worker = Worker(durable={"SHUTDOWN_GRACE_SECONDS": 2, "LEASE_SECONDS": 300})
    worker.wait_for_start()
    gate = new_gate()
    run, other = faults.never_ending.enqueue(gate), faults.plodding.enqueue(200, 0.03)
    first = wait_for_trace(run.id, "deaf")
    wait_for_entry(other.id, "plod[0]")
    wait_for_trace(run.id, "deaf", "told")

    worker.wait_for_log("step 'deaf' does not end although its time is over")
    while is_alive(first.pid):
        held = run.refresh().run.lease_token is not None
        assert held or not is_alive(first.pid), "the lease was gone before the code was"
        time.sleep(0.01)
    open_gate(gate)

    wait_for_success(run.id, other.id)
    again = wait_for_trace(run.id, "deaf", count=2)
    assert again.pid != first.pid
    # No lease was waited for: that would have taken longer than anybody waits here.
    assert again.at - first.at < 300
    assert executions(run.id) == {"first": 1, "deaf": 2}
    assert set(executions(other.id).values()) == {1}
    assert [(row.crashes, row.suspect) for row in (run.refresh().run, other.refresh().run)] == [(0, False)] * 2
    assert len(traces(run.id, "deaf", "told")) == 1
    # The other one was handed back before the process died, of which the run itself had to be taken away.
    assert f"reaped run={run.id}" in worker.log
    assert f"reaped run={other.id}" not in worker.log
    assert other.run.claims == 2
    assert worker.running
