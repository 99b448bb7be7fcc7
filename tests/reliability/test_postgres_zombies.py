"""As test_zombies.py, with a transaction of the frozen process open, or its heartbeat going: PostgreSQL alone lets
others write meanwhile, and can be asked who waits."""

from __future__ import annotations

import os

import pytest
from django.db import connection

from django_durable.client.handle import RunHandle
from django_durable.core.clock import DatabaseClock
from django_durable.models import Event, Run
from django_durable.store.claiming import claim_ids
from django_durable.store.database import PrivateDatabase
from django_durable.testing import run_until_idle
from tests.acceptance.traces import new_gate, open_gate, wait_for_trace
from tests.app.models import Counter
from tests.invariants import violated
from tests.processes import wait_until
from tests.reliability.freezing import (
    BELIEVES,
    LONG,
    SEES,
    Zombie,
    all_rows,
    last_beat,
    lose_leases,
    wait_until_lapsed,
)
from tests.reliability.workflows import changes, journals, listens
from tests.store.rows import claimant, row_of

pytestmark = pytest.mark.django_db(transaction=True)

OPEN = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
BEATS = {**BELIEVES, "HEARTBEAT_SECONDS": 1}


def start_inside_the_step(gate: str) -> tuple[RunHandle[int], RunHandle[object]]:
    """A run whose atomic step stands at the gate with its transaction open, and the one that it has told."""
    listener = listens.enqueue()
    run = changes.enqueue("counted", str(listener.id), gate)
    wait_for_trace(run.id, "change")
    wait_until(lambda: listener.refresh().status == "waiting", message="the listener to wait")
    return run, listener


def open_transactions() -> int:
    with connection.cursor() as cursor:
        cursor.execute(OPEN)
        return int(cursor.fetchone()[0])


@pytest.mark.behaviour("RUN-06b")
def test_an_atomic_step_of_a_thawed_worker_is_rolled_back_whole() -> None:
    """Its transaction has stayed open all the time: the fence, at its end, is the only thing that can undo it."""
    zombie, gate = Zombie(BELIEVES), new_gate()
    run, listener = start_inside_the_step(gate)
    zombie.freeze()
    lose_leases(run.id)
    open_gate(gate)
    run_until_idle()
    assert run.result() == listener.result() == os.getpid()
    # The process may have been frozen in the midst of a transaction of its own besides.
    assert open_transactions() >= 1, "the frozen step's own"
    before = all_rows()

    zombie.thaw()
    assert zombie.wait_for_end(run.id) == "Lost"
    assert all_rows() == before
    assert [counter.name for counter in Counter.objects.all()] == [f"counted in {os.getpid()}"]
    assert Event.objects.filter(run_id=listener.id).count() == 1
    wait_until(lambda: open_transactions() == 0, message="the step's transaction to end")
    assert violated() == []


@pytest.mark.usefixtures("possible_tables")
def test_the_server_ends_the_transaction_of_a_worker_that_is_frozen_past_its_lease() -> None:
    """Nobody has to wait for it to thaw: what it had locked is free after a lease."""
    zombie, gate = Zombie(SEES), new_gate()
    run, listener = start_inside_the_step(gate)
    zombie.freeze_between_beats()
    wait_until_lapsed(run.id)
    wait_until(lambda: open_transactions() == 0, message="the server to end the frozen transaction")
    open_gate(gate)
    run_until_idle()
    assert run.result() == listener.result() == os.getpid()
    before = all_rows()

    zombie.thaw()
    assert zombie.wait_for_end(run.id) == "Lost"
    assert all_rows() == before
    assert Counter.objects.count() == 1


def test_without_the_fence_the_step_of_the_thawed_worker_is_seen() -> None:
    zombie, gate = Zombie(BELIEVES, is_fenced=False), new_gate()
    run, listener = start_inside_the_step(gate)
    zombie.freeze()
    lose_leases(run.id)
    open_gate(gate)
    run_until_idle()
    zombie.thaw()
    zombie.wait_for_end(run.id)
    assert Counter.objects.count() == 2
    assert Event.objects.filter(run_id=listener.id).count() == 2


@pytest.mark.behaviour("RUN-06b")
@pytest.mark.parametrize("is_fenced", [True, False], ids=["fenced", "without the fence, seen"])
def test_the_beats_of_a_thawed_worker_renew_nobody_elses_lease(db: PrivateDatabase, is_fenced: bool) -> None:
    zombie, gate = Zombie(BEATS, is_fenced=is_fenced), new_gate()
    run = journals.enqueue(gate)
    wait_for_trace(run.id, "held")
    zombie.freeze_between_beats()
    lose_leases(run.id)
    [heir] = claim_ids(db, claimant(journals.name), [run.id], lease=LONG, time=DatabaseClock())
    before, frozen_at = row_of(run.id), last_beat()

    zombie.thaw()
    wait_until(lambda: last_beat() != frozen_at, message="a beat of the thawed process")
    after = row_of(run.id)
    # It renews first, and tells that it lives after that.
    assert (after == before) is is_fenced
    assert violated() == []
    assert Run.objects.get(pk=run.id).lease_token == heir.lease.token
