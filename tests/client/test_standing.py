"""How the installation stands: backlogs, what is worked on, what needs attention; counted as far as anybody reads."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable.client import standing as client
from django_durable.client.schedules import needing_somebody
from django_durable.client.standing import Bounded, Standing, standing
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import Status
from django_durable.models import Fire, Run
from django_durable.store.holding import Held
from django_durable.store.transitions import IS_KNOWN_TO_PARENT
from tests.admin.world import make_entry, make_run, make_schedule

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def look(since: timedelta = HOUR) -> Standing:
    return standing(timezone.now() - since)


def test_of_nothing_there_is_nothing_to_tell() -> None:
    stands = look()
    assert abs(stands.now - timezone.now()) < MINUTE
    assert stands == Standing(stands.now)


def test_it_is_one_query() -> None:
    make_run()
    with CaptureQueriesContext(connection) as queries:
        look()
    assert len(queries) == 1


def test_ready_runs_by_queue_and_the_oldest_of_any_priority() -> None:
    def ready(queue: str, minutes: int, **more: object) -> datetime:
        queued_at = timezone.now() - minutes * MINUTE
        make_run(queue=queue, queued_at=queued_at, **more)
        return queued_at

    ready("mail", 5, priority=9)
    oldest = ready("mail", 50, priority=-3)
    ready("mail", 7, limit_key="tenant")
    limited = ready("slow", 9, limit_key="tenant")
    ready("slow", 4)
    queues = look().queues
    assert {name: (queue.ready, queue.oldest) for name, queue in queues.items()} == {
        "mail": (Bounded(3), oldest),
        "slow": (Bounded(2), limited),
    }


def test_suspects_are_told_apart_from_what_any_worker_may_start() -> None:
    now = timezone.now()
    make_run(queue="mail", queued_at=now - MINUTE)
    make_run(queue="mail", queued_at=now - HOUR, suspect=True)
    make_run(queue="dead", queued_at=now - HOUR, suspect=True, limit_key="tenant")
    queues = look().queues
    assert {name: (queue.ready, queue.suspect, queue.oldest) for name, queue in queues.items()} == {
        "mail": (Bounded(1), Bounded(1), now - HOUR),
        "dead": (Bounded(), Bounded(1), now - HOUR),
    }


def test_what_waits_is_counted_once() -> None:
    due = timezone.now() + HOUR
    make_run("waiting", waiting_on="event:packed")
    make_run("waiting", waiting_on="child:pay", wake_at=due)
    make_run("waiting", waiting_on="sleep:night", wake_at=due)
    make_run("waiting", waiting_on="retry:", wake_at=due, queue="mail", priority=4)
    make_run("scheduled")
    queues = look().queues
    assert (queues["default"].waiting, queues["default"].scheduled) == (Bounded(3), Bounded(1))
    assert (queues["mail"].waiting, queues["mail"].scheduled) == (Bounded(1), Bounded())


def test_what_is_worked_on_by_queue_and_worker() -> None:
    worker, other = uuid7(), uuid7()
    for queue, holder in (("mail", worker), ("mail", worker), ("mail", other), ("slow", worker)):
        make_run("running", queue=queue, leased_by=holder)
    stands = look()
    assert {name: queue.running for name, queue in stands.queues.items()} == {"mail": Bounded(3), "slow": Bounded(1)}
    assert dict[UUID, int](stands.held) == {worker: 3, other: 1}


def test_what_needs_attention() -> None:
    for reason in ("crashed", "crashed", "diverged"):
        make_run("blocked", block_reason=reason)
    for ago in (1, 2, 300):
        make_run("failed", finished_at=timezone.now() - ago * MINUTE)
    make_run("cancelled")
    make_run("paused")
    for seconds, status in ((5, "waiting"), (15, "waiting"), (15, "scheduled"), (15, "scheduled")):
        more = {"waiting_on": "sleep:night"} if status == "waiting" else {}
        make_run(status, wake_at=timezone.now() - timedelta(seconds=seconds), **more)
    stands = look()
    assert stands.blocked == {"crashed": Bounded(2), "diverged": Bounded(1)}
    assert stands.failed == Bounded(2)
    assert stands.overdue == {Status.WAITING: Bounded(1), Status.SCHEDULED: Bounded(2)}


def test_a_failed_child_counts_until_its_parent_has_seen_it() -> None:
    parent = make_run("waiting")
    for number, entry in enumerate(["waiting", "failed", "succeeded"]):
        make_entry(parent, f"c{number}", number, kind="child", status=entry)
        make_run("failed", parent=parent, parent_path=f"c{number}")
    make_entry(parent, "step", 9, status="failed")
    make_run("failed", parent=parent, parent_path="step")
    make_run("failed", parent=parent, parent_path="")
    make_run("failed")
    needing = Run.objects.filter(~IS_KNOWN_TO_PARENT, status="failed")
    assert look().failed == Bounded(needing.count()) == Bounded(4)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "READY_MOST", 2)
    monkeypatch.setattr(client, "OTHERS_MOST", 2)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("made", "is_more"), [(2, False), (3, True), (9, True)])
def test_nobody_counts_further_than_is_read(made: int, is_more: bool) -> None:
    for _ in range(made):
        make_run()
        make_run(queue="limited", limit_key="tenant")
        make_run("scheduled")
        make_run("running")
        make_run("waiting", queue="events")
        make_run("blocked")
        make_run("failed")
        make_run("waiting", wake_at=timezone.now() - HOUR, waiting_on="poll:rate", queue="late")
        make_run(queue="dead", suspect=True)
    stands = look()
    default = stands.queues["default"]
    counts = [
        default.ready, default.scheduled, default.running, stands.queues["limited"].ready,
        stands.queues["events"].waiting, stands.blocked["diverged"], stands.failed, stands.overdue[Status.WAITING],
        stands.queues["late"].waiting, stands.queues["dead"].suspect,
    ]  # fmt: skip
    assert [(count.number, count.is_more) for count in counts if count is not default.running] == [(2, is_more)] * 9
    # Each of another worker: those are counted one by one.
    assert default.running == Bounded(min(made, 3), is_more)


@pytest.mark.usefixtures("few")
def test_what_is_taken_together_is_cut_together() -> None:
    for queue in ("a", "b", "c", "d"):
        make_run(queue=queue, limit_key=queue)
    assert {name: queue.ready for name, queue in look().queues.items()} == dict.fromkeys("abc", Bounded(1, True))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("newer", "failed"), [(1, Bounded(1)), (2, Bounded(1, True)), (3, Bounded(0, True))])
def test_failures_behind_many_older_ones_may_be_of_today(newer: int, failed: Bounded) -> None:
    make_run("failed")
    for _ in range(newer):
        make_run("failed", finished_at=timezone.now() - 7 * 24 * HOUR)
    assert look().failed == failed


def make_due(status: str = "scheduled", minutes: int = 1, **more: object) -> None:
    waits = {"waiting_on": "sleep:night"} if status == "waiting" else {}
    make_run(status, wake_at=timezone.now() - minutes * MINUTE, **waits, **more)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("held", "overdue"), [(1, Bounded(1)), (2, Bounded(1, True)), (3, Bounded(0, True))])
def test_what_is_due_behind_many_of_a_held_workflow_may_be_there(held: int, overdue: Bounded) -> None:
    make_due()
    for _ in range(held):
        make_due(workflow="app.held", minutes=9)
    found = standing(timezone.now(), Held(workflows=frozenset({"app.held"}))).overdue
    assert found[Status.SCHEDULED] == overdue
    assert found.get(Status.WAITING, Bounded()) == Bounded(0, overdue.is_more)


@pytest.mark.usefixtures("few")
def test_what_is_due_is_cut_by_line_whatever_its_status() -> None:
    for minutes, status in enumerate(("scheduled", "scheduled", "waiting", "waiting"), 1):
        make_due(status, 9 - minutes)
    assert look().overdue == {Status.SCHEDULED: Bounded(2, True), Status.WAITING: Bounded(1, True)}


@pytest.mark.usefixtures("few")
def test_lines_are_cut_each_for_itself() -> None:
    for priority in (0, 1, -1):
        make_due(priority=priority)
        make_due("waiting", priority=priority)
    assert look().overdue == {Status.SCHEDULED: Bounded(3), Status.WAITING: Bounded(3)}


def test_schedules_that_are_late_or_cannot_fire() -> None:
    now = timezone.now()
    held = make_schedule(name="waits for its run", overlap="queue", next_fire_at=now - HOUR)
    Fire.objects.create(
        schedule=held, scheduled_for=now, fired_at=now, run_id=make_run("running").pk, outcome="started", is_open=True
    )
    over = make_schedule(name="its run is over", overlap="queue", next_fire_at=now - HOUR)
    Fire.objects.create(
        schedule=over, scheduled_for=now, fired_at=now, run_id=make_run("failed").pk, outcome="started", is_open=True
    )
    late = make_schedule(name="late", next_fire_at=now - MINUTE)
    wrong = make_schedule(name="wrong", problem="no such zone")
    make_schedule(name="in time", next_fire_at=now - timedelta(seconds=5))
    make_schedule(name="off", next_fire_at=now - HOUR, enabled=False)
    make_schedule(name="new")
    assert set(needing_somebody(now)) == {over, late, wrong}
