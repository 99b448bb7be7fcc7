"""A worker freezes inside of a run and loses its lease, another finishes, it thaws: nothing that it writes stands.

The statements by themselves are in tests/store/test_fence.py, a worker that finds out by its own clock is in
tests/acceptance/test_sigkill.py. Here real processes thaw that believe in their leases and send everything.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from django_durable.client.handle import RunHandle
from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed
from django_durable.models import Event, Run
from django_durable.store.claiming import claim_ids
from django_durable.store.committing import write_batch
from django_durable.store.database import PrivateDatabase
from django_durable.testing import run_until_idle
from tests.acceptance.traces import freeze_between_writes, new_gate, open_gate, wait_for_entry, wait_for_trace
from tests.invariants import violated
from tests.processes import wait_until
from tests.reliability.freezing import (
    BELIEVES,
    LONG,
    SEES,
    Zombie,
    all_rows,
    lose_leases,
    rows_of,
    wait_until_lapsed,
)
from tests.reliability.workflows import answers, begets, completes, fails, hears, journals, sleeps, tells
from tests.store.rows import claimant

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

KINDS = {
    "a journal entry": journals,
    "a completion": completes,
    "a failure": fails,
    "a suspension": sleeps,
    "a child": begets,
    "the answer to an event": answers,
}
ENDS = {"a failure": "failed", "a suspension": "waiting"}


def start_at_the_gate(gate: str) -> dict[str, RunHandle[Any]]:
    """A run for each kind of write, all in the worker's hands and just before that write."""
    runs = {kind: workflow.enqueue(gate) for kind, workflow in KINDS.items()}
    runs["the answer to an event"].send_event("ask", 1)
    for kind, run in runs.items():
        if kind == "a journal entry":
            wait_for_trace(run.id, "held")
        else:
            wait_for_entry(run.id, "first")
    return runs


def finish_elsewhere(runs: dict[str, RunHandle[Any]]) -> None:
    """In this process, under leases of its own."""
    run_until_idle()
    assert {kind: run.refresh().status for kind, run in runs.items()} == {
        kind: ENDS.get(kind, "succeeded") for kind in KINDS
    }
    assert set(Run.objects.filter(pk__in=ids_of(runs)).values_list("crashes", "suspect")) == {(0, False)}


def ids_of(runs: dict[str, RunHandle[Any]]) -> list[Any]:
    return [run.id for run in runs.values()]


@pytest.mark.behaviour("RUN-06b", "RUN-17a")
@pytest.mark.parametrize("thinks", ["believes that it holds its leases", "sees that they are over"])
def test_nothing_stands_that_a_thawed_worker_writes(thinks: str) -> None:
    is_believing = thinks.startswith("believes")
    zombie, gate = Zombie(BELIEVES if is_believing else SEES), new_gate()
    runs = start_at_the_gate(gate)
    freeze_between_writes(zombie) if is_believing else zombie.freeze_between_beats()
    (lose_leases if is_believing else wait_until_lapsed)(*ids_of(runs))
    open_gate(gate)
    finish_elsewhere(runs)
    before = all_rows()

    zombie.thaw()
    assert {kind: zombie.wait_for_end(run.id) for kind, run in runs.items()} == dict.fromkeys(KINDS, "Lost")
    assert all_rows() == before
    assert violated() == []
    assert zombie.stop() == 0
    assert all_rows() == before


def test_without_the_fence_each_of_these_writes_is_seen() -> None:
    """Else the test above would pass as well where the thawed process had sent nothing at all."""
    zombie, gate = Zombie(BELIEVES, is_fenced=False), new_gate()
    runs = start_at_the_gate(gate)
    freeze_between_writes(zombie)
    lose_leases(*ids_of(runs))
    open_gate(gate)
    finish_elsewhere(runs)
    before = {kind: rows_of(run.id) for kind, run in runs.items()}

    zombie.thaw()
    ends = {kind: zombie.wait_for_end(run.id) for kind, run in runs.items()}
    changed = {kind for kind, run in runs.items() if rows_of(run.id) != before[kind]}
    assert changed == set(KINDS), ends


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.parametrize("is_keyed", [False, True], ids=["without a key", "with a key"])
def test_what_a_plain_step_of_a_thawed_worker_sends_is_not_fenced_and_by_a_key_arrives_once(is_keyed: bool) -> None:
    """As `docs/reliability.md` says of what is not promised: the result is kept out, what the step has done is not."""
    zombie, gate = Zombie(BELIEVES), new_gate()
    listener = hears.enqueue()
    run = tells.enqueue(str(listener.id), gate, is_keyed)
    frozen = wait_for_trace(run.id, "tell").pid
    wait_until(lambda: listener.refresh().status == "waiting", message="the listener to wait")
    freeze_between_writes(zombie)
    lose_leases(run.id)
    open_gate(gate)
    run_until_idle()
    assert run.refresh().status == "succeeded"
    before = rows_of(run.id)

    zombie.thaw()
    assert zombie.wait_for_end(run.id) == "Lost"
    assert rows_of(run.id) == before
    senders = [os.getpid()] if is_keyed else [os.getpid(), frozen]
    sent = Event.objects.filter(run_id=listener.id).order_by("pk")
    assert [json.loads(payload) for payload in sent.values_list("payload", flat=True)] == senders


@pytest.mark.usefixtures("possible_tables")
def test_a_run_that_another_still_works_on_is_left_to_it(db: PrivateDatabase) -> None:
    """It is not over, but under another token: what the thawed process sends meets a lease that stands."""
    zombie, gate = Zombie(BELIEVES), new_gate()
    run = journals.enqueue(gate)
    wait_for_trace(run.id, "held")
    freeze_between_writes(zombie)
    lose_leases(run.id)
    [heir] = claim_ids(db, claimant(journals.name), [run.id], lease=LONG, time=DatabaseClock())
    before = all_rows()

    open_gate(gate)
    zombie.thaw()
    assert zombie.wait_for_end(run.id) == "Lost"
    assert all_rows() == before
    receipt = write_batch(db, [(heir.lease, Write(outcome=Completed("1")))])[run.id]
    assert (receipt.is_held, receipt.status) == (True, "succeeded")
    assert run.result() == 1
