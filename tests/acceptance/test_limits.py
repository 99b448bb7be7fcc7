"""Limits with real workers: strict in several processes, in nobody's way, and free again when a process dies."""

from __future__ import annotations

from itertools import pairwise

import pytest

from django_durable import get_run
from django_durable.models import Run
from tests.acceptance.test_sigkill import recovery_seconds
from tests.acceptance.traces import new_gate, open_gate, traces, wait_for_success, wait_for_trace
from tests.app import limits
from tests.processes import FAST, Worker, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@pytest.mark.behaviour("RUN-12a", "RUN-12b", "RUN-12d")
def test_runs_of_a_key_never_overlap_in_two_processes() -> None:
    runs = {tenant: [limits.one_a_tenant.enqueue(tenant, seconds=0.02) for _ in range(12)] for tenant in ("a", "b")}
    worker = Worker("--processes", "2")
    later = [limits.one_a_tenant.enqueue("c", seconds=0.02) for _ in range(6)]
    ids = [run.id for run in [*runs["a"], *runs["b"], *later]]
    wait_for_success(*ids)
    for handles in (*runs.values(), later):
        spans = sorted((traces(run.id)[0].at, traces(run.id, moment="end")[0].at) for run in handles)
        overlaps = [first for first, second in pairwise(spans) if second[0] < first[1]]
        assert not overlaps
        assert len(spans) == len(handles)
    assert worker.stop() == 0


@pytest.mark.behaviour("RUN-12d")
def test_the_backlog_of_one_key_starves_no_other() -> None:
    gate = new_gate()
    limits.one_a_tenant.enqueue("big", gate=gate)
    limits.one_a_tenant.enqueue_many([{"tenant": "big", "gate": gate} for _ in range(200)])
    Worker("--concurrency", "2")
    wait_until(lambda: Run.objects.filter(status="running").exists(), message="the first of the backlog")
    small = [limits.one_a_tenant.enqueue("small") for _ in range(3)]
    wait_for_success(*(run.id for run in small))
    waiting = Run.objects.filter(status="queued")[0]
    why = get_run(waiting.pk).why()
    assert why.reason == "queued: limit"
    assert "'app.one_a_tenant:big' is full: 1 of 1" in why.text
    open_gate(gate)


@pytest.mark.behaviour("RUN-12e")
def test_the_slot_of_a_killed_worker_is_free_once_its_lease_is_taken_away(backend: str) -> None:
    gate = new_gate()
    held = limits.one_a_tenant.enqueue("a", gate=gate)
    victim = Worker(durable=FAST)
    wait_for_trace(held.id, "work")
    waiting = limits.one_a_tenant.enqueue("a")
    heir = Worker()
    start = heir.wait_for_start()
    victim.kill()
    open_gate(gate)
    wait_for_success(held.id, waiting.id, timeout=recovery_seconds(backend, start) + 5)
    assert len(traces(waiting.id)) == 1


@pytest.mark.behaviour("RUN-13a")
def test_a_parent_that_waits_lets_its_child_have_the_only_slot() -> None:
    run = limits.nested.enqueue(3)
    Worker("--concurrency", "1")
    wait_for_success(run.id)
    assert run.result() == 3


def test_the_next_run_of_a_key_hears_of_a_free_slot_and_need_not_wait_for_a_sweep() -> None:
    worker = Worker(durable={"LEASE_SECONDS": 300, "REAP_SECONDS": 300})
    worker.wait_for_start()
    runs = [limits.one_a_tenant.enqueue("a") for _ in range(8)]
    wait_for_success(*(run.id for run in runs))


@pytest.mark.behaviour("RUN-12g")
def test_two_processes_start_no_more_than_the_rate_and_each_as_soon_as_it_opens() -> None:
    runs = limits.three_a_second.enqueue_many([{}] * 8)
    # Who misses that it opens comes with the next sweep.
    worker = Worker("--processes", "2", durable={"REAP_SECONDS": 300})
    wait_for_success(*(run.id for run in runs))
    begun = list(Run.objects.order_by("started_at").values_list("started_at", flat=True))
    gaps = [(later - earlier).total_seconds() for earlier, later in zip(begun, begun[3:], strict=False)]
    assert len(gaps) == 5
    assert min(gaps) >= 1
    assert max(gaps) < 20
    assert worker.stop() == 0
