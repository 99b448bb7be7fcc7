"""Redis empties, goes away, hangs: nothing is lost, and starts are late by no more than docs/reliability.md says."""

from __future__ import annotations

import signal
import time
from uuid import UUID

import pytest
from django_redis import get_redis_connection

from django_durable.client.handle import RunHandle
from django_durable.conf import durable_settings
from django_durable.models import Run
from django_durable.queues.redis import BLOCK_SECONDS, BREAK_SECONDS, HANG_SECONDS, RedisQueue
from django_durable.queues.unawaited import READ_SECONDS, Unawaited
from tests.acceptance.traces import executions, new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults
from tests.processes import FAST, Worker, wait_until
from tests.servers import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)

WORK = 10.0
"""Seconds for what is done in the time besides waiting, on a slow machine. What nobody looks for would wait until Redis
is back, or for ever."""
A_SWEEP = FAST["REAP_SECONDS"] + WORK
MANY = 60
"""Runs of whom each would wait for Redis, where not only the first of a second did."""


def enqueue_many_one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[RunHandle[list[int]]]:
    """While Redis is away: the first of a second turns to it, or who comes before anybody looks for replies."""
    asked_at: list[float] = []
    sender = RedisQueue._sender

    def noting(queue: RedisQueue) -> Unawaited:
        asked_at.append(time.monotonic())
        return sender(queue)

    with monkeypatch.context() as patch:
        patch.setattr(RedisQueue, "_sender", noting)
        runs = [faults.plodding.enqueue(2, 0)]
        # Its own look for replies, from which the next one is counted, comes after it has asked for the sender.
        looked_by = time.monotonic()
        runs += [faults.plodding.enqueue(2, 0) for _ in range(MANY - 1)]
    could_know = [at for at in asked_at if at > looked_by + READ_SECONDS]
    assert len(could_know) <= 1 + (time.monotonic() - asked_at[0]) / BREAK_SECONDS
    return runs


def a_look() -> float:
    """While Redis is away the workers look at the database themselves."""
    return durable_settings().POLL_SECONDS + WORK


def longest_wait_for_a_start() -> float:
    return max((run.started_at - run.created_at).total_seconds() for run in Run.objects.all() if run.started_at)


def ids_in_redis() -> int:
    return int(get_redis_connection("default").llen("durable:{default}:normal"))


def none_repeated(run_ids: list[UUID]) -> bool:
    return all(set(executions(run_id).values()) == {1} for run_id in run_ids)


def test_an_emptied_redis_loses_nothing(redis_server: RedisServer) -> None:
    gates = [new_gate() for _ in range(4)]
    worker = Worker("--concurrency", "4")
    holding = [faults.held_inside.enqueue(gate) for gate in gates]
    for run in holding:
        wait_for_trace(run.id, "second")
    # All slots are taken: these stay in the list, which goes.
    waiting = [faults.plodding.enqueue(2, 0) for _ in range(20)]
    assert ids_in_redis() >= 20
    redis_server.flush()

    opened = time.monotonic()
    for gate in gates:
        open_gate(gate)
    ids = [run.id for run in (*holding, *waiting)]
    wait_for_success(*ids)
    last = max(wait_for_trace(run.id, "plod[1]", "end").at for run in waiting)
    assert last - opened < A_SWEEP
    assert none_repeated(ids)
    assert worker.stop() == 0


@pytest.mark.behaviour("RUN-10c")
def test_a_redis_that_stops_and_comes_back_loses_nothing(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker()
    worker.wait_for_start()
    early = [faults.plodding.enqueue(20, 0.02) for _ in range(20)]
    wait_for_trace(early[0].id, "plod[0]")
    redis_server.stop()

    during = enqueue_many_one_by_one(monkeypatch)
    wait_for_success(*(run.id for run in during))
    assert longest_wait_for_a_start() < a_look()

    redis_server.start()
    worker_pids = worker.children()
    after = [faults.plodding.enqueue(2, 0) for _ in range(20)]
    ids = [run.id for run in (*early, *during, *after)]
    wait_for_success(*ids)
    assert longest_wait_for_a_start() < a_look()
    assert none_repeated(ids)
    assert worker.children() == worker_pids
    assert "Traceback" not in worker.log


def test_the_list_is_used_again_once_redis_is_back(redis_server: RedisServer) -> None:
    worker = Worker(durable={"REAP_SECONDS": 300})
    redis_server.stop()
    worker.wait_for_log("redis is out of reach")
    redis_server.start()
    run = faults.plodding.enqueue(1, 0)
    wait_for_success(run.id)
    # A worker that still looked at the database alone would have left the id there.
    wait_until(lambda: ids_in_redis() == 0, message="the id to be taken")


def test_a_redis_that_hangs_holds_nobody_up(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    worker.wait_for_start()
    assert redis_server._process is not None
    redis_server._process.signal(signal.SIGSTOP)
    try:
        runs = enqueue_many_one_by_one(monkeypatch)
        wait_for_success(*(run.id for run in runs), timeout=a_look() + BLOCK_SECONDS + HANG_SECONDS)
    finally:
        redis_server._process.signal(signal.SIGCONT)
