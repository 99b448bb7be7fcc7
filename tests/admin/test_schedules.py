from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_durable.models import Fire, Schedule
from tests.admin.pages import run_url, text_of
from tests.admin.world import make_run, make_schedule

LIST = "admin:django_durable_schedule_changelist"


def act(client: Client, action: str, *schedules: Schedule) -> str:
    data = {"action": action, ACTION_CHECKBOX_NAME: [str(schedule.pk) for schedule in schedules]}
    return text_of(client.post(reverse(LIST), data, follow=True))


def test_a_line_says_when_it_fires(boss: Client) -> None:
    now = timezone.now()
    run = make_run("succeeded")
    schedule = make_schedule(
        timezone="Europe/Berlin", next_fire_at=now + timedelta(hours=5, minutes=1),
        last_scheduled_for=now - timedelta(days=2), problem="no such zone",
    )  # fmt: skip
    Fire.objects.create(schedule=schedule, scheduled_for=now, fired_at=now, run_id=run.pk, outcome="started")
    response = boss.get(reverse(LIST))
    text = text_of(response)
    for part in ("app.doubling", "daily", "0 6 * * *", "Europe/Berlin", "in 5 h", "2 d ago", "no such zone"):
        assert part in text
    assert run_url(run) in response.content.decode()


def test_switches_work_and_are_kept(boss: Client) -> None:
    past = timezone.now() - timedelta(days=3)
    schedule = make_schedule(next_fire_at=past)
    assert "1 schedule was disabled." in act(boss, "disable", schedule)
    assert Schedule.objects.get().enabled is False
    assert "1 schedule was enabled." in act(boss, "enable", schedule)
    row = Schedule.objects.get()
    # What passed while it was off is not made up for.
    assert row.enabled and row.next_fire_at is not None and row.next_fire_at > timezone.now()
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == ["Disable", "Enable"]


def test_one_that_can_never_fire_says_why(boss: Client) -> None:
    schedule = make_schedule(enabled=False, expression="61 * * * *")
    assert "daily" in act(boss, "enable", schedule)
    assert Schedule.objects.get().problem


def test_the_number_of_queries_does_not_grow(boss: Client) -> None:
    for number in range(30):
        schedule = make_schedule(name=f"number {number}")
        moment = timezone.now()
        Fire.objects.create(schedule=schedule, scheduled_for=moment, fired_at=moment, run_id=make_run().pk, outcome="x")
    boss.get(reverse(LIST))
    with CaptureQueriesContext(connection) as queries:
        boss.get(reverse(LIST))
    assert len(queries) <= 6


def page_of(client: Client, schedule: Schedule) -> str:
    return text_of(client.get(reverse("admin:django_durable_schedule_change", args=[schedule.pk])))


def test_its_page_tells_the_next_instants(boss: Client) -> None:
    planned = datetime(2040, 10, 27, 0, 30, tzinfo=UTC)
    schedule = make_schedule(expression="30 2 * * *", timezone="Europe/Berlin", next_fire_at=planned)
    text = page_of(boss, schedule)
    for fire in (planned, datetime(2040, 10, 28, 0, 30, tzinfo=UTC), datetime(2040, 10, 31, 1, 30, tzinfo=UTC)):
        assert f"{timezone.localtime(fire):%Y-%m-%d %H:%M:%S}" in text
    assert "2040-11-01" not in text


def test_the_page_of_one_that_does_not_fire(boss: Client) -> None:
    off = make_schedule(enabled=False, next_fire_at=datetime(2040, 1, 1, tzinfo=UTC))
    assert "2040" not in page_of(boss, off)
    assert "cannot be understood" in page_of(
        boss, make_schedule(name="x", expression="x", problem="cannot be understood")
    )


def test_its_page_keeps_the_input_to_itself(boss: Client) -> None:
    schedule = make_schedule(input='["canary"]')
    page = boss.get(reverse("admin:django_durable_schedule_change", args=[schedule.pk]))
    assert page.status_code == 200
    assert "canary" not in page.content.decode()
