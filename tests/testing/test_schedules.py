"""Schedules fire in ``run_until_idle``, where a test moves the time and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from django_durable import Context, Cron, Workflow, durable_workflow
from django_durable.client.schedules import disable, replan
from django_durable.core import registry
from django_durable.models import Fire, Run, Schedule
from django_durable.signals import run_enqueued, schedule_fired
from django_durable.testing import assert_fired, run_until_idle, travel

pytestmark = pytest.mark.usefixtures("any_db")

NOON = datetime(2040, 5, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
Declare = Callable[..., Workflow[Any, Any]]


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Declares ``test.report`` with these schedules, for this test alone; each run of it sleeps for ``nap``."""
    registry.definitions()
    monkeypatch.setattr(registry, "_named", dict(registry._named))

    def declare(*crons: str | Cron, nap: timedelta = timedelta(0), **options: Any) -> Workflow[Any, Any]:
        @durable_workflow(name="test.report", cron=list(crons), **options)
        def report(ctx: Context, region: str = "all") -> str:
            if nap:
                ctx.sleep("nap", nap)
            return f"{region} at {ctx.now():%H:%M}"

        return report

    return declare


def instants(outcome: str = "fired") -> list[datetime]:
    """What has fired so far."""
    found = Fire.objects.filter(outcome=outcome).order_by("scheduled_for")
    return list(found.values_list("scheduled_for", flat=True))


# --- schedules in code -----------------------------------------------------------------------


def test_an_instant_that_the_clock_has_passed_fires_once(declare: Declare) -> None:
    report = declare(Cron("0 6 * * *", timezone="Europe/Berlin", input={"region": "north"}))
    with travel() as clock:
        clock.advance(days=2)
        assert run_until_idle() == 1
        [run] = assert_fired(report)
        assert run.result().startswith("north")
        assert run_until_idle() == 0
    [instant] = instants()
    assert timezone.now() < instant <= timezone.now() + 2 * DAY
    # 6:00 in Berlin.
    assert instant.hour in (4, 5)


def test_each_instant_on_the_way_fires_when_it_has_come(declare: Declare) -> None:
    report = declare("0 * * * *")
    with travel() as clock:
        clock.move_to(NOON - HOUR / 2)
        assert run_until_idle() == 0
        for hour in range(3):
            clock.move_to(NOON + hour * HOUR - timedelta(seconds=5))
            assert run_until_idle() == 0
            clock.move_to(NOON + hour * HOUR)
            assert run_until_idle() == 1
    assert instants() == [NOON, NOON + HOUR, NOON + 2 * HOUR]
    assert [run.result() for run in assert_fired(report, times=3)] == ["all at 12:00", "all at 13:00", "all at 14:00"]


@pytest.mark.parametrize(
    ("catch_up", "fired"),
    [("latest", [NOON + 3 * HOUR]), ("none", []), ("all", [NOON + hour * HOUR for hour in range(4)])],
)
def test_instants_that_were_jumped_over_are_made_up_for_as_catch_up_says(
    declare: Declare, catch_up: Any, fired: list[datetime]
) -> None:
    declare(Cron("0 * * * *", catch_up=catch_up, overlap="allow"))
    with travel() as clock:
        clock.move_to(NOON - HOUR / 2)
        clock.advance(hours=4)
        assert run_until_idle() == len(fired)
        assert instants() == fired
        clock.advance(hours=1)
        run_until_idle()
    assert instants() == sorted({*fired, *([] if catch_up == "none" else [NOON + 4 * HOUR])})


def test_many_missed_instants_all_fire_in_one_call(declare: Declare) -> None:
    """More than one tick of a worker takes."""
    declare(Cron("* * * * *", catch_up="all", overlap="allow"))
    with travel() as clock:
        clock.move_to(NOON + timedelta(seconds=30))
        clock.advance(hours=2)
        assert run_until_idle() == 120
    assert instants()[-1] == NOON + 2 * HOUR


def test_one_after_the_other_with_overlap_queue(declare: Declare) -> None:
    declare(Cron("0 * * * *", catch_up="all", overlap="queue"), nap=HOUR / 4)
    with travel() as clock:
        clock.move_to(NOON - HOUR / 2)
        clock.advance(hours=3)
        assert run_until_idle() == 1
        assert instants() == [NOON]
        clock.advance(minutes=15)
        # The first one wakes and ends, the second one starts.
        assert run_until_idle() == 2
        assert instants() == [NOON, NOON + HOUR]


def test_the_first_move_sets_the_scene(declare: Declare) -> None:
    """An instant at that very time is due; those before it nobody has missed, though the real time is far away."""
    report = declare("0 6 * * *")
    for year in (2020, 2040):
        with travel() as clock:
            clock.move_to(datetime(year, 5, 1, 5, 59, tzinfo=UTC))
            assert run_until_idle() == 0
            Schedule.objects.all().delete()
    with travel() as clock:
        clock.move_to(datetime(2020, 5, 1, 6, tzinfo=UTC))
        assert run_until_idle() == 1
    assert [run.result() for run in assert_fired(report)] == ["all at 06:00"]


