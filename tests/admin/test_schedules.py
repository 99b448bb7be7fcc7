from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_durable.admin import schedule_steering
from django_durable.models import Audit, Fire, Run, Schedule
from tests.admin.conftest import Person
from tests.admin.pages import run_url, text_of
from tests.admin.world import make_run, make_schedule

LIST = "admin:django_durable_schedule_changelist"
PAGE = "admin:django_durable_schedule_change"


def ask(client: Client, action: str, *schedules: Schedule) -> Any:
    data = {"action": action, ACTION_CHECKBOX_NAME: [str(schedule.pk) for schedule in schedules]}
    return client.post(reverse(LIST), data)


def act(client: Client, action: str, *schedules: Schedule, reason: str = "") -> str:
    """Asks and confirms: what the list says then."""
    data: dict[str, Any] = {}
    for name, value in ask(client, action, *schedules).context["hidden"]:
        data.setdefault(name, []).append(value)
    return text_of(client.post(reverse(LIST), {**data, "confirmed": "1", "reason": reason}, follow=True))


def press(client: Client, verb: str, schedule: Schedule, **data: str) -> Any:
    """Does as the buttons do: asks, and answers the question; that of a backfill comes twice, with what it counted."""
    url = reverse(f"admin:django_durable_schedule_{verb}", args=[schedule.pk])
    assert client.post(url).status_code == 200
    answer = client.post(url, {"confirmed": "1", **data}, follow=True)
    if verb == "backfill" and (hidden := answer.context.get("hidden")):
        return client.post(url, {"confirmed": "1", **data, **dict(hidden)}, follow=True)
    return answer


def told() -> list[tuple[str, ...]]:
    return list(Audit.objects.filter(run=None).order_by("pk").values_list("verb", "actor", "reason", "status_before"))


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


def test_a_line_whose_instant_has_passed_says_that_it_is_due(boss: Client) -> None:
    make_schedule(next_fire_at=timezone.now() - timedelta(minutes=28))
    assert "due 28 min ago" in text_of(boss.get(reverse(LIST)))


@pytest.mark.parametrize(
    ("typed", "found"),
    [("REPORT", ["daily", "hourly"]), ("hour", ["hourly"]), ("report hour", ["hourly"]), ("%", []), ("a\x00b", None)],
)
def test_the_search_finds_parts_of_names(boss: Client, typed: str, found: list[str] | None) -> None:
    make_schedule(workflow="app.report", name="daily")
    make_schedule(workflow="app.report", name="hourly")
    make_schedule(workflow="app.paying", name="nightly")
    shown = boss.get(reverse(LIST), {"q": typed}).context["cl"].result_list
    # What cannot be in a name is told, and not looked for.
    assert [schedule.name for schedule in shown] == (["nightly", "daily", "hourly"] if found is None else found)


def test_that_there_is_none_is_said_only_where_there_is_none(boss: Client) -> None:
    assert "There is no schedule yet" in text_of(boss.get(reverse(LIST)))
    make_schedule()
    assert "There is no schedule yet" not in text_of(boss.get(reverse(LIST), {"q": "nobody"}))


def test_the_search_and_a_filter_go_together(boss: Client) -> None:
    make_schedule(workflow="app.report", name="daily", enabled=False)
    make_schedule(workflow="app.report", name="hourly")
    shown = boss.get(reverse(LIST), {"q": "report", "status": "disabled"}).context["cl"].result_list
    assert [schedule.name for schedule in shown] == ["daily"]


def test_switches_work_and_are_kept(boss: Client) -> None:
    past = timezone.now() - timedelta(days=3)
    schedule = make_schedule(next_fire_at=past)
    assert "1 schedule was disabled." in act(boss, "disable_selected", schedule, reason="holidays")
    assert Schedule.objects.get().enabled is False
    assert "1 schedule was enabled." in act(boss, "enable_selected", schedule, reason="work")
    row = Schedule.objects.get()
    # What passed while it was off is not made up for.
    assert row.enabled and row.next_fire_at is not None and row.next_fire_at > timezone.now()
    assert told() == [("disable", "ann", "holidays", "enabled"), ("enable", "ann", "work", "disabled")]
    messages = [entry.change_message for entry in LogEntry.objects.order_by("pk")]
    assert messages == ["Disable: holidays", "Enable: work"]
    text = page_of(boss, row)
    assert "holidays" in text and "work" in text


