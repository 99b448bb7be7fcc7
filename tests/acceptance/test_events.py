"""Events sent at every point of a suspension: none is lost, none is taken twice, every run ends once."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
from django.db import connection, connections

from django_durable import get_run
from django_durable.client.events import EventHandle
from django_durable.models import Event, Run
from tests.acceptance.traces import freeze_between_writes, let_leases_lapse, wait_for_success
from tests.app import faults
from tests.app.events import collecting, collecting_async, hearing, replaying
from tests.processes import FAST, PATIENCE, Worker, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

RUNS, TIMES, SENDERS = 200, 2, 8
FEW_SWEEPS = {"REAP_SECONDS": 40}
"""It is the wakes themselves that must not get lost: a run that still waits is found after two of these, longer than
anybody waits here. After one of them a worker finds who is awake, and was held by a sender each time that it came."""


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
    wait_for_success(*run_ids)
    for run_id in run_ids:
        heard = get_run(run_id).result()
        assert sorted(heard) == [[turn, str(run_id)] for turn in range(TIMES)]
    events = Event.objects.exclude(consumed_at=None)
    assert events.count() == len(run_ids) * TIMES
    # Each wait took one event, and each event went to one wait.
    assert events.values_list("run_id", "consumed_by").distinct().count() == len(run_ids) * TIMES


@pytest.mark.behaviour("WAIT-02j")
@pytest.mark.contract
def test_events_around_every_suspension_are_taken_once() -> None:
    worker = Worker("--processes", "2", durable=FEW_SWEEPS)
    runs = RUNS if connection.vendor == "postgresql" else RUNS // 4
    ids = [handle.id for handle in faults.knocked.enqueue_many([{"times": TIMES}] * runs)]
    wait_until(Run.objects.filter(status="waiting").exists, message="the first run to wait")
    with knock(ids):
        pass
    check_all_were_heard(ids)
    assert worker.stop() == 0


@pytest.mark.behaviour("WAIT-02j")
def test_events_are_taken_once_with_a_worker_that_freezes() -> None:
    workers = [Worker(durable=FAST), Worker(durable=FAST)]
    for worker in workers:
        worker.wait_for_start()
    ids = [handle.id for handle in faults.knocked.enqueue_many([{"times": TIMES}] * RUNS)]
    with knock(ids):
        wait_until(lambda: Event.objects.count() > RUNS // 2, message="a quarter of the events")
        freeze_between_writes(workers[0])
        wait_until(lambda: Event.objects.count() > 2 * RUNS - RUNS // 2, message="three quarters of the events")
    lapsed = Run.objects.filter(status="running", suspect=False)
    wait_until(lambda: not lapsed.exists(), message="the frozen worker's runs to be taken away")
    workers[0].thaw()
    check_all_were_heard(ids)


# --- several at a time, and answered -----------------------------------------------------------

TURNS, COUNT = 3, 2
Sent = list[tuple[UUID, int, EventHandle]]


def send_in_turn(run_ids: Sequence[UUID], seed: int) -> Sent:
    """Each run gets its events in order, under one of two names, around the moments at which it waits for them."""
    chance = random.Random(seed)
    sent: Sent = []
    try:
        for number in range(TURNS * COUNT):
            for run_id in chance.sample(run_ids, len(run_ids)):
                time.sleep(chance.uniform(0, 0.006))
                name = chance.choice(["knock", "ring"])
                sent.append((run_id, number, get_run(run_id).send_event(name, number, idempotency_key=str(number))))
    finally:
        connections.close_all()
    return sent


def started(runs: int) -> list[UUID]:
    given = [{"turns": TURNS, "count": COUNT}] * (runs // 2)
    return [run.id for run in [*collecting.enqueue_many(given), *collecting_async.enqueue_many(given)]]


def check_all_were_answered(run_ids: Sequence[UUID], sent: Sent) -> None:
    wait_for_success(*run_ids)
    for run_id in run_ids:
        # One sender sent them in this order, so they were taken in it.
        assert get_run(run_id).result() == list(range(TURNS * COUNT))
    for _, number, event in sent:
        assert event.response(timeout=0) == [number // COUNT, number]
    taken = Event.objects.exclude(consumed_at=None).exclude(answered_at=None)
    assert taken.count() == taken.values("run_id", "consumed_by").distinct().count() == len(sent)


@pytest.mark.behaviour("WAIT-02d", "WAIT-02e", "WAIT-02j", "WAIT-02k")
@pytest.mark.contract
def test_several_at_a_time_are_taken_once_in_order_and_answered() -> None:
    workers = [Worker(durable=FEW_SWEEPS) for _ in range(2)]
    ids = started(60 if connection.vendor == "postgresql" else 20)
    with ThreadPoolExecutor(4) as senders:
        conversations = [senders.submit(send_in_turn, ids[number::4], number) for number in range(4)]
    check_all_were_answered(ids, [one for conversation in conversations for one in conversation.result()])
    assert [worker.stop() for worker in workers] == [0, 0]


@pytest.mark.behaviour("WAIT-02j", "WAIT-02m")
def test_several_at_a_time_are_taken_once_in_order_when_a_worker_is_killed() -> None:
    workers = [Worker(durable=FAST), Worker(durable=FAST)]
    for worker in workers:
        worker.wait_for_start()
    ids = started(60)
    with ThreadPoolExecutor(4) as senders:
        conversations = [senders.submit(send_in_turn, ids[number::4], number) for number in range(4)]
        wait_until(lambda: Event.objects.exclude(consumed_at=None).count() > 60, message="a sixth of the events")
        workers[0].kill()
    check_all_were_answered(ids, [one for conversation in conversations for one in conversation.result()])


@pytest.mark.behaviour("WAIT-02h", "WAIT-02i", "WAIT-02j")
@pytest.mark.contract
@pytest.mark.parametrize("is_killed", [False, True], ids=["", "killed"])
def test_before_during_execution_while_suspended_and_during_a_replay(tmp_path: Path, is_killed: bool) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    run = replaying.enqueue(str(tmp_path))
    run.send_event("a", "before")
    workers = [Worker(), Worker()]
    wait_until(lambda: calls(tmp_path) == 1, message="the first call")
    run.send_event("b", "during execution")
    hold.unlink()
    taken = Event.objects.exclude(consumed_at=None)
    wait_until(lambda: taken.count() == 2 and run.refresh().status == "waiting", message="the run to wait")
    before = calls(tmp_path)
    hold.touch()
    run.send_event("a", "while suspended")
    wait_until(lambda: calls(tmp_path) == before + 1, message="the replay")
    run.send_event("b", "during the replay")
    if is_killed:
        for worker in workers:
            worker.kill()
        let_leases_lapse()
    hold.unlink()
    if is_killed:
        Worker()
    assert run.result(timeout=PATIENCE) == ["before", "during execution", "while suspended", "during the replay"]
    assert taken.values("consumed_by").distinct().count() == taken.count() == 4


def calls(folder: Path) -> int:
    return len(list(folder.glob("call-*")))


@pytest.mark.contract
def test_what_comes_while_another_branch_works_is_taken_and_answered_meanwhile(tmp_path: Path) -> None:
    Worker()
    run = hearing.enqueue(str(tmp_path))
    wait_until((tmp_path / "worker.began").exists, message="the other branch to work")
    word = run.send_event("word", 1)
    with pytest.raises(TimeoutError):
        word.response(timeout=1.5)
    sign = run.send_event("sign", 2)
    sent = time.monotonic()
    assert (word.response(timeout=PATIENCE), sign.response(timeout=PATIENCE)) == ("heard 1", "heard 2")
    # A look a second, a commit, and this machine's other work; the other branch goes on for longer.
    assert time.monotonic() - sent < 20
    assert run.refresh().run.claims == 1
    assert not (tmp_path / "held").exists()
    (tmp_path / "go").touch()
    assert run.result(timeout=PATIENCE) == {"listener": [1, 2], "worker": "worker"}
