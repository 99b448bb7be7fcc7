"""A run is put aside while its step is in flight, and taken up again after its worker has died."""

from __future__ import annotations

import pytest

from django_durable import get_run
from django_durable.core.journal.states import Status
from django_durable.models import JournalEntry, Run
from tests.acceptance.test_sigkill import recovery_seconds
from tests.acceptance.traces import (
    executions,
    new_gate,
    open_gate,
    stored,
    wait_for_success,
    wait_for_trace,
)
from tests.app import faults
from tests.processes import FAST, Worker, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_paused_run_rests_whatever_dies_and_goes_on_where_it_was(backend: str) -> None:
    gate, other_gate = new_gate(), new_gate()
    run = faults.held_inside.enqueue(gate)
    worker = Worker(durable=FAST)
    wait_for_trace(run.id, "second")
    run.pause("the disk is full", actor="ada")
    assert get_run(run.id).status == Status.RUNNING, "the step in flight may end"

    open_gate(gate)
    wait_until(lambda: get_run(run.id).status == Status.PAUSED, message="the run to pause")
    done = JournalEntry.objects.filter(run_id=run.id, status="succeeded").order_by("seq")
    assert list(done.values_list("path", flat=True)) == ["first", "second"]
    leases = Run.objects.filter(pk=run.id).values_list("lease_token", "leased_by", "lease_expires_at")
    assert leases.get() == (None, None, None)

    # Another run dies with the worker: when that one is over, the heir has claimed, reaped and swept what there was.
    paused, witness = stored(run.id), faults.held_inside.enqueue(other_gate)
    wait_for_trace(witness.id, "second")
    heir = Worker()
    start = heir.wait_for_start()
    worker.kill()
    open_gate(other_gate)
    wait_for_success(witness.id, timeout=recovery_seconds(backend, start))
    assert executions(witness.id)["second"] == 2
    assert stored(run.id) == paused and executions(run.id) == {"first": 1, "second": 1}

    run.resume("there is room again", actor="ada")
    wait_for_success(run.id)
    assert run.result() == [2, 4, 6]
    assert executions(run.id) == {"first": 1, "second": 1, "third": 1}