def test_the_page_before_it_names_those_that_it_would_turn(boss: Client) -> None:
    rows = [make_schedule(name=name, enabled=name != "off") for name in ("one", "two", "off")]
    text = text_of(ask(boss, "disable_selected", *rows))
    assert "Disable these 2 schedules?" in text and "one" in text and "two" in text
    assert Schedule.objects.filter(enabled=True).count() == 2, "asked, not done"
    assert "2 schedules were disabled." in act(boss, "disable_selected", *rows)
    assert "0 schedules were disabled." in text_of(boss.post(reverse(LIST), {
        "action": "disable_selected", ACTION_CHECKBOX_NAME: [str(row.pk) for row in rows]}, follow=True))  # fmt: skip


def test_the_page_before_it_says_which_it_leaves_as_they_are(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_steering, "SWITCHED_MOST", 2)
    rows = [make_schedule(name=name, enabled=name != "off") for name in ("one", "two", "off")]
    text = text_of(ask(boss, "disable_selected", *rows))
    assert "1 of the selected schedules stays as it is" in text and "There are more" not in text
    text = text_of(ask(boss, "disable_selected", *rows[:2], make_schedule(name="three")))
    assert "There are more. These are the first 2" in text and "stay" not in text


@pytest.mark.parametrize("odd", ["all", "x", "", "9" * 30, "-" + "9" * 30, "9" * 5_000])
def test_what_names_no_schedule_is_not_selected(boss: Client, odd: str) -> None:
    schedule = make_schedule()
    data = {"action": "disable_selected", "index": "0", "select_across": "0"}
    response = boss.post(reverse(LIST), {**data, ACTION_CHECKBOX_NAME: [odd]}, follow=True)
    assert response.status_code == 200
    asked = boss.post(reverse(LIST), {**data, ACTION_CHECKBOX_NAME: [odd, str(schedule.pk)]})
    assert "Disable this schedule?" in text_of(asked)


def test_one_that_can_never_fire_says_why(boss: Client) -> None:
    schedule = make_schedule(enabled=False, expression="61 * * * *")
    assert "doubling: daily: InvalidSchedule" in act(boss, "enable_selected", schedule)
    assert Schedule.objects.get().problem


def test_the_buttons_of_its_page_turn_it(boss: Client) -> None:
    schedule = make_schedule()
    assert "1 schedule was disabled." in text_of(press(boss, "disable", schedule, reason="holidays"))
    assert "1 schedule was enabled." in text_of(press(boss, "enable", schedule))
    # A second one who has the page open still is told that there was nothing to do.
    url = reverse("admin:django_durable_schedule_enable", args=[schedule.pk])
    assert "0 schedules were enabled." in text_of(boss.post(url, {"confirmed": "1"}, follow=True))
    assert [entry[:3] for entry in told()] == [("disable", "ann", "holidays"), ("enable", "ann", "")]


def test_fire_now_starts_a_run_and_shows_it(boss: Client) -> None:
    schedule = make_schedule(input='{"number": 4}', enabled=False)
    done = press(boss, "fire", schedule, reason="the night was lost")
    run = Run.objects.get()
    assert done.redirect_chain == [(run_url(run), 302)] and f"Run {run.pk} was started." in text_of(done)
    assert (run.status, Fire.objects.get().run_id) == ("queued", run.pk)
    assert told() == [("fire", "ann", f"run {run.pk}: the night was lost", "disabled")]
    assert LogEntry.objects.get().change_message == "Fire now: the night was lost"
    text = page_of(boss, schedule)
    assert "manual" in text and "the night was lost" in text
    assert run_url(run) in boss.get(reverse(PAGE, args=[schedule.pk])).content.decode()


