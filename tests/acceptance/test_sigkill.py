"""Whole workers and single processes of them die by SIGKILL: what was journaled is not repeated, the rest goes on."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from django_durable.models import Run
from django_durable.models import Worker as WorkerRow
from tests.acceptance.traces import (
    executions,
    freeze_between_writes,
    kill_in_step,
    new_gate,
    open_gate,
    stored,
    traces,
    wait_for_entry,
    wait_for_success,
    wait_for_trace,
)
from tests.app import faults
from tests.processes import FAST, Worker, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def recovery_seconds(backend: str, start: float) -> float:
    """Lease, reap and ten seconds; on SQLite a lapse has to be seen twice, a heartbeat apart.

    What died in a step gets a process of its own: where ``start``, in which a worker has started here, says that this
    may take longer than ten seconds, as long as that.
    """
    one_more = FAST["HEARTBEAT_SECONDS"] if backend == "sqlite" else 0
    return FAST["LEASE_SECONDS"] + FAST["REAP_SECONDS"] + max(10, 4 * start) + one_more


@pytest.mark.behaviour("RUN-05b", "RUN-05c")
@pytest.mark.contract
def test_a_killed_workers_runs_go_on_elsewhere(backend: str) -> None:
    gate = new_gate()
    inside, between = faults.held_inside.enqueue(gate), faults.held_between.enqueue(gate)
    victim = Worker(durable=FAST)
    wait_for_trace(inside.id, "second")
    wait_for_entry(between.id, "first")
    heir = Worker(durable=FAST)
    start = heir.wait_for_start()

    victim.kill()
    open_gate(gate)
    wait_for_success(inside.id, between.id, timeout=recovery_seconds(backend, start))

    assert executions(inside.id) == {"first": 1, "second": 2, "third": 1}
    assert executions(between.id) == {"first": 1, "second": 1, "third": 1}
    assert inside.result() == between.result() == [2, 4, 6]
    assert list(Run.objects.values_list("claims", "crashes")) == [(2, 0), (2, 0)]


def test_a_killed_child_is_replaced_and_its_run_goes_on_at_once() -> None:
    # A lease that nobody could wait for: the supervisor itself takes away what its dead child held.
    worker = Worker(durable={"LEASE_SECONDS": 300})
    worker.wait_for_start()
    child = kill_in_step()
    # The next run is in company again: that takes the replacement, not the process for suspects.
    after = faults.plodding.enqueue(1, 0)
    wait_for_success(after.id)
    assert child not in worker.children()


def test_who_stands_by_has_nothing_until_it_is_called_and_then_takes_up_what_the_dead_one_left() -> None:
    # A lease that nobody could wait for.
    worker = Worker("--no-fork", standby=True, durable={"LEASE_SECONDS": 300})
    worker.wait_for_start()
    # Where that took long the other one is there already; it has no row.
    [first] = WorkerRow.objects.values_list("pid", flat=True)
    [standby] = wait_until(lambda: set(worker.children()) - {first}, message="one to stand by")
    process = psutil.Process(standby)
    wait_until(lambda: process.num_threads() > 1, message="it to have imported the project, and to listen for orders")
    assert process.net_connections(kind="all") == []
    assert [row.pid for row in WorkerRow.objects.all()] == [first]
    gate = new_gate()
    run = faults.held_inside.enqueue(gate)
    assert wait_for_trace(run.id, "second").pid == first
    os.kill(first, signal.SIGKILL)
    assert wait_for_trace(run.id, "second", count=2).pid == standby
    open_gate(gate)
    wait_for_success(run.id)
    wait_until(lambda: len(worker.children()) == 3, message="a replacement, and another that stands by")
    assert worker.stop() == 0
    assert "Traceback" not in worker.log


@pytest.mark.behaviour("RUN-06b")
@pytest.mark.contract
def test_a_thawed_worker_writes_nothing_and_works_on() -> None:
    frozen = Worker("--queues", "default,mine", "--verbosity", "2", durable=FAST)
    gate = new_gate()
    run = faults.held_inside.enqueue(gate)
    child = wait_for_trace(run.id, "second").pid
    heir = Worker(durable=FAST)
    heir.wait_for_start()

    freeze_between_writes(frozen)
    wait_for_trace(run.id, "second", count=2)
    open_gate(gate)
    wait_for_success(run.id)
    before = stored(run.id)
    assert [one.pid for one in traces(run.id, "second", "end")] != [child]

    frozen.thaw()
    frozen.wait_for_log(f"ended run={run.id} workflow=app.held_inside as=Lost")
    mine = faults.plodding.using(queue="mine").enqueue(2, 0)
    wait_for_success(mine.id)
    assert {one.pid for one in traces(mine.id)} == {child}
    assert stored(run.id) == before
    assert executions(run.id) == {"first": 1, "second": 2, "third": 1}
    wait_until(lambda: frozen.children() == [child], message="the frozen worker's only child")
