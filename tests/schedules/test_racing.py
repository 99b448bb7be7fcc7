"""Several workers and one schedule: threads with connections of their own, and real processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

import pytest

from django_durable.models import Fire, Run, Schedule
from django_durable.store.scheduling import Due
from django_durable.worker.loops.fire import Fire as FireLoop
from tests.processes import PATIENCE, Worker, wait_until
from tests.schedules.making import (
    HOUR,
    code_of,
    end,
    fire_loop,
    fires,
    fresh,
    make_schedule,
    make_workflow,
    move_to,
    outcomes,
    runs,
)
from tests.schedules.noon import NOON, just_before_noon
from tests.store.parallel import Threads, answer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

SECOND = timedelta(seconds=1)
WORKERS = 4


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads() as started:
        yield started


def together(threads: Threads, loops: list[FireLoop], ticks: int = 1) -> None:
    """Each loop ticks in a thread of its own, on its own connection, all from the same moment on."""
    barrier = threading.Barrier(len(loops))

    def tick(loop: FireLoop) -> None:
        barrier.wait(PATIENCE)
        for _ in range(ticks):
            loop.tick()

    for started in [threads.start(tick, loop) for loop in loops]:
        answer(started)


@pytest.mark.behaviour("RUN-14a")
@pytest.mark.parametrize("overlap", ["skip", "allow", "queue", "cancel_previous"])
def test_workers_that_tick_together_start_one_run_for_each_instant(threads: Threads, overlap: str) -> None:
    just_before_noon()
    row = make_schedule(overlap=overlap)
    loops = [fire_loop() for _ in range(WORKERS)]
    for hour in range(10):
        move_to(NOON + hour * HOUR)
        together(threads, loops)
        end("succeeded")
        assert len(runs()) == hour + 1
    assert fires(row) == [(NOON + hour * HOUR, "fired") for hour in range(10)]


@pytest.mark.usefixtures("possible_tables")
def test_workers_share_many_schedules_and_miss_none(threads: Threads) -> None:
    just_before_noon()
    rows = [make_schedule(name=f"schedule {number}") for number in range(20)]
    loops = [fire_loop() for _ in range(WORKERS)]
    move_to(NOON)
    together(threads, loops, ticks=3)
    assert [outcomes(row) for row in rows] == [["fired"]] * 20
    assert len(runs()) == 20


@pytest.mark.usefixtures("possible_tables")
def test_workers_share_a_week_of_missed_instants(threads: Threads) -> None:
    just_before_noon()
    row = make_schedule(catch_up="all", overlap="allow")
    loops = [fire_loop() for _ in range(WORKERS)]
    for rest in range(20):
        # Who found the schedule held, or its instant gone, looks again a second later.
        move_to(NOON + 7 * 24 * HOUR + rest * timedelta(seconds=2))
        together(threads, loops, ticks=10)
        if len(fires(row)) > 7 * 24:
            break
    assert fires(row) == [(NOON + hour * HOUR, "fired") for hour in range(7 * 24 + 1)]
    assert len(runs()) == 7 * 24 + 1


@pytest.mark.usefixtures("possible_tables")
def test_workers_that_start_together_make_each_row_once(threads: Threads) -> None:
    crons = [f"{minute} * * * *" for minute in range(20)]
    barrier = threading.Barrier(WORKERS)

    def start() -> list[int]:
        code = code_of(make_workflow(*crons))
        barrier.wait(PATIENCE)
        code.tick()
        return code.ids

    ids = [answer(started) for started in [threads.start(start) for _ in range(WORKERS)]]
    assert Schedule.objects.count() == 20
    assert all(one == ids[0] and len(one) == 20 for one in ids)


@pytest.mark.usefixtures("possible_tables")
def test_a_schedule_that_is_deleted_or_disabled_while_it_is_due_fires_nothing() -> None:
    just_before_noon()
    rows = [make_schedule(name=name) for name in ("deleted", "disabled")]
    loop = fire_loop()
    look = type(loop)._fire_alone

    class Slow(FireLoop):
        def _fire_alone(self, one: Due) -> bool:
            Schedule.objects.filter(name="deleted").delete()
            Schedule.objects.filter(name="disabled").update(enabled=False)
            return look(self, one)

    loop.__class__ = Slow
    move_to(NOON)
    loop.tick()
    assert runs() == [] and not fresh(rows[1]).enabled


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.contract
def test_two_worker_processes_and_one_schedule_make_one_run_for_each_second() -> None:
    # All: a worker may be late by more than a second.
    row = make_schedule("* * * * * *", workflow="app.doubling", input='{"number": 4}', overlap="allow", catch_up="all")
    workers = [Worker("--concurrency", "4"), Worker("--concurrency", "4")]
    for worker in workers:
        worker.wait_for_start()
    ended = Run.objects.filter(workflow="app.doubling", status="succeeded")
    before = ended.count()
    wait_until(lambda: ended.count() >= before + 5, message="five more runs by schedule to succeed")
    assert [worker.stop() for worker in workers] == [0, 0]
    fired = Fire.objects.filter(schedule=row, outcome="fired").order_by("scheduled_for")
    instants = [fire.scheduled_for for fire in fired]
    assert len({fire.run_id for fire in fired}) == len(instants) == Run.objects.count()
    assert all(later - one == timedelta(seconds=1) for one, later in pairwise(instants))


@pytest.mark.usefixtures("possible_tables")
def test_a_burst_fires_what_is_due() -> None:
    row = make_schedule("0 0 1 1 *", workflow="app.doubling", input='{"number": 4}')
    Schedule.objects.filter(pk=row.pk).update(next_fire_at=row.next_fire_at - timedelta(days=1000))
    assert Worker("--burst").wait() == 0
    assert Run.objects.get().status == "succeeded"
