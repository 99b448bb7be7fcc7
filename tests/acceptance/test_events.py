"""Events sent at every point of a suspension: none is lost, none is taken twice, every run ends once."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from django.db import connection, connections

from django_durable import get_run
from django_durable.models import Event, Run
from tests.acceptance.traces import wait_for_success
from tests.app import faults
from tests.processes import Worker, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

RUNS, TIMES, SENDERS = 200, 2, 8


def send_at_random_moments(run_ids: Sequence[UUID], seed: int) -> None:
    """Each run gets its events one by one, around the moments at which it waits for them."""
    chance = random.Random(seed)
    try:
        for turn in range(TIMES):
            for run_id in chance.sample(run_ids, len(run_ids)):
                time.sleep(chance.uniform(0, 0.006))
                get_run(run_id).send_event("knock", [turn, str(run_id)], idempotency_key=str(turn))
    finally:
        connections.close_all()


def knock(run_ids: Sequence[UUID]) -> ThreadPoolExecutor:
    senders = ThreadPoolExecutor(SENDERS)
    for number in range(SENDERS):
        senders.submit(send_at_random_moments, run_ids[number::SENDERS], number)
    return senders


def check_all_were_heard(run_ids: Sequence[UUID]) -> None:
    wait_for_success(*run_ids, timeout=20)
    for run_id in run_ids:
        heard = get_run(run_id).result()
        assert sorted(heard) == [[turn, str(run_id)] for turn in range(TIMES)]
    events = Event.objects.exclude(consumed_at=None)
    assert events.count() == len(run_ids) * TIMES
    # Each wait took one event, and each event went to one wait.
    assert events.values_list("run_id", "consumed_by").distinct().count() == len(run_ids) * TIMES


@pytest.mark.contract
def test_events_around_every_suspension_are_taken_once() -> None:
    # Sweeps are far apart: it is the wakes themselves that must not get lost.
    worker = Worker("--processes", "2", durable={"REAP_SECONDS": 120})
    runs = RUNS if connection.vendor == "postgresql" else RUNS // 4
    ids = [handle.id for handle in faults.knocked.enqueue_many([{"times": TIMES}] * runs)]
    wait_until(Run.objects.filter(status="waiting").exists, message="the first run to wait")
    with knock(ids):
        pass
    check_all_were_heard(ids)
    assert worker.stop() == 0


def test_events_are_taken_once_with_a_worker_that_freezes() -> None:
    workers = [Worker(), Worker()]
    for worker in workers:
        worker.wait_for_log("started worker=")
    ids = [handle.id for handle in faults.knocked.enqueue_many([{"times": TIMES}] * RUNS)]
    with knock(ids):
        wait_until(lambda: Event.objects.count() > RUNS // 2, message="a quarter of the events")
        workers[0].freeze()
        wait_until(lambda: Event.objects.count() > 2 * RUNS - RUNS // 2, message="three quarters of the events")
    lapsed = Run.objects.filter(status="running", suspect=False)
    wait_until(lambda: not lapsed.exists(), 10, "the frozen worker's runs to be taken away")
    workers[0].thaw()
    check_all_were_heard(ids)