def test_a_block_within_a_block_goes_on_from_there(declare: Declare) -> None:
    declare("0 * * * *")
    with travel() as outer:
        outer.move_to(NOON - HOUR / 2)
        outer.advance(hours=1)
        with travel() as inner:
            assert run_until_idle() == 1
            inner.advance(hours=1)
            assert run_until_idle() == 1
    assert instants() == [NOON, NOON + HOUR]


def test_what_is_declared_in_a_test_counts_from_the_call_before(declare: Declare) -> None:
    with travel() as clock:
        clock.move_to(NOON - HOUR / 2)
        run_until_idle()
        clock.advance(hours=5)
        run_until_idle()
        declare("0 * * * *")
        assert run_until_idle() == 0
        clock.advance(hours=1)
        assert run_until_idle() == 1
    assert instants() == [NOON + 5 * HOUR]


def test_jitter_is_a_wait_of_the_run(declare: Declare) -> None:
    declare(Cron("0 * * * *", jitter=3600))
    with travel() as clock:
        clock.move_to(NOON)
        assert run_until_idle() == 0
        assert Run.objects.get().status == "scheduled"
        assert run_until_idle(skip_waits=True) == 1


def test_code_that_is_gone_does_not_fire(declare: Declare) -> None:
    declare("0 * * * *")
    with travel() as clock:
        clock.move_to(NOON - HOUR / 2)
        run_until_idle()
        declare()
        clock.advance(hours=1)
        assert run_until_idle() == 0
    assert not Schedule.objects.exists()


# --- where they do not fire ------------------------------------------------------------------


def test_they_fire_only_where_time_is_moved(declare: Declare) -> None:
    declare("* * * * * *", nap=DAY)
    other = declare_other()
    other.enqueue()
    assert run_until_idle() == 1
    assert run_until_idle(skip_waits=True) == 1
    assert not Schedule.objects.exists()
    assert not Fire.objects.exists()


def declare_other() -> Workflow[Any, Any]:
    @durable_workflow(name="test.other")
    def other(ctx: Context) -> None:
        ctx.sleep("two days", 2 * DAY)

    return other


def test_a_block_may_leave_them_out(declare: Declare) -> None:
    declare("0 * * * *")
    with travel(schedules=False) as clock:
        clock.advance(days=1)
        assert run_until_idle() == 0
        assert not Schedule.objects.exists()
        with travel():
            # Here they begin anew.
            assert run_until_idle() == 0
    assert not Fire.objects.exists()


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow", "cancel_previous"])
def test_skipping_waits_does_not_lead_from_fire_to_fire(declare: Declare, overlap: Any) -> None:
    """The run naps until the next instant and longer."""
    declare(Cron("0 * * * *", overlap=overlap, catch_up="all"), nap=1.5 * HOUR)
    with travel() as clock:
        clock.move_to(NOON)
        assert run_until_idle(skip_waits=True) == 2
        assert clock.now() >= NOON + 1.5 * HOUR
        assert instants() == [NOON]
        # What the jump has passed fires now.
        run_until_idle()
    assert instants() == [NOON, NOON + HOUR]


def test_a_jump_never_goes_to_the_next_instant(declare: Declare) -> None:
    declare("0 * * * *")
    with travel() as clock:
        clock.move_to(NOON - HOUR / 2)
        assert run_until_idle(skip_waits=True) == 0
        assert clock.now() < NOON


def test_what_was_due_fires_although_a_run_of_its_own_is_waited_for(declare: Declare) -> None:
    declare(Cron("0 * * * *", overlap="queue", catch_up="all"), nap=HOUR / 4)
    with travel() as clock:
        clock.move_to(NOON - HOUR / 2)
        clock.advance(hours=3)
        assert run_until_idle(skip_waits=True) == 6
    assert instants() == [NOON, NOON + HOUR, NOON + 2 * HOUR]


# --- the operator's --------------------------------------------------------------------------


def make_row(**more: Any) -> Schedule:
    given = {"workflow": "test.report", "name": "operator's", "expression": "0 * * * *", **more}
    return Schedule.objects.create(**given)


def test_a_row_of_the_operator_fires(declare: Declare) -> None:
    report = declare()
    make_row(input='{"region": "south"}')
    with travel() as clock:
        clock.advance(hours=1)
        assert run_until_idle() == 1
    [run] = assert_fired(report, schedule="operator's")
    assert run.result().startswith("south")


def test_a_row_that_is_planned_already_keeps_its_instant(declare: Declare) -> None:
    declare()
    with travel() as clock:
        clock.move_to(NOON - HOUR / 2)
        clock.advance(hours=1)
        row = Schedule(workflow="test.report", name="late", expression="0 * * * *")
        replan(row)
        row.save()
        assert run_until_idle() == 0
        clock.advance(hours=1)
        assert run_until_idle() == 1
    assert instants() == [NOON + HOUR]