@pytest.mark.parametrize(("permission", "sees"), [("view_worker", False), ("view_run", True), ("change_run", True)])
def test_who_may_not_see_runs_comes_back_to_the_schedule(person: Person, permission: str, sees: bool) -> None:
    schedule = make_schedule(input='{"number": 4}')
    done = press(person("view_schedule", "fire_schedule", permission), "fire", schedule)
    page = run_url(Run.objects.get()) if sees else reverse(PAGE, args=[schedule.pk])
    assert done.redirect_chain == [(page, 302)]


def test_a_fire_that_is_answered_twice_starts_one_run(boss: Client, person: Person) -> None:
    schedule = make_schedule(input='{"number":4}')
    url = reverse("admin:django_durable_schedule_fire", args=[schedule.pk])

    def mark() -> str:
        return str(boss.post(url).context["form"]["asked_after"].value())

    data = {"confirmed": "1", "reason": "the night was lost", "asked_after": mark()}
    first, second = (boss.post(url, data) for _ in range(2))
    assert first.url == second.url and Run.objects.count() == Fire.objects.count() == LogEntry.objects.count() == 1
    person("view_schedule", "fire_schedule", name="bob").post(url, data)
    boss.post(url, {**data, "asked_after": mark()})
    assert Run.objects.count() == 3


@pytest.mark.parametrize("verb", ["fire", "backfill"])
@pytest.mark.parametrize(
    ("wrong", "complaint"), [({"workflow": "app.gone"}, "app.gone"), ({"input": '{"letter": 1}'}, "letter")]
)
def test_what_cannot_be_fired_says_why(boss: Client, verb: str, wrong: dict[str, str], complaint: str) -> None:
    schedule = make_schedule(**wrong)
    refused = press(boss, verb, schedule, since="2024-01-01T00:00", until="2024-01-02T23:00", limit="5")
    assert refused.status_code == 200 and complaint in text_of(refused)
    assert not Run.objects.exists() and told() == [] and not LogEntry.objects.exists()


def masked(run: Run, kind: str, value: Any) -> Any:
    return value


@pytest.mark.parametrize("is_redacting", [False, True])
@pytest.mark.parametrize("verb", ["fire", "backfill"])
def test_what_the_project_raises_says_why_unless_values_are_redacted(
    boss: Client, verb: str, is_redacting: bool, settings: Any
) -> None:
    """Who fires it has not typed the input, and may not be one who sees it."""
    if is_redacting:
        settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.masked"}
    schedule = make_schedule(workflow="app.refused", input='{"card": "4111-1111"}')
    text = text_of(press(boss, verb, schedule, since="2024-01-01T00:00", until="2024-01-02T23:00", limit="5"))
    assert "KeyError" in text
    assert ("4111-1111" in text) is not is_redacting
    assert not Run.objects.exists() and told() == [] and not LogEntry.objects.exists()


def test_a_window_that_is_past_is_filled(boss: Client) -> None:
    schedule = make_schedule(input='{"number": 4}', timezone="Europe/Berlin", expression="0 6 * * *")
    window = {"since": "2024-01-01T00:00", "until": "2024-01-05T23:00", "limit": "3", "reason": "the disk was full"}
    first = press(boss, "backfill", schedule, **window)
    assert "3 runs were started. There are more: the same window again goes on." in text_of(first)
    assert "2 runs were started." in text_of(press(boss, "backfill", schedule, **window))
    assert "No run would start" in text_of(press(boss, "backfill", schedule, **window))
    fires = [fire.scheduled_for for fire in Fire.objects.order_by("scheduled_for")]
    assert fires == [datetime(2024, 1, day, 5, tzinfo=UTC) for day in range(1, 6)]
    assert [(verb, actor, reason.rpartition(": ")[2]) for verb, actor, reason, _ in told()] == [
        ("backfill", "ann", "the disk was full")
    ] * 2
    assert LogEntry.objects.count() == 2


