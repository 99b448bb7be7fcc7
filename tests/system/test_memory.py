"""Processes that may map only so much memory: who asks for more gets an error, and his neighbours get on."""

from __future__ import annotations

import time
from typing import Any

import pytest

from django_durable.models import Run
from tests.acceptance.traces import executions, new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults
from tests.invariants import violated
from tests.processes import LASTING, Worker, wait_until
from tests.system.workflows import aborting, greedy, greedy_async, taking_all
from tests.system.working import start_worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("possible_tables")]

GIGABYTE = 1 << 30
SPACE = 3 * GIGABYTE
"""Address space of each process: threads and their arenas alone take half a gigabyte or more of it."""
TOO_MUCH = 8 * GIGABYTE


def short_of_memory(*arguments: str) -> Worker:
    return start_worker(*arguments, durable=LASTING, env={"DURABLE_TEST_ADDRESS_SPACE": str(SPACE)})


@pytest.mark.parametrize("workflow", [greedy, greedy_async], ids=["def", "async def"])
def test_a_step_that_gets_no_memory_fails_and_nothing_else_does(workflow: Any) -> None:
    worker = short_of_memory("--concurrency", "4")
    worker.wait_for_start()
    children = worker.children()
    run = workflow.enqueue(TOO_MUCH)
    company = [faults.plodding.enqueue(10, 0.02) for _ in range(6)]
    wait_until(lambda: run.refresh().status == "failed", message="the run to fail")
    asked = run.steps()[-1]
    assert (asked.status, asked.error["type"], asked.attempts) == ("failed", "MemoryError", 1)
    assert executions(run.id)["ask"] == 1
    wait_for_success(*(one.id for one in company))
    assert worker.children() == children
    assert violated() == []
    assert worker.stop() == 0


def test_a_process_that_has_none_left_for_a_while_goes_on_afterwards() -> None:
    """Its threads get errors wherever they ask for memory: heartbeat, claimer, loops. None of them may end of it."""
    worker, gate = short_of_memory("--concurrency", "4"), new_gate()
    worker.wait_for_start()
    children = worker.children()
    run = taking_all.enqueue(1 << 20, gate)
    wait_for_trace(run.id, "take")
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 8 * LASTING["HEARTBEAT_SECONDS"], message="some beats to pass")
    open_gate(gate)
    wait_until(lambda: run.refresh().status in ("failed", "blocked"), message="the run to end")
    assert (run.status, run.steps()[-1].error["type"]) == ("failed", "MemoryError")
    after = [faults.plodding.enqueue(10, 0.01) for _ in range(6)]
    wait_for_success(*(one.id for one in after))
    gate = new_gate()
    held = faults.held_inside.enqueue(gate)
    wait_for_trace(held.id, "second")
    for _ in range(2):
        until = Run.objects.get(pk=held.id).lease_expires_at
        renewed = Run.objects.filter(pk=held.id, claims=1, lease_expires_at__gt=until)
        wait_until(renewed.exists, message="its heart to beat")
    open_gate(gate)
    wait_for_success(held.id)
    assert worker.children() == children
    assert worker.stop() == 0


def test_a_process_that_dies_of_it_is_a_crash_like_any_other() -> None:
    worker = short_of_memory("--concurrency", "8")
    gate, until_later = new_gate(), new_gate()
    culprit = aborting.enqueue(gate, TOO_MUCH)
    company = [faults.held_inside.enqueue(until_later) for _ in range(3)]
    for run in company:
        wait_for_trace(run.id, "second")
    wait_for_trace(culprit.id, "wait")
    open_gate(gate)
    wait_for_trace(company[0].id, "second", count=2)
    open_gate(until_later)
    wait_until(lambda: culprit.refresh().status == "blocked", message="the run to be blocked")
    wait_for_success(*(run.id for run in company))
    row = culprit.run
    assert (row.block_reason, row.crashes, row.attempt) == ("crashed", 3, 1)
    assert executions(culprit.id)["abort"] == 4
    assert not Run.objects.exclude(pk=culprit.id).filter(crashes__gt=0).exists()
    assert violated() == []
    assert worker.stop() == 0
