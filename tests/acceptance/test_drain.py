"""Workers that are told to stop, or whose supervisor is gone: no lease stays, nothing counts as a crash."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest

from django_durable.client.handle import RunHandle
from django_durable.models import Run
from django_durable.models import Worker as WorkerRow
from tests.acceptance.traces import (
    executions,
    new_gate,
    open_gate,
    traces,
    wait_for_entry,
    wait_for_trace,
)
from tests.app import faults
from tests.processes import Worker, is_alive, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

NO_END_OF_GRACE = {"SHUTDOWN_GRACE_SECONDS": 300}
"""Longer than anybody waits here: what ends is not ended by that."""


def as_left(run: RunHandle[object]) -> tuple[object, ...]:
    row = run.refresh().run
    return (row.status, row.lease_token, row.attempt, row.crashes, row.suspect)


UNHARMED = ("queued", None, 1, 0, False)


def no_worker_is_left() -> bool:
    return not WorkerRow.objects.filter(stopped_at=None).exists()


@pytest.mark.behaviour("RUN-15b")
@pytest.mark.contract
def test_sigterm_leaves_no_lease() -> None:
    worker = Worker("--processes", "2", durable=NO_END_OF_GRACE)
    gate = new_gate()
    held = faults.held_inside.enqueue(gate)
    busy = [faults.plodding.enqueue(1000, 0.02) for _ in range(10)]
    busy += [faults.plodding_async.enqueue(1000, 0.02) for _ in range(10)]
    for run in busy:
        wait_for_entry(run.id, "plod[0]")
    wait_for_trace(held.id, "second")
    wait_until(lambda: worker.starts == 2, message="both children to start")

    worker.signal(signal.SIGTERM)
    # What comes to its next step is handed back while another run's step still goes on.
    wait_until(lambda: Run.objects.filter(status="queued").count() == len(busy), message="runs to be handed back")
    # A child that has not heard of it yet may well take another run, and so may a claim that is under way meanwhile.
    wait_until(lambda: worker.log.count("draining worker=") == 2, message="both children to drain")
    wait_until(lambda: worker.log.count("stopped worker=") == 1, message="the one without the gate to end")
    assert worker.running
    untouched = faults.plodding.enqueue(1, 0)
    open_gate(gate)
    assert worker.wait() == 0

    assert {as_left(run) for run in (held, *busy, untouched)} == {UNHARMED}
    assert "second" in [step.path for step in held.steps()]
    assert no_worker_is_left()


@pytest.mark.behaviour("RUN-06b", "RUN-07a")
def test_a_step_that_outlasts_the_grace_keeps_its_lease_until_its_process_is_dead() -> None:
    worker = Worker(durable={"SHUTDOWN_GRACE_SECONDS": 1, "LEASE_SECONDS": 60})
    run = faults.held_inside.enqueue(new_gate())
    child = wait_for_trace(run.id, "second").pid
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    while is_alive(child):
        held = run.refresh().run.lease_token is not None
        assert held or not is_alive(child), "the lease was gone before the code was"
        time.sleep(0.01)
    assert worker.wait() == 0
    # A second, and the end of two processes: neither a lease, nor the usual grace, nor until the gate gives up.
    assert 1 <= time.monotonic() - began < 20
    assert as_left(run) == UNHARMED
    assert no_worker_is_left()


def test_a_second_signal_ends_at_once() -> None:
    worker = Worker(durable=NO_END_OF_GRACE)
    run = faults.held_inside.enqueue(new_gate())
    child = wait_for_trace(run.id, "second").pid
    worker.signal(signal.SIGTERM)
    worker.wait_for_log("draining: SIGTERM")
    worker.wait_for_log("draining worker=")
    worker.signal(signal.SIGINT)
    # The gate stays shut.
    assert worker.wait() == 128 + signal.SIGINT
    wait_until(lambda: not is_alive(child), message="its child to be gone")


def test_children_drain_when_their_supervisor_is_killed() -> None:
    worker = Worker("--processes", "2", durable=NO_END_OF_GRACE)
    gate = new_gate()
    runs = [faults.held_inside.enqueue(gate) for _ in range(8)]
    for run in runs:
        wait_for_trace(run.id, "second")
    wait_until(lambda: worker.starts == 2, message="both children to start")
    children = worker.children()

    worker.kill_leader()
    wait_until(lambda: worker.log.count("draining worker=") == 2, message="both children to drain")
    open_gate(gate)
    wait_until(lambda: not any(map(is_alive, children)), message="the children to end")
    assert {as_left(run) for run in runs} == {UNHARMED}
    assert all(executions(run.id) == {"first": 1, "second": 1} for run in runs)
    assert no_worker_is_left()


@pytest.mark.parametrize("is_leader_killed", [True, False], ids=["its supervisor is killed", "Ctrl-C"])
def test_who_stands_by_ends_at_once(is_leader_killed: bool) -> None:
    worker = Worker("--no-fork", standby=True)
    worker.wait_for_start()
    # Where that took long the other one is there already; it has no row.
    [first] = WorkerRow.objects.values_list("pid", flat=True)
    [standby] = wait_until(lambda: set(worker.children()) - {first}, message="one to stand by")
    wait_until(lambda: psutil.Process(standby).num_threads() > 1, message="it to listen for orders")
    if is_leader_killed:
        worker.kill_leader()
    else:
        worker._process.signal(signal.SIGINT)
    wait_until(lambda: not is_alive(standby) and not is_alive(first), message="both to end")
    assert "Traceback" not in worker.log
    assert no_worker_is_left()


GATED = """
import os, time
from pathlib import Path
from tests.settings import *
if "DURABLE_WORKER_CHILD" in os.environ:
    gate = Path(__file__).with_name("gate")
    gate.with_name("waits").touch()
    while not gate.exists():
        time.sleep(0.01)
"""
"""Settings of a project that a worker's child has imported once there is a gate."""


def test_ctrl_c_while_a_process_imports_the_project_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "gated.py").write_text(GATED)
    worker = Worker("--no-fork", env={"PYTHONPATH": str(tmp_path), "DJANGO_SETTINGS_MODULE": "gated"})
    wait_until((tmp_path / "waits").exists, message="a child to be at it")
    worker._process.signal(signal.SIGINT)
    worker.wait_for_log("draining: SIGINT")
    (tmp_path / "gate").touch()
    assert worker.wait() == 0
    assert "Traceback" not in worker.log
    assert no_worker_is_left()


def test_a_signal_that_reaches_the_whole_group_drains_as_well() -> None:
    """As Ctrl-C in a terminal does."""
    worker = Worker(durable=NO_END_OF_GRACE)
    gate = new_gate()
    run = faults.held_inside.enqueue(gate)
    wait_for_trace(run.id, "second")
    worker._process.signal(signal.SIGINT)
    worker.wait_for_log("draining worker=")
    open_gate(gate)
    assert worker.wait() == 0
    assert as_left(run) == UNHARMED
    assert len(traces(run.id, "second", "end")) == 1
