"""L1 to L6: what `durable_check` says has not moved, and what it knows to be in its right place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_durable import hold_queue, hold_workflow
from django_durable.models import Run, Schedule
from django_durable.models import Worker as WorkerRow
from tests.commands.checking import HOUR, a_fire, a_run, a_schedule, a_worker, claimed
from tests.commands.conftest import Call

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
MINUTE = timedelta(minutes=1)
ONE_A_TENANT: dict[str, Any] = {"workflow": "app.one_a_tenant", "limit_key": "app.one_a_tenant:a"}
TWO_A_MINUTE: dict[str, Any] = {"workflow": "app.two_a_minute", "limit_key": "app.two_a_minute:a"}


@pytest.fixture(autouse=True)
def _quick_looks(settings: Any) -> Iterator[None]:
    """What is found is looked at for half a second. Late is what is so by more than 33 s, queued by more than 34."""
    times = {"LEASE_SECONDS": 2, "HEARTBEAT_SECONDS": 0.1, "REAP_SECONDS": 0.1, "POLL_SECONDS": 0.2}
    settings.DURABLE = {**settings.DURABLE, **times, "SHUTDOWN_GRACE_SECONDS": 1}
    yield


def found(call: Call) -> dict[str, list[tuple[str | None, str]]]:
    invariants = call("durable_check", "--only", "L1,L2,L5", "--json").data["invariants"]
    return {
        name: [(one["run"], re.sub(r"\b6[0-9] s", "a minute", one["problem"])) for one in said["violations"]]
        for name, said in invariants.items()
        if said["violations"]
    }


def a_queued(age: timedelta = MINUTE, **columns: Any) -> Run:
    return a_run(age=age, status="queued", **columns)


# --- what was left lying -----------------------------------------------------------------------


def test_a_queued_run_that_a_worker_has_room_for(call: Call) -> None:
    a_worker()
    a_queued(timedelta(seconds=20))
    left = a_queued()
    assert found(call) == {"L1": [(str(left.pk), "queued for a minute, and h:1 has room for it")]}


def test_one_that_a_worker_has_its_last_slot_for(call: Call) -> None:
    worker = a_worker(concurrency=2)
    a_run(status="running", leased_by=worker.pk, started_by=worker.pk)
    left = a_queued()
    assert found(call) == {"L1": [(str(left.pk), "queued for a minute, and h:1 has room for it")]}


def test_one_whose_limit_has_room(call: Call) -> None:
    a_worker()
    left = a_queued(**ONE_A_TENANT)
    assert found(call) == {
        "L1": [(str(left.pk), "queued for a minute, and its limit has room, and h:1 has room for it")]
    }


def test_a_lease_that_lapsed(call: Call) -> None:
    a_worker()
    a_run(age=HOUR, status="running", lease_expires_at=timezone.now() - timedelta(seconds=10))
    left = a_run(age=HOUR, status="running", lease_expires_at=timezone.now() - MINUTE)
    assert found(call) == {"L1": [(str(left.pk), "running, and its lease lapsed a minute ago")]}


@pytest.mark.parametrize("status", ["waiting", "scheduled"])
def test_a_run_that_is_due(call: Call, status: str) -> None:
    a_worker()
    a_run(age=HOUR, status=status, wake_at=timezone.now() + HOUR)
    left = a_run(age=HOUR, status=status, wake_at=timezone.now() - MINUTE)
    assert found(call) == {"L2": [(str(left.pk), "due for a minute, and h:1 has room for it")]}


def test_a_schedule_that_is_due(call: Call) -> None:
    a_worker()
    a_schedule(next_fire_at=timezone.now() - timedelta(seconds=10))
    late = a_schedule(next_fire_at=timezone.now() - MINUTE)
    confirmed = a_schedule(next_fire_at=timezone.now() - MINUTE, app_label="app", declared_at=timezone.now() + HOUR)
    problem = "schedule {} was due a minute ago, and has not fired"
    said = found(call)
    assert list(said) == ["L5"]
    assert {problem for _, problem in said["L5"]} == {problem.format(one.pk) for one in (late, confirmed)}


# --- what may be where it is -------------------------------------------------------------------

Arrange = Callable[[], object]


def a_backlog() -> None:
    """Half of eight slots is what is counted on."""
    a_worker()
    for _ in range(5):
        a_queued()


def a_full_worker() -> None:
    worker = a_worker(concurrency=1)
    a_run(status="running", leased_by=worker.pk, started_by=worker.pk)
    a_queued()


def a_full_limit() -> None:
    a_worker()
    a_run(status="running", **ONE_A_TENANT)
    a_queued(**ONE_A_TENANT)


def a_rate() -> None:
    a_worker(workflows=["app.two_a_minute"])
    a_queued(**TWO_A_MINUTE)


def a_limit_of_other_code() -> None:
    a_worker(workflows=["app.gone"])
    a_queued(workflow="app.gone", limit_key="app.gone")


def a_suspect() -> None:
    """It waits for a process of its own."""
    a_worker()
    a_queued(**claimed(1), suspect=True)


def a_held_queue() -> None:
    a_worker()
    a_queued()
    hold_queue("default")


def a_held_workflow() -> None:
    a_worker()
    a_queued()
    a_run(age=HOUR, status="waiting", wake_at=timezone.now() - MINUTE)
    hold_workflow("app.doubling")


def a_paused_run() -> None:
    a_worker()
    a_run(age=HOUR, status="paused", wake_at=timezone.now() - MINUTE)


def an_unknown_workflow() -> None:
    a_worker(workflows=["app.sleepy"])
    a_queued()
    a_schedule(next_fire_at=timezone.now() - MINUTE)


def a_queue_that_nobody_serves() -> None:
    a_worker(queues=["mail"])
    a_queued()


def a_worker_for_one_suspect() -> None:
    a_worker(is_isolated=True)
    a_queued()


def schedules_that_need_not_fire() -> None:
    a_worker()
    due = {"next_fire_at": timezone.now() - MINUTE}
    a_schedule(**due, enabled=False)
    a_schedule(**due, problem="There is no time zone Mars/Olympus.")
    a_schedule(**due, app_label="app", declared_at=timezone.now() - MINUTE)
    a_fire(a_schedule(**due, overlap="queue"), minutes=3, run=a_run(status="running"), is_open=True)


@pytest.mark.parametrize(
    "arrange",
    [
        a_backlog,
        a_full_worker,
        a_full_limit,
        a_rate,
        a_limit_of_other_code,
        a_suspect,
        a_held_queue,
        a_held_workflow,
        a_paused_run,
        an_unknown_workflow,
        a_queue_that_nobody_serves,
        a_worker_for_one_suspect,
        schedules_that_need_not_fire,
    ],
)
def test_what_waits_for_good_reasons(call: Call, arrange: Arrange) -> None:
    arrange()
    called = call("durable_check", "--only", "L1,L2,L5", "--json")
    assert called.failed is None, called.out
    assert {said["holds"] for said in called.data["invariants"].values()} == {True}


def no_worker() -> None:
    pass


def one_that_is_silent() -> None:
    a_worker(heartbeat_at=timezone.now() - MINUTE)


def one_that_has_stopped() -> None:
    a_worker(stopped_at=timezone.now())


def one_that_has_just_come() -> None:
    a_worker(started_at=timezone.now())


@pytest.mark.parametrize(
    ("arrange", "why"),
    [
        (no_worker, ["no worker is alive"] * 3),
        (one_that_is_silent, ["no worker is alive"] * 3),
        (one_that_has_stopped, ["no worker is alive"] * 3),
        (one_that_has_just_come, [f"no worker has been alive for {seconds} s" for seconds in ("33.3", "33.3", "32.3")]),
    ],
)
def test_without_somebody_to_move_it_nothing_is_looked_at(call: Call, arrange: Arrange, why: list[str]) -> None:
    arrange()
    a_queued()
    a_schedule(next_fire_at=timezone.now() - MINUTE)
    called = call("durable_check", "--only", "L1,L2,L5", "--json")
    assert (called.failed, called.data["ok"], called.data["known"]) == (None, True, True)
    assert [said["not_looked_at"] for said in called.data["invariants"].values()] == why


# --- what moves between two looks --------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "moved"),
    [
        (Run, {"queued_at": timezone.now()}),
        (Run, {"suspect": True}),
        (Schedule, {"next_fire_at": timezone.now()}),
        (WorkerRow, {"stopped_at": timezone.now()}),
    ],
)
def test_what_moves_meanwhile_was_not_left_lying(
    call: Call, monkeypatch: pytest.MonkeyPatch, model: Any, moved: dict[str, Any]
) -> None:
    a_worker()
    if model is Schedule:
        a_schedule(next_fire_at=timezone.now() - MINUTE)
    else:
        a_queued(**claimed(1))
    looks = []

    def move(seconds: float) -> None:
        looks.append(seconds)
        model.objects.update(**moved)

    monkeypatch.setattr("django_durable.store.invariants.liveness.time.sleep", move)
    assert call("durable_check", "--only", "L1,L5").failed is None
    assert len(looks) == 1
