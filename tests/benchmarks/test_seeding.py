"""What benchmarks/seeding makes beside its runs is such as the engine would have made it, and of one clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import ModuleType
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from benchmarks.screens import NIGHT, SILENCE, zone_of_the_night
from django_durable.admin.schedule_page import OUTCOMES
from django_durable.client.schedules import late, needing_somebody
from django_durable.core import registry
from django_durable.core.payloads.codec import encode
from django_durable.core.schedules.cron import Cron, fires_between
from django_durable.models import Fire, Hold, Run, Schedule, Tally, Worker
from tests.admin.world import make_run, make_worker

pytestmark = pytest.mark.django_db
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
PARCELS = "imports.parcels"


@pytest.fixture(scope="module", autouse=True)
def _declared() -> Iterator[None]:
    """Its workflows are known to these tests alone."""
    before = dict(registry.definitions())
    import_module("benchmarks.seeding.workflows")
    yield
    registry.definitions()
    registry._named.clear()
    registry._named.update(before)


@pytest.fixture
def history() -> ModuleType:
    return import_module("benchmarks.seeding.history")


@pytest.fixture
def night() -> ModuleType:
    return import_module("benchmarks.seeding.night")


@pytest.fixture
def seeded(history: ModuleType, monkeypatch: pytest.MonkeyPatch) -> datetime:
    """The schedules are there. When they were made: what was due afterwards may have come by now."""
    monkeypatch.setattr(history, "FIRES", 6)
    now = timezone.now()
    for schedule in history._schedules():
        for _ in range(2):
            make_run("succeeded", workflow=schedule.workflow)
    history._fires(Schedule.objects.order_by("pk"))
    return now


def test_each_schedule_is_planned_as_a_worker_would_plan_it(seeded: datetime) -> None:
    assert [schedule.name for schedule in Schedule.objects.filter(late(seeded), enabled=True)] == ["hourly 3"]
    [broken] = Schedule.objects.exclude(problem="")
    assert broken.problem == "InvalidSchedule: Schedule '39 * * * *': unknown time zone 'Mars/Olympus'"
    assert set(needing_somebody(seeded)) == {broken, Schedule.objects.get(name="hourly 3")}
    for schedule in Schedule.objects.filter(problem=""):
        cron = Cron(schedule.expression, schedule.timezone)
        planned = cron.next(1, after=schedule.last_scheduled_for)[0] if schedule.enabled else None
        assert schedule.next_fire_at == planned, schedule
        assert schedule.name == "hourly 3" or not schedule.enabled or planned > seeded


@pytest.mark.usefixtures("seeded")
def test_a_schedule_has_fired_when_it_was_due_and_its_runs_are_its_own(history: ModuleType) -> None:
    assert Fire.objects.count() == 6 * (history.SCHEDULES - 1)
    assert set(Fire.objects.values_list("outcome", flat=True)) <= set(OUTCOMES)
    for schedule in Schedule.objects.filter(problem=""):
        found = list(schedule.fires.order_by("scheduled_for"))
        first, last = found[0].scheduled_for, found[-1].scheduled_for
        due = fires_between(schedule.expression, schedule.timezone, first - MINUTE, last, 100)
        assert [fire.scheduled_for for fire in found] == due and last == schedule.last_scheduled_for
        runs = Run.objects.filter(pk__in=[fire.run_id for fire in found if fire.run_id])
        assert set(runs.values_list("workflow", flat=True)) == {schedule.workflow}
        assert [fire.outcome for fire in found if not fire.run_id] == ["skipped: overlap"]


def test_the_schedule_of_the_night_has_fired_for_its_runs(night: ModuleType) -> None:
    now = timezone.now()
    runs = [make_run("failed", workflow=PARCELS, created_at=now - 2 * HOUR - n * 24 * HOUR) for n in (2, 1, 0)]
    night._schedule_of_failing_runs()
    schedule = Schedule.objects.get()
    [planned] = Cron(schedule.expression, schedule.timezone).next(1)
    assert schedule.next_fire_at == planned > now
    fires = list(schedule.fires.order_by("scheduled_for"))
    assert [(fire.run_id, fire.outcome) for fire in fires] == [(run.pk, "fired") for run in runs]
    due = fires_between(schedule.expression, schedule.timezone, fires[0].scheduled_for - MINUTE, now, 9)
    assert [fire.scheduled_for for fire in fires] == due


def test_a_workflow_fails_in_the_step_that_its_error_names(history: ModuleType) -> None:
    for workflow, culprits in {"imports.parcel": ["store"], PARCELS: ["row[7]", "row[20]"], "app.own": []}.items():
        run = make_run("failed", workflow=workflow)
        error = {"type": "E", "message": "m", "traceback": "t", "culprits": culprits, "step": None}
        run.payloads.create(kind="error", data=encode(error))
    make_run("succeeded")
    history._tally()
    found = Tally.objects.filter(kind=Tally.STEP).values_list("workflow", "name", "failed")
    assert set(found) == {("imports.parcel", "store", 1), (PARCELS, "row", 1)}


def test_an_attempt_that_failed_took_what_passed_on_the_clock_that_was_moved() -> None:
    from benchmarks.seeding import templates, workflows

    run = Run.objects.get(pk=templates.over(workflows.CHECKOUTS, number=1))
    templates._tidy()
    first, second = run.log.filter(attempt__isnull=False).order_by("number").values_list("seconds", flat=True)
    # It took 0.8 seconds, and a run's beginning and its lines are told by clocks that are milliseconds apart. What the
    # work itself takes comes on top; the wait of half a minute between the two does not.
    assert 0.7 <= first < 20 and 0.7 <= second < 20
    [charge] = run.journal.filter(path="charge")
    assert charge.started_at < charge.finished_at - timedelta(seconds=2.4)


def test_when_the_workers_die_what_they_said_and_counted_and_held_is_as_old(night: ModuleType) -> None:
    now = timezone.now()
    worker = make_worker()
    make_worker(heartbeat_at=now - MINUTE, stopped_at=now - MINUTE)
    running = make_run("running", leased_by=worker.pk, lease_expires_at=now + HOUR)
    ended, queued = make_run("failed"), make_run("queued")
    minute = now.replace(second=0, microsecond=0)
    for ago in range(3):
        Tally.objects.create(kind=Tally.RUNS, minute=minute - ago * SILENCE, workflow="w", queue="q", started=ago + 1)
    night.fall_silent(SILENCE)
    died = now - SILENCE
    assert abs(Worker.objects.get(pk=worker.pk).heartbeat_at - died) < MINUTE
    assert Worker.objects.order_by("-heartbeat_at")[0] == worker, "one that stopped before was heard of later"
    assert died < Run.objects.get(pk=running.pk).lease_expires_at < died + MINUTE
    assert abs(Run.objects.get(pk=ended.pk).finished_at - died) < MINUTE
    assert died < Run.objects.get(pk=queued.pk).queued_at
    counted = dict(Tally.objects.values_list("minute", "started"))
    assert counted == {minute - (ago + 1) * SILENCE: ago + 1 for ago in range(3)}


def test_what_is_ready_beside_workers_that_have_room_has_only_come_but_for_what_is_held(night: ModuleType) -> None:
    for _ in range(9):
        make_run("queued", queue="mail", queued_at=timezone.now() - 12 * MINUTE)
    night._hold()
    night.pass_on()
    ages = {queue: timezone.now() - at for queue, at in Run.objects.values_list("queue", "queued_at")}
    assert ages["mail"] < MINUTE and ages["webhooks"] > 10 * MINUTE
    assert all(hold.since < timezone.now() - 12 * MINUTE for hold in Hold.objects.all())


@pytest.mark.usefixtures("seeded")
def test_while_pictures_are_taken_no_schedule_comes_to_be_late(night: ModuleType) -> None:
    now = timezone.now()
    [late_one] = Schedule.objects.filter(late(now), enabled=True)
    Schedule.objects.filter(name="hourly 6").update(next_fire_at=now - 5 * MINUTE)
    night.pass_on()
    assert list(Schedule.objects.filter(late(now), enabled=True)) == [late_one]
    assert Schedule.objects.get(name="hourly 6").last_scheduled_for == now - 5 * MINUTE


@pytest.mark.parametrize("month", [1, 7])
@pytest.mark.parametrize("hour", range(24))
def test_wherever_the_pictures_are_taken_it_is_night_on_them(month: int, hour: int) -> None:
    now = datetime(2026, month, 1, hour, 40, tzinfo=UTC)
    assert now.astimezone(ZoneInfo(zone_of_the_night(now))).hour == NIGHT
