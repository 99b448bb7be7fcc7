"""A claimer and its loops heed what is held, and look at once when it is not any more."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from django_durable.models import Hold
from django_durable.store import holding
from django_durable.store.auditing import Verb
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.holding import NOTHING, Held
from django_durable.worker.loops.isolate import Isolate
from django_durable.worker.loops.refill import Refill
from django_durable.worker.process import WorkerOptions, WorkerProcess
from tests.store.rows import WORKFLOW, make_run, status_of
from tests.worker.test_claimer import Parts
from tests.worker.test_loops import Heard

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE, FLOW = Held(frozenset({"default"}), frozenset()), Held(frozenset(), frozenset({WORKFLOW}))


@pytest.mark.parametrize("held", [QUEUE, FLOW], ids=["queue", "workflow"])
def test_nothing_of_it_is_claimed_until_it_is_released(db: PrivateDatabase, held: Held) -> None:
    run, hinted = make_run(), make_run()
    parts = Parts(db, 8, hinted)
    parts.claimer.heed(held)
    assert [parts.claimer.tick() for _ in range(3)] == [0, 0, 0]
    assert parts.claimer.is_idle.is_set(), "a burst would wait for ever"
    parts.claimer.heed(NOTHING)
    assert parts.claimer.tick() == 2
    assert set(parts.ids) == {run.pk, hinted.pk}


def test_a_hint_that_was_popped_before_the_hold_is_dropped(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    parts = Parts(db, 8)

    def held_meanwhile(queues: object, limit: int, timeout: float) -> list[object]:
        parts.claimer.heed(QUEUE)
        return [run.pk]

    monkeypatch.setattr(parts.queue, "pop", held_meanwhile)
    parts.claimer._next_look = float("inf")
    assert parts.claimer.tick() == 0
    assert status_of(run) == "queued"


def test_more_holds_are_no_reason_to_look(db: PrivateDatabase) -> None:
    parts = Parts(db, 8)
    parts.claimer.tick()
    planned = parts.claimer._next_look
    for held in (FLOW, Held(QUEUE.queues, FLOW.workflows), Held(QUEUE.queues, FLOW.workflows)):
        parts.claimer.heed(held)
        assert parts.claimer._next_look == planned
    parts.claimer.heed(QUEUE)
    parts.claimer.tick()
    assert parts.claimer._next_look != planned


def test_a_release_in_the_middle_of_a_look_is_heard(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    run, parts = make_run(), Parts(db, 8)
    parts.claimer.heed(QUEUE)
    plan = parts.claimer._seconds_to_look

    def released_meanwhile() -> float:
        parts.claimer.heed(NOTHING)
        return plan()

    monkeypatch.setattr(parts.claimer, "_seconds_to_look", released_meanwhile)
    assert parts.claimer.tick() == 0
    assert not parts.claimer.is_idle.is_set(), "a burst would end too early"
    assert parts.claimer.tick() == 1
    assert parts.ids == [run.pk]


def test_a_list_is_filled_with_what_may_be_claimed(db: PrivateDatabase) -> None:
    make_run(queue="vip"), make_run(workflow="shop.ship")
    run, queue = make_run(), Heard()
    held = Held(frozenset({"vip"}), frozenset({"shop.ship"}))
    Refill(db, queue, ["vip", "default"], lambda: held).tick()
    assert queue.ids == [run.pk]


@pytest.mark.parametrize("held", [QUEUE, Held(frozenset(), frozenset({"app.doubling"}))], ids=["queue", "workflow"])
def test_no_process_is_started_for_a_held_suspect(db: PrivateDatabase, held: Held) -> None:
    make_run(workflow="app.doubling", suspect=True)
    told: list[int] = []
    for now in (held, NOTHING):
        Isolate(db, ["default"], told.append, lambda now=now: now).tick()
        assert told == ([1] if now is NOTHING else [])


def test_a_process_knows_of_holds_before_its_first_claim_and_by_its_heartbeat(
    connect: Callable[[], PrivateDatabase],
) -> None:
    db = connect()
    holding.hold(Database(), Hold.QUEUE, "default", Verb())
    process = WorkerProcess(uuid4(), WorkerOptions())
    try:
        assert process._register()
        assert process._claimer.held == QUEUE
        holding.release(Database(), Hold.QUEUE, "default", Verb())
        process._beat(db)
        assert process._claimer.held == NOTHING
    finally:
        process._committer.close()
        for one in (process._claimer._db, process._heartbeat._db, process._db):
            one.close()
