"""Workers whose clocks are ten minutes fast or slow: what is due, and until when a lease holds, the database says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from django_durable.models import Fire, IdempotencyKey, Run
from tests.acceptance.traces import executions, new_gate, open_gate, traces, wait_for_success, wait_for_trace
from tests.app.workflows import doubling
from tests.invariants import violated
from tests.processes import Command, Worker, wait_until
from tests.schedules.making import make_schedule
from tests.system.needs import faketime_library
from tests.system.workflows import held, napping
from tests.system.working import SETTINGS, failed, start_worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("possible_tables")]

WRONG = 600
"""Seconds: twenty leases of those that workers have by default."""
CLOSE = 60
NAP = 2.0
LEASE = 6.0
"""Long enough that one which is over at once is told from one that ends in time, also where a beat was late."""


def off_by(seconds: int) -> dict[str, str]:
    """An environment in which the time of day is wrong, and the time that passes is not."""
    return {
        "LD_PRELOAD": str(faketime_library()),
        "FAKETIME": f"{seconds:+d}s",
        # The waits of threads would hang.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


FAST_CLOCK, SLOW_CLOCK = off_by(WRONG), off_by(-WRONG)


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    """One that is fast and one that is slow."""
    both = [
        start_worker("--concurrency", "4", env=clock, durable={"LEASE_SECONDS": LEASE})
        for clock in (FAST_CLOCK, SLOW_CLOCK)
    ]
    for worker in both:
        worker.wait_for_start()
    yield both
    assert [worker.stop() for worker in both] == [0, 0]


def said_by(clock: dict[str, str], code: str) -> str:
    """What a shell of the project's says last, in a process with this clock."""
    command = Command("shell", "-v", "0", "-c", code, env={**SETTINGS, **clock})
    assert command.wait() == 0, command.log
    return command.log.splitlines()[-1]


@pytest.mark.parametrize("wrong", [WRONG, -WRONG])
def test_the_clocks_of_such_processes_are_wrong(wrong: int) -> None:
    """Else all of the others would pass with clocks that are right."""
    day, passed = said_by(off_by(wrong), "import time; print(time.time(), time.monotonic())").split()
    assert abs(float(day) - time.time() - wrong) < CLOSE
    assert abs(float(passed) - time.monotonic()) < CLOSE


def test_no_sleep_ends_early_or_late(workers: list[Worker]) -> None:
    runs = [napping.enqueue(NAP) for _ in range(16)]
    wait_for_success(*(run.id for run in runs))
    for run in runs:
        [before, after] = (traces(run.id, path)[0].at for path in ("before", "after"))
        assert NAP <= after - before < NAP + CLOSE
    ahead = [told - time.time() for run in runs for told in run.result()]
    assert min(ahead) < -WRONG / 2 and max(ahead) > WRONG / 2, "each of them has worked"
    assert all(abs(told) > WRONG / 2 for told in ahead)
    assert failed() == [] and violated() == []


def test_no_lease_is_taken_from_who_renews_it(workers: list[Worker]) -> None:
    gate = new_gate()
    runs = [held.enqueue(gate) for _ in range(6)]
    for run in runs:
        wait_for_trace(run.id, "second")
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 2 * LEASE, message="two leases to pass")
    open_gate(gate)
    wait_for_success(*(run.id for run in runs))
    assert [executions(run.id) for run in runs] == [{"first": 1, "second": 1, "third": 1}] * 6
    assert set(Run.objects.values_list("claims", "crashes", "suspect")) == {(1, 0, False)}
    pids = {trace.pid for run in runs for trace in traces(run.id)}
    assert len(pids) == 2, "each of them has held some"


@pytest.mark.parametrize("victim", [0, 1], ids=["fast dies", "slow dies"])
def test_the_lease_of_one_that_dies_is_over_when_it_should_be(workers: list[Worker], victim: int) -> None:
    gate = new_gate()
    runs = [held.enqueue(gate) for _ in range(6)]
    for run in runs:
        wait_for_trace(run.id, "second")
    # Who stands still renews nothing, and it is known until when what it holds is its own.
    workers[victim].freeze()
    leases = dict(Run.objects.values_list("pk", "lease_expires_at"))
    left = [seconds_from_now(until) for until in leases.values()]
    workers[victim].kill()
    assert max(left) <= LEASE
    lost = Run.objects.filter(claims=1, suspect=True)
    wait_until(lost.exists, message="the reaper")
    # Not a wrong clock earlier or later.
    for run_id, reaped_at in lost.values_list("pk", "queued_at"):
        assert timedelta(0) <= reaped_at - leases[run_id] < timedelta(seconds=CLOSE)
    open_gate(gate)
    wait_for_success(*(run.id for run in runs))
    assert failed() == [] and violated() == []
    workers[victim] = start_worker()
    workers[victim].wait_for_start()


def test_each_instant_fires_once_and_in_its_time(workers: list[Worker]) -> None:
    began = timezone.now()
    # All of them: what is a second late here would pass for missed.
    row = make_schedule("* * * * * *", workflow="app.doubling", input='{"number": 4}', overlap="allow", catch_up="all")
    ended = Run.objects.filter(workflow="app.doubling", status="succeeded")
    wait_until(lambda: ended.count() >= 8, message="eight runs by schedule to succeed")
    fires = list(Fire.objects.filter(schedule=row, outcome="fired").order_by("scheduled_for"))
    assert len({fire.run_id for fire in fires}) == len(fires)
    assert all(later.scheduled_for - one.scheduled_for == timedelta(seconds=1) for one, later in pairwise(fires))
    assert fires[0].scheduled_for >= began.replace(microsecond=0)
    for fire in fires:
        assert timedelta(0) <= fire.fired_at - fire.scheduled_for < timedelta(seconds=CLOSE)


@pytest.mark.parametrize("clock", [FAST_CLOCK, SLOW_CLOCK], ids=["fast", "slow"])
def test_what_a_process_with_a_wrong_clock_puts_off_starts_when_it_should(clock: dict[str, str]) -> None:
    """A delay, an expiry and a deadline are counted from when the database stores them."""
    options = "run_after=300, timeout=100, idempotency_key='k', idempotency_ttl=400"
    enqueue = f"from tests.app.workflows import doubling; print(doubling.using({options}).enqueue(number=1).id)"
    run = Run.objects.get(pk=UUID(said_by(clock, enqueue)))
    assert run.workflow == doubling.name
    expires_at = IdempotencyKey.objects.get().expires_at
    assert [seconds_from_now(instant) for instant in (run.created_at, run.wake_at, run.deadline_at, expires_at)] == [
        pytest.approx(seconds, abs=CLOSE) for seconds in (0, 300, 400, 400)
    ]


def seconds_from_now(instant: Any) -> float:
    return float((instant - timezone.now()).total_seconds())
