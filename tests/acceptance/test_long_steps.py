"""A step that takes longer than a lease: its worker renews the lease, and nobody else gets the run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.acceptance.traces import executions, new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults
from tests.processes import FAST, Worker, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.contract
@pytest.mark.behaviour("RUN-06a")
def test_a_step_of_three_leases_stays_with_its_worker() -> None:
    gate = new_gate()
    run = faults.held_inside.enqueue(gate)
    Worker(durable=FAST)
    wait_for_trace(run.id, "second")
    other = Worker(durable=FAST)
    other.wait_for_start()
    claimed = run.refresh().run

    three_leases = timedelta(seconds=3 * FAST["LEASE_SECONDS"])
    wait_until(
        lambda: run.refresh().run.lease_expires_at >= claimed.lease_expires_at + three_leases,
        message="three leases",
    )
    open_gate(gate)
    wait_for_success(run.id)

    ended = run.refresh().run
    assert executions(run.id) == {"first": 1, "second": 1, "third": 1}
    assert (ended.claims, ended.crashes, ended.attempt) == (1, 0, 1)
