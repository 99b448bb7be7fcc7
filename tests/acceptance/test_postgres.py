"""PostgreSQL restarts, drops connections, and holds rows for others while the work goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from django.db import connection, transaction

from django_durable.client.handle import RunHandle
from django_durable.models import JournalEntry, Run
from tests.acceptance.traces import executions, new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults
from tests.processes import FAST, PATIENCE, Worker, wait_until
from tests.servers import PostgresServer

pytestmark = pytest.mark.django_db(transaction=True)

RUNS, STEPS = 100, 20
HELD = 10
"""So many more are inside of a step when it happens, however fast the others are."""


def restart(server: PostgresServer) -> None:
    server.restart(mode="immediate")
    connection.close()


def cut_connections(server: PostgresServer) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert len(cursor.fetchall()) >= 4


@pytest.mark.parametrize("strike", [restart, cut_connections])
def test_runs_outlive_their_database_connections(
    strike: Callable[[PostgresServer], None], postgres_server: PostgresServer
) -> None:
    # What was claimed as the connections broke comes back with its lease, and an outage is to be shorter than that.
    worker = Worker("--processes", "2", durable={"LEASE_SECONDS": 20})
    wait_until(lambda: worker.starts == 2, message="two processes")
    half, gate = RUNS // 2, new_gate()
    held = faults.held_inside.enqueue_many([{"gate": gate}] * HELD)
    handles: list[RunHandle[list[int]]] = faults.plodding.enqueue_many([{"steps": STEPS, "seconds": 0.02}] * half)
    handles += faults.plodding_async.enqueue_many([{"steps": STEPS, "seconds": 0.02}] * half)
    for run in held:
        wait_for_trace(run.id, "second")
    wait_until(lambda: JournalEntry.objects.count() > RUNS, message="the runs to be on their way")
    children = worker.children()

    strike(postgres_server)
    assert Run.objects.live().count() >= HELD
    open_gate(gate)

    wait_for_success(*(handle.id for handle in (*held, *handles)))
    assert worker.children() == children
    assert [run.result() for run in held] == [[2, 4, 6]] * HELD
    for handle in handles:
        assert [step.value for step in handle.steps()] == [2 * turn for turn in range(STEPS)]
        assert handle.result() == [2 * turn for turn in range(STEPS)]
    # A commit whose answer got lost is sent again, the step is not: bodies run twice only after a second claim.
    undisturbed = Run.objects.filter(claims=1)
    assert undisturbed.count() > RUNS // 2
    for row in undisturbed:
        assert set(executions(row.pk).values()) == {1}
    assert worker.stop() == 0
    assert not Run.objects.filter(status="running").exists()


@contextmanager
def held_by_a_web_request(run_id: UUID) -> Iterator[None]:
    """A transaction of another connection that has locked the run's row, as a view that cancels runs would."""
    is_held, is_over = threading.Event(), threading.Event()

    def request() -> None:
        try:
            with transaction.atomic():
                Run.objects.select_for_update().get(pk=run_id)
                is_held.set()
                is_over.wait(2 * PATIENCE)
        finally:
            connection.close()

    thread = threading.Thread(target=request)
    thread.start()
    try:
        assert is_held.wait(PATIENCE)
        yield
    finally:
        is_over.set()
        thread.join()


def test_an_open_transaction_on_one_run_holds_up_no_other() -> None:
    # Who waited for the row would do so until it is free or the lease is over, or for seconds at each of the steps.
    Worker(durable={"LEASE_SECONDS": 120})
    gate = new_gate()
    held = faults.held_inside.enqueue(gate)
    wait_for_trace(held.id, "second")
    with held_by_a_web_request(held.id):
        open_gate(gate)
        wait_for_trace(held.id, "second", "end")
        others = [faults.plodding.enqueue(60, 0) for _ in range(20)]
        others += [faults.plodding_async.enqueue(60, 0) for _ in range(20)]
        wait_for_success(*(run.id for run in others))
        assert [step.path for step in held.steps()] == ["first"]
    wait_for_success(held.id)
    assert executions(held.id) == {"first": 1, "second": 1, "third": 1}
    assert held.refresh().run.claims == 1


def test_a_row_held_past_the_lease_costs_another_claim_and_nothing_else() -> None:
    worker = Worker("--verbosity", "2", durable=FAST)
    gate = new_gate()
    held = faults.held_inside.enqueue(gate)
    wait_for_trace(held.id, "second")
    with held_by_a_web_request(held.id):
        open_gate(gate)
        lapsed = "SELECT lease_expires_at < statement_timestamp() FROM django_durable_run"
        wait_until(lambda: _value(lapsed), message="the lease to lapse")
        # Who lets go of the row before would leave a heartbeat the time to renew it.
        worker.wait_for_log(f"ended run={held.id} workflow=app.held_inside as=Lost")
    wait_for_success(held.id)
    assert executions(held.id) == {"first": 1, "second": 2, "third": 1}
    run = held.refresh().run
    assert (run.claims, run.crashes, run.attempt) == (2, 0, 1)


def _value(sql: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]
