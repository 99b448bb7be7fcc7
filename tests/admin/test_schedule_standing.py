"""Late and failing schedules are marked as such; and what a page tells of the instants to come and past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_durable.models import Audit, Fire, Run, Schedule
from tests.admin.conftest import Person
from tests.admin.facts import facts
from tests.admin.pages import run_url, text_of
from tests.admin.world import make_run, make_schedule

LIST, PAGE = "admin:django_durable_schedule_changelist", "admin:django_durable_schedule_change"


def fired(schedule: Schedule, *statuses: str) -> list[Run]:
    """With runs of these statuses, the latest one first; an empty one for an instant that was passed over."""
    now, runs = timezone.now(), []
    for number, status in enumerate(statuses):
        run = make_run(status) if status else None
        when = now - timedelta(hours=number + 1)
        Fire.objects.create(
            schedule=schedule, scheduled_for=when, fired_at=when, run_id=run and run.pk, outcome="fired"
        )
        runs += [run] if run else []
    return runs


def texts(client: Client, schedule: Schedule) -> tuple[str, str]:
    """What the list's line and the page's head say."""
    page = text_of(client.get(reverse(PAGE, args=[schedule.pk])))
    return text_of(client.get(reverse(LIST))).partition("By status")[0], page.partition("Facts")[0]


def test_one_that_should_have_fired_is_late(boss: Client) -> None:
    schedule = make_schedule(next_fire_at=timezone.now() - timedelta(minutes=3))
    line, head = texts(boss, schedule)
    assert "late" in line and "late" in head
    assert "It is late: it was due 3 min ago" in head


@pytest.mark.parametrize(
    "more",
    [
        {"next_fire_at": timedelta(seconds=-3)},  # a worker looks every few seconds
        {"next_fire_at": timedelta(minutes=-3), "enabled": False},
        {"next_fire_at": None},
        {"next_fire_at": timedelta(hours=1)},
    ],
)
def test_others_are_not_late(boss: Client, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]) -> None:
    due, now = more["next_fire_at"], timezone.now()
    monkeypatch.setattr("django_durable.core.clock.utcnow", lambda: now)
    schedule = make_schedule(**{**more, "next_fire_at": due and now + due})
    assert not any("late" in text for text in texts(boss, schedule))


@pytest.mark.parametrize(("status", "is_late"), [("waiting", False), ("succeeded", True)])
def test_one_that_waits_for_its_own_run_is_not_late(boss: Client, status: str, is_late: bool) -> None:
    schedule = make_schedule(overlap="queue", next_fire_at=timezone.now() - timedelta(minutes=3))
    fired(schedule, status)
    Fire.objects.update(is_open=True)
    line, head = texts(boss, schedule)
    assert ("late" in line, "late" in head) == (is_late, is_late)
    assert is_late or "waits until the run of an earlier instant is over" in head


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        (["failed"], "Its last run failed."),
        (["blocked", "failed", "succeeded", "failed"], "Its last 2 runs failed."),
        (["running", "failed"], "Its last run failed."),
        (["", "", "cancelled", "failed", "failed"], "Its last 2 runs failed."),
        (["failed"] * 8, "Its last 5 runs failed."),
        (["succeeded", "failed"], ""),
        (["running"], ""),
        ([], ""),
    ],
)
def test_one_whose_last_runs_failed_is_failing(boss: Client, statuses: list[str], said: str) -> None:
    schedule = make_schedule(next_fire_at=timezone.now() + timedelta(hours=1))
    fired(schedule, *statuses)
    line, head = texts(boss, schedule)
    assert ("failing" in line, "failing" in head) == (bool(said), bool(said))
    assert said in head


def test_one_that_cannot_fire_says_so(boss: Client) -> None:
    line, head = texts(boss, make_schedule(expression="x", problem="cannot be understood"))
    assert "cannot fire" in line and "cannot fire" in head


def test_the_list_tells_words_zone_and_the_last_run(boss: Client, person: Person) -> None:
    schedule = make_schedule(expression="30 7 * * 1-5", timezone="Europe/Berlin")
    run = fired(schedule, "failed")[0]
    make_schedule(name="odd", expression="*/7 * * * *")
    page = boss.get(reverse(LIST))
    for part in ("at 07:30 on weekdays", "30 7 * * 1-5", "Europe/Berlin", "*/7 * * * *", "failed"):
        assert part in text_of(page)
    assert run_url(run) in page.content.decode()
    for url in (reverse(LIST), reverse(PAGE, args=[schedule.pk])):
        blind = person("view_schedule", name=f"bob {len(url)}").get(url)
        assert "failed" in text_of(blind) and run_url(run) not in blind.content.decode()


def test_the_list_with_nothing_on_it(boss: Client) -> None:
    assert "There is no schedule yet." in text_of(boss.get(reverse(LIST)))


def test_the_last_runs_have_their_status(boss: Client) -> None:
    schedule = make_schedule()
    runs = fired(schedule, "failed", "succeeded", "")
    gone = fired(make_schedule(name="other"), "succeeded")[0]
    page = boss.get(reverse(PAGE, args=[schedule.pk]))
    body = page.content.decode()
    assert all(run_url(run) in body for run in runs)
    assert [run.pk for run in runs] == [fire["run_id"] for fire in page.context["fires"].rows if fire["run_id"]]
    pills = [fire["pills"] for fire in page.context["fires"].rows]
    assert "failed" in pills[0] and "succeeded" in pills[1] and pills[2] == ""
    url, short = run_url(gone), str(gone.pk)[-12:]
    gone.delete()
    other = boss.get(reverse(PAGE, args=[Schedule.objects.get(name="other").pk]))
    assert url not in other.content.decode() and short in text_of(other)


def test_the_facts_of_a_schedule(boss: Client) -> None:
    schedule = make_schedule(
        expression="30 7 * * 1-5", timezone="Europe/Berlin", overlap="cancel_previous", catch_up="all", jitter=2.5,
        last_scheduled_for=datetime(2031, 7, 1, 5, 30, tzinfo=UTC),
    )  # fmt: skip
    assert facts(boss, reverse(PAGE, args=[schedule.pk])) == [
        ("Workflow", "app.doubling"),
        ("Fires", "at 07:30 on weekdays 30 7 * * 1-5"),
        ("Zone", "Europe/Berlin"),
        ("Overlap", "cancel the previous run"),
        ("Catch-up", "all"),
        ("Jitter", "2.5 s"),
        ("Belongs to", "the operators"),
        ("Last", "2031-07-01 05:30:00"),
    ]


def test_a_page_with_nothing_on_it(boss: Client) -> None:
    off = text_of(boss.get(reverse(PAGE, args=[make_schedule(enabled=False).pk])))
    assert "None: it is disabled." in off and "It has not fired yet." in off
    broken = make_schedule(name="broken", expression="x", problem="x")
    assert "None: it cannot fire." in text_of(boss.get(reverse(PAGE, args=[broken.pk])))


def test_instants_are_told_by_the_clocks_of_their_zone_and_in_utc(boss: Client) -> None:
    """The hour that comes twice, and the one that is jumped over, as the engine has them."""
    planned = datetime(2040, 3, 24, 1, 30, tzinfo=UTC)
    schedule = make_schedule(expression="30 2 * * *", timezone="Europe/Berlin", next_fire_at=planned)
    instants = boss.get(reverse(PAGE, args=[schedule.pk])).context["preview"].instants
    assert [one.utc for one in instants][:3] == ["2040-03-24 01:30:00", "2040-03-25 01:00:00", "2040-03-26 00:30:00"]
    assert "Sat 2040-03-24 02:30:00 CET" in instants[0].local and "Sun 2040-03-25 03:00:00 CEST" in instants[1].local


@pytest.mark.parametrize(("zone", "columns"), [("UTC", 1), ("Etc/UTC", 1), ("Europe/Berlin", 2)])
def test_of_a_schedule_in_utc_the_instants_are_told_once(boss: Client, zone: str, columns: int) -> None:
    page = boss.get(reverse(PAGE, args=[make_schedule(timezone=zone).pk])).content.decode()
    table = page.split('class="durable-instants"')[1].split("</table>")[0]
    assert table.count('<th scope="col">') == columns + 1
    assert table.split("</tr>")[1].count("<td") == columns
    preview = reverse("admin:django_durable_schedule_preview")
    shown = boss.get(preview, {"expression": "0 6 * * *", "timezone": zone}).content.decode()
    assert shown.count('<th scope="col">') == columns + 1


@pytest.mark.parametrize(("catch_up", "overdue"), [("latest", 1), ("none", 0), ("all", 5)])
def test_what_was_missed_is_told_as_it_will_be_made_up_for(boss: Client, catch_up: str, overdue: int) -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    missed = hour - timedelta(hours=9)
    past = (timezone.now() - hour).total_seconds() < 11
    schedule = make_schedule(expression="0 * * * *", catch_up=catch_up, next_fire_at=missed)
    instants = boss.get(reverse(PAGE, args=[schedule.pk])).context["preview"].instants
    assert len(instants) == 5 and [one.is_overdue for one in instants].count(True) in (overdue, overdue + past)
    if catch_up == "latest":
        assert instants[0].utc == f"{hour:%Y-%m-%d %H:%M:%S}"


# --- a backfill is counted first -------------------------------------------------------------

WINDOW = {"confirmed": "1", "since": "2024-01-01T00:00", "until": "2024-01-05T23:00", "limit": "50", "reason": "why"}


def ask(client: Client, schedule: Schedule, **other: str) -> Any:
    return client.post(reverse("admin:django_durable_schedule_backfill", args=[schedule.pk]), {**WINDOW, **other})


def test_a_backfill_says_how_many_runs_before_it_starts_any(boss: Client) -> None:
    schedule = make_schedule(input='{"number": 4}')
    page = ask(boss, schedule)
    text = text_of(page)
    assert "5 runs would start, for the instants from 2024-01-01 06:00:00 to 2024-01-05 06:00:00 ." in text
    assert "Start 5 runs" in page.content.decode() and not Run.objects.exists() and not Audit.objects.exists()
    assert ask(boss, schedule, **dict(page.context["hidden"])).status_code == 302
    assert Run.objects.count() == 5
    assert "No run would start" in text_of(ask(boss, schedule))


def test_another_window_is_counted_anew(boss: Client) -> None:
    schedule = make_schedule(input='{"number": 4}')
    hidden = dict(ask(boss, schedule).context["hidden"])
    page = ask(boss, schedule, **hidden, until="2024-02-05T23:00")
    assert "36 runs would start" in text_of(page) and not Run.objects.exists()
    for token in ("", "x", "x 5", hidden["counted"] + "x", hidden["counted"].rpartition(" ")[0] + " 0"):
        assert ask(boss, schedule, counted=token).status_code == 200
    assert not Run.objects.exists()


def test_no_more_runs_start_than_were_told(boss: Client) -> None:
    schedule = make_schedule(input='{"number": 4}')
    fired_at = datetime(2024, 1, 2, 6, tzinfo=UTC)
    passed_over = Fire.objects.create(
        schedule=schedule, scheduled_for=fired_at, fired_at=fired_at, run_id=make_run().pk, outcome="fired"
    )
    page = ask(boss, schedule)
    assert "4 runs would start" in text_of(page)
    passed_over.delete()
    before = Run.objects.count()
    ask(boss, schedule, **dict(page.context["hidden"]))
    assert Run.objects.count() == before + 4


def test_a_long_window_is_counted_up_to_its_limit(boss: Client) -> None:
    schedule = make_schedule(input='{"number": 4}', expression="* * * * *")
    boss.get(reverse(LIST))
    with CaptureQueriesContext(connection) as queries:
        page = ask(boss, schedule, limit="3")
    assert "3 runs would start" in text_of(page) and "There are more" in text_of(page)
    assert len(queries) <= 12
    assert "1 run would start, for 2024-01-01 00:00:00 ." in text_of(ask(boss, schedule, until="2024-01-01T00:00"))


def test_a_window_that_is_full_of_runs_is_not_searched_for_ever(boss: Client) -> None:
    schedule = make_schedule(input='{"number": 4}', expression="* * * * *")
    run, begin = make_run(), datetime(2024, 1, 1, tzinfo=UTC)
    Fire.objects.bulk_create(
        Fire(schedule=schedule, scheduled_for=when, fired_at=when, run_id=run.pk, outcome="fired")
        for when in (begin + timedelta(minutes=number) for number in range(700))
    )
    with CaptureQueriesContext(connection) as queries:
        page = ask(boss, schedule, limit="3")
    assert "begin it later" in text_of(page) and "Start" not in page.context["submit"]
    assert len(queries) <= 12