@pytest.mark.parametrize(
    ("window", "complaint"),
    [
        ({"since": "2024-01-02T00:00", "until": "2024-01-01T00:00", "limit": "1"}, "ends before it begins"),
        ({"since": "yesterday", "until": "2024-01-01T00:00", "limit": "1"}, "Enter a valid date/time."),
        ({"since": "2024-01-01T00:00", "until": "2024-01-01T00:00", "limit": "1001"}, "less than or equal to 1000"),
        ({"since": "2024-01-01T00:00", "limit": ""}, "This field is required."),
    ],
)
def test_a_window_that_makes_no_sense_is_explained(boss: Client, window: dict[str, str], complaint: str) -> None:
    refused = press(boss, "backfill", make_schedule(input='{"number": 4}'), **window)
    assert refused.status_code == 200 and complaint in text_of(refused)
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("since", "until"), [("0001-01-01T00:00", "0001-01-02T00:00"), ("2024-01-01T00:00", "9999-12-31T23:59")]
)
def test_a_window_at_the_end_of_the_calendar(boss: Client, since: str, until: str) -> None:
    schedule = make_schedule(input='{"number": 4}', timezone="Pacific/Kiritimati")
    assert press(boss, "backfill", schedule, since=since, until=until, limit="1").status_code == 200


def test_the_number_of_queries_does_not_grow(boss: Client) -> None:
    for number in range(30):
        schedule = make_schedule(name=f"number {number}")
        moment = timezone.now()
        Fire.objects.create(schedule=schedule, scheduled_for=moment, fired_at=moment, run_id=make_run().pk, outcome="x")
    boss.get(reverse(LIST))
    with CaptureQueriesContext(connection) as queries:
        boss.get(reverse(LIST))
    assert len(queries) <= 8


def page_of(client: Client, schedule: Schedule) -> str:
    return text_of(client.get(reverse(PAGE, args=[schedule.pk])))


def test_its_page_costs_a_bounded_number_of_queries(boss: Client) -> None:
    schedule = make_schedule()
    for number in range(30):
        when = timezone.now() - timedelta(minutes=number)
        Fire.objects.create(schedule=schedule, scheduled_for=when, fired_at=when, run_id=make_run().pk, outcome="fired")
    page_of(boss, schedule)
    with CaptureQueriesContext(connection) as queries:
        assert "There are more; these are the latest." in page_of(boss, schedule)
    assert len(queries) <= 8


def test_its_page_tells_the_next_instants(boss: Client) -> None:
    planned = datetime(2040, 10, 27, 0, 30, tzinfo=UTC)
    schedule = make_schedule(expression="30 2 * * *", timezone="Europe/Berlin", next_fire_at=planned)
    text = page_of(boss, schedule)
    for fire in (planned, datetime(2040, 10, 28, 0, 30, tzinfo=UTC), datetime(2040, 10, 31, 1, 30, tzinfo=UTC)):
        assert f"{timezone.localtime(fire):%Y-%m-%d %H:%M:%S}" in text
    assert "2040-11-01" not in text


def test_its_page_leads_whoever_may_see_runs_to_all_of_its_workflow(boss: Client, person: Person) -> None:
    """It lists the last fires only."""
    schedule, link = make_schedule(), '?workflow=app.doubling"'
    url = reverse(PAGE, args=[schedule.pk])
    assert link in boss.get(url).content.decode()
    assert link not in person("view_schedule", name="bob").get(url).content.decode()


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


@pytest.mark.parametrize("key", ["999999", "x", "1_2F"])
def test_a_page_that_is_gone_leads_back_to_the_list(boss: Client, key: str) -> None:
    answer = boss.get(reverse(PAGE, args=[key]), follow=True)
    assert answer.redirect_chain == [(reverse(LIST), 302)] and "There is no schedule" in text_of(answer)


def test_a_list_of_all_offers_to_show_all_only_where_it_shows_some(boss: Client) -> None:
    make_schedule(name="daily")
    make_schedule(name="hourly", enabled=False)
    assert "Show all" not in text_of(boss.get(reverse("admin:django_durable_schedule_changelist")))
    found = text_of(boss.get(reverse("admin:django_durable_schedule_changelist") + "?status=disabled"))
    assert "1 result" in found
