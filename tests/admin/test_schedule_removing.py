"""Schedules of the operators' are removed in the admin; those of the code say why they are not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import DELETION, LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_durable.admin import schedule_verbs
from django_durable.client import schedules
from django_durable.exceptions import ScheduleLocked
from django_durable.models import Audit, Fire, Run, Schedule
from tests.admin.conftest import Person
from tests.admin.pages import judge, run_url, text_of
from tests.admin.test_hostile import CORPUS
from tests.admin.test_schedules import LIST, PAGE, press
from tests.admin.world import make_run, make_schedule

CHANGE = ("view_schedule", "change_schedule")
YES = {"confirmed": "1", "reason": "the branch was closed"}


def remove_url(schedule: Schedule) -> str:
    return reverse("admin:django_durable_schedule_remove", args=[schedule.pk])


def page_of(client: Client, schedule: Schedule) -> Any:
    return client.get(reverse(PAGE, args=[schedule.pk]))


def with_a_run(schedule: Schedule) -> Run:
    run, now = make_run("running"), timezone.now()
    Fire.objects.create(schedule=schedule, scheduled_for=now, fired_at=now, run_id=run.pk, outcome="fired")
    return run


def test_it_is_asked_and_then_done_and_written_down(person: Person) -> None:
    schedule, other = make_schedule(), make_schedule(name="other")
    run, client = with_a_run(schedule), person(*CHANGE)
    asked = client.post(remove_url(schedule))
    text = text_of(asked)
    assert "Remove this schedule?" in text and "Runs that it has started stay" in text and "daily" in text
    assert Schedule.objects.count() == 2 and not Audit.objects.exists() and not LogEntry.objects.exists()
    done = client.post(remove_url(schedule), YES, follow=True)
    assert done.redirect_chain == [(reverse(LIST), 302)]
    assert "The schedule app.doubling: daily was removed." in text_of(done)
    assert list(Schedule.objects.all()) == [other] and not Fire.objects.exists()
    assert Run.objects.get().pk == run.pk and Run.objects.get().status == "running"
    entry, history = Audit.objects.get(), LogEntry.objects.get()
    assert (entry.verb, entry.actor, entry.status_before) == ("remove", "ann", "enabled")
    assert entry.reason.startswith("expression 0 6 * * *, ") and entry.reason.endswith(": the branch was closed")
    assert (history.action_flag, history.change_message) == (DELETION, "Remove: the branch was closed")
    assert (history.object_id, history.object_repr) == (str(schedule.pk), "app.doubling: daily")


def test_the_run_that_it_has_started_keeps_its_page(boss: Client) -> None:
    schedule = make_schedule()
    run = with_a_run(schedule)
    press(boss, "remove", schedule)
    assert boss.get(run_url(run)).status_code == 200


@pytest.mark.parametrize(
    "columns",
    [
        {"enabled": False},
        {"next_fire_at": timezone.now() - timedelta(days=3)},
        {"problem": "There is no such zone."},
        {"workflow": "app.gone"},
    ],
    ids=["disabled", "late", "cannot fire", "of no workflow"],
)
def test_however_it_stands(boss: Client, columns: dict[str, Any]) -> None:
    schedule = make_schedule(**columns)
    assert remove_url(schedule) in page_of(boss, schedule).content.decode()
    assert "was removed" in text_of(press(boss, "remove", schedule))
    assert not Schedule.objects.exists()


def test_a_second_answer_finds_it_gone(boss: Client) -> None:
    schedule = make_schedule()
    boss.post(remove_url(schedule), YES)
    for data in ({}, YES):
        again = boss.post(remove_url(schedule), data, follow=True)
        assert again.redirect_chain == [(reverse(LIST), 302)] and "It is gone." in text_of(again)
    assert Audit.objects.count() == LogEntry.objects.count() == 1
    assert "somebody has removed it" in text_of(boss.get(reverse(PAGE, args=[schedule.pk]), follow=True))


def test_what_the_code_declares_has_no_such_button_and_says_why(boss: Client) -> None:
    schedule = make_schedule(app_label="app")
    page = page_of(boss, schedule)
    assert remove_url(schedule) not in page.content.decode()
    assert "removed here, it would come back with the next worker" in text_of(page)
    for data in ({}, YES):
        assert boss.post(remove_url(schedule), data).status_code == 403
    assert Schedule.objects.exists() and not Audit.objects.exists() and not LogEntry.objects.exists()


@pytest.mark.parametrize("have", [("view_schedule",), ("view_schedule", "fire_schedule", "add_schedule"), ()])
def test_who_may_not_change_schedules_removes_none(person: Person, have: tuple[str, ...]) -> None:
    schedule, client = make_schedule(), person(*have)
    assert remove_url(schedule) not in page_of(client, schedule).content.decode()
    # Also of one that is not there nobody learns that.
    for url in (remove_url(schedule), remove_url(Schedule(pk=schedule.pk + 1))):
        assert client.post(url, YES).status_code == 403
    assert Schedule.objects.exists()


def meanwhile(monkeypatch: pytest.MonkeyPatch, verb: str, happens: Callable[[Schedule], object]) -> None:
    """Right before this is done to a schedule that was found, something happens to it."""
    done = getattr(schedule_verbs, verb)

    def doing(schedule: Schedule, *args: Any, **more: Any) -> Any:
        happens(schedule)
        return done(schedule, *args, **more)

    monkeypatch.setattr(schedule_verbs, verb, doing)


def gone(schedule: Schedule) -> None:
    schedules.remove(schedule, actor="bob")


def test_one_that_somebody_else_removes_at_that_moment_is_gone(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = make_schedule()
    meanwhile(monkeypatch, "remove", gone)
    answer = boss.post(remove_url(schedule), YES, follow=True)
    assert answer.redirect_chain == [(reverse(LIST), 302)] and "It is gone." in text_of(answer)
    assert Audit.objects.get().actor == "bob" and not LogEntry.objects.exists()


def held(schedule: Schedule) -> None:
    raise ScheduleLocked([str(schedule)], 2.0)


def test_one_that_is_held_stays_and_the_form_says_so(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = make_schedule()
    meanwhile(monkeypatch, "remove", held)
    answer = boss.post(remove_url(schedule), YES)
    assert answer.status_code == 200 and "app.doubling: daily" in text_of(answer)
    assert answer.context["form"].non_field_errors()
    assert Schedule.objects.exists() and not LogEntry.objects.exists()


WINDOW = {"since": "2024-01-01T00:00", "until": "2024-01-01T23:00", "limit": "5"}


@pytest.mark.parametrize(("verb", "data"), [("fire", {}), ("backfill", WINDOW)])
def test_what_is_asked_of_one_at_that_moment_is_refused_in_words(
    boss: Client, monkeypatch: pytest.MonkeyPatch, verb: str, data: dict[str, str]
) -> None:
    schedule = make_schedule(input='{"number": 4}')
    meanwhile(monkeypatch, verb, gone)
    answer = press(boss, verb, schedule, **data)
    assert answer.status_code == 200 and "It is gone." in text_of(answer)
    assert not Run.objects.exists()


@pytest.mark.parametrize("what", CORPUS)
def test_its_names_are_escaped(boss: Client, what: str) -> None:
    text = CORPUS[what][:200]
    schedule = make_schedule(workflow=text, name=text)
    for answer in (
        boss.post(remove_url(schedule)),
        boss.post(remove_url(schedule), {**YES, "reason": "x"}, follow=True),
    ):
        assert answer.status_code == 200 and judge(answer) == []
    assert not Schedule.objects.exists()