def test_a_disabled_row_does_not_fire(declare: Declare) -> None:
    declare("0 * * * *")
    with travel() as clock:
        run_until_idle()
        disable(Schedule.objects.get())
        clock.advance(days=1)
        assert run_until_idle() == 0


def test_what_is_wrong_with_one_row_stops_only_that_one(declare: Declare) -> None:
    declare("0 * * * *")
    make_row(name="mistyped", expression="every hour")
    make_row(name="misfit", input='{"regoin": "south"}')
    with travel() as clock:
        clock.advance(hours=1)
        assert run_until_idle() == 1
    problems = dict(Schedule.objects.values_list("name", "problem"))
    assert problems.pop("test.report") == ""
    assert problems["mistyped"].startswith("InvalidSchedule")
    assert problems["misfit"].startswith("InvalidInput")


def test_a_row_that_somebody_holds_does_not_stop_the_test(declare: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    declare("0 * * * *")
    with travel() as clock:
        run_until_idle()
        clock.advance(hours=1)
        monkeypatch.setattr("django_durable.worker.loops.fire.scheduling.fire", lambda *args, **more: None)
        assert run_until_idle() == 0


# --- what else happens -----------------------------------------------------------------------


def test_signals_are_sent_here_and_now(declare: Declare) -> None:
    report = declare("0 * * * *", nap=DAY)
    heard: list[tuple[str, Any]] = []

    def hear_fired(sender: Any, **facts: Any) -> None:
        heard.append(("fired", facts["scheduled_for"]))

    def hear_enqueued(sender: Any, **facts: Any) -> None:
        heard.append(("enqueued", facts["run_id"]))

    schedule_fired.connect(hear_fired, sender=report)
    run_enqueued.connect(hear_enqueued, sender=report)
    with travel() as clock:
        clock.move_to(NOON)
        run_until_idle()
    assert heard == [("enqueued", Run.objects.get().pk), ("fired", NOON)]


def test_cancel_previous_ends_the_run_before(declare: Declare) -> None:
    declare(Cron("0 * * * *", overlap="cancel_previous"), nap=DAY)
    with travel() as clock:
        clock.move_to(NOON)
        run_until_idle()
        clock.advance(hours=1)
        run_until_idle()
    assert list(Run.objects.order_by("pk").values_list("status", flat=True)) == ["cancelled", "waiting"]


def test_the_database_session_is_left_as_it_was(declare: Declare) -> None:
    """In a TestCase what is set for a transaction holds for the rest of the test."""
    declare(Cron("0 * * * *", overlap="cancel_previous"), nap=DAY)
    with travel() as clock:
        clock.move_to(NOON)
        run_until_idle()
        clock.advance(hours=1)
        run_until_idle()
    assert len(instants()) == 2
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == ("0",)


# --- assert_fired ----------------------------------------------------------------------------


def test_assert_fired_counts_the_runs_that_schedules_have_started(declare: Declare) -> None:
    report = declare(Cron("0 * * * *", name="hourly"), Cron("30 * * * *", name="half past"))
    report.enqueue()
    with travel() as clock:
        clock.move_to(NOON)
        run_until_idle()
        assert_fired(report)
        assert_fired("test.report", schedule="hourly")
        assert_fired(report, times=0, schedule="half past")
        clock.advance(hours=1)
        run_until_idle()
    hourly = assert_fired(report, times=2, schedule="hourly")
    assert assert_fired(report, times=None) == sorted(
        [*hourly, *assert_fired(report, schedule="half past")], key=lambda run: run.id
    )


def test_assert_fired_tells_what_there_is_instead(declare: Declare) -> None:
    report = declare(Cron("0 * * * *", name="hourly", timezone="Europe/Berlin"), nap=DAY)
    make_row(name="broken", expression="nonsense")
    with travel() as clock:
        clock.move_to(NOON)
        run_until_idle()
        clock.advance(hours=1)
        run_until_idle()
    with pytest.raises(AssertionError) as caught:
        assert_fired(report, times=2)
    assert "Schedules of test.report have started 1 run, not 2." in str(caught.value)
    assert (
        "'hourly' (0 * * * * Europe/Berlin): fired at 2040-05-01 12:00:00+00:00, "
        "skipped: overlap at 2040-05-01 13:00:00+00:00, next at 2040-05-01 14:00:00+00:00" in str(caught.value)
    )
    assert "'broken' (nonsense UTC): InvalidSchedule" in str(caught.value)


@pytest.mark.parametrize("times", [0, 1, None])
def test_assert_fired_is_not_content_where_no_schedule_could_have_fired(declare: Declare, times: int | None) -> None:
    report = declare("0 * * * *")
    with pytest.raises(AssertionError, match=r"no schedule of test\.report .* travel"):
        assert_fired(report, times=times)
    with travel():
        run_until_idle()
    with pytest.raises(AssertionError, match=r"No schedule of test\.report is called 'hourly', only 'test.report'"):
        assert_fired(report, times=times, schedule="hourly")
