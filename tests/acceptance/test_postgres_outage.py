"""PostgreSQL is away: who enqueues is told so and nothing is half done; workers wait, and go on by themselves."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from django.db import OperationalError, close_old_connections, transaction

from django_durable.models import IdempotencyKey, JournalEntry, Run
from django_durable.queues.current import current_queue
from tests.acceptance.traces import executions, new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults
from tests.processes import Worker, wait_until
from tests.servers import PostgresServer

pytestmark = pytest.mark.django_db(transaction=True)

LEASE, BEAT = 6, 2
AGAIN = BEAT / 4
"""Seconds from a heartbeat that was refused to the next one. Three times as long after the outage those who live have
until their leases are taken."""
STARTS: dict[str, Callable[[], object]] = {
    "enqueue": lambda: faults.plodding.enqueue(1, 0),
    "a key": lambda: faults.plodding.using(idempotency_key="k", tags=["t"]).enqueue(1, 0),
    "many": lambda: faults.plodding.enqueue_many([{"steps": 1, "seconds": 0}] * 2),
}


def test_enqueueing_meanwhile_is_refused_as_any_query_and_leaves_nothing(postgres_server: PostgresServer) -> None:
    postgres_server.stop()
    for start in STARTS.values():
        for surrounding in (nullcontext, transaction.atomic):
            with pytest.raises(OperationalError), surrounding():
                start()
            close_old_connections()  # what Django does after each request
    with pytest.raises(OperationalError, match=r"connection .* failed"):
        STARTS["enqueue"]()
    close_old_connections()

    postgres_server.start()
    assert current_queue().length("default") == 0
    assert not Run.objects.exists() and not IdempotencyKey.objects.exists()
    for start in STARTS.values():
        start()
    assert Run.objects.filter(status="queued").count() == 4


def test_a_worker_outlasts_an_outage_that_is_longer_than_its_leases(postgres_server: PostgresServer) -> None:
    worker = Worker("--processes", "1", durable={"LEASE_SECONDS": LEASE, "HEARTBEAT_SECONDS": BEAT})
    gate = new_gate()
    held = faults.held_inside.enqueue(gate)
    wait_for_trace(held.id, "second")
    handles: list[Any] = faults.plodding.enqueue_many([{"steps": 30, "seconds": 0.05}] * 10)
    handles += faults.plodding_async.enqueue_many([{"steps": 30, "seconds": 0.05}] * 10)
    wait_until(lambda: JournalEntry.objects.count() > 60, message="the runs to be on their way")
    children = worker.children()

    journaled = set(JournalEntry.objects.values_list("run_id", "path"))
    began = time.monotonic()
    postgres_server.stop()
    stopped = time.monotonic()
    close_old_connections()
    worker.wait_for_log("the database refused a heartbeat")
    wait_until(lambda: time.monotonic() - stopped > 1.5 * LEASE, message="every lease to lapse")
    attempts = Counter(re.findall(r"the database refused (.*), trying again", worker.log))
    away = time.monotonic() - began
    postgres_server.start()

    open_gate(gate)
    wait_for_success(held.id, *(handle.id for handle in handles))
    assert worker.children() == children
    assert {path: count for run, path in journaled for count in [executions(run)[path]] if count > 1} == {}
    # The heartbeat alone, of which lives depend, does not wait longer each time.
    assert 3 <= attempts["a heartbeat"] < 10 + away / AGAIN and attempts["a claim"] >= 1
    assert max(count for who, count in attempts.items() if who != "a heartbeat") < 12 + away
    assert {(run.attempt, run.crashes, run.suspect) for run in Run.objects.all()} == {(1, 0, False)}
    assert worker.stop() == 0
