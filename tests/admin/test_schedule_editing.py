"""Schedules of the operators': made and changed in the admin. What the code declares stays as the code says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_durable import Cron, durable_workflow
from django_durable.core import registry
from django_durable.core.schedules.cron import next_fire
from django_durable.models import Audit, Schedule
from tests.admin.conftest import Person
from tests.admin.pages import judge, text_of
from tests.admin.test_hostile import CORPUS
from tests.admin.world import make_schedule

LIST = "admin:django_durable_schedule_changelist"
ADD, PREVIEW = "admin:django_durable_schedule_add", "admin:django_durable_schedule_preview"
GIVEN = {
    "workflow": "app.doubling", "name": "at dawn", "expression": "30 7 * * 1-5", "timezone": "Europe/Berlin",
    "overlap": "skip", "catch_up": "none", "jitter": "5", "input": '{"number": 4}', "enabled": "on",
    "reason": "asked for by the board",
}  # fmt: skip


@pytest.fixture
def _nightly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workflow with schedules in code, for the test alone: others count what fires."""
    registry.definitions()
    monkeypatch.setattr(registry, "_named", dict(registry._named))

    @durable_workflow(name="edited.nightly", cron=["0 3 * * *", Cron("0 12 * * *", name="at noon"), "0 4 * * *"])
    def nightly(ctx: Any) -> None: ...

    registry.definitions()  # named while the names are the test's


def add(client: Client, **other: str) -> Any:
    return client.post(reverse(ADD), {**GIVEN, **other}, follow=True)


def edit_url(schedule: Schedule) -> str:
    return reverse("admin:django_durable_schedule_edit", args=[schedule.pk])


def form_of(client: Client, schedule: Schedule) -> dict[str, Any]:
    """The fields of the form as a browser has them."""
    page = client.post(edit_url(schedule))
    form = page.context["form"]
    assert all(f'name="{name}"' in page.content.decode() for name in form.fields)
    return {name: form[name].value() for name in form.fields if form[name].value() is not None}


def edit(client: Client, schedule: Schedule, **other: str) -> Any:
    """Asks for the form, and sends it as it came, but for ``other``."""
    given = form_of(client, schedule)
    return client.post(edit_url(schedule), {"confirmed": "1", **given, **other}, follow=True)


def mine(**more: Any) -> Schedule:
    return make_schedule(name="mine", input='{"number":4}', next_fire_at=datetime(2040, 1, 1, 6, tzinfo=UTC), **more)


def test_one_is_made(boss: Client) -> None:
    assert reverse(ADD) in boss.get(reverse(LIST)).content.decode()
    page = add(boss)
    made = Schedule.objects.get()
    assert page.redirect_chain == [(reverse("admin:django_durable_schedule_change", args=[made.pk]), 302)]
    text = text_of(page)
    assert "The schedule was created." in text and "at 07:30 on weekdays" in text and "the operators" in text
    assert (made.app_label, made.overlap, made.catch_up, made.jitter, made.enabled) == ("", "skip", "none", 5, True)
    assert json.loads(made.input or "") == {"number": 4}
    assert made.next_fire_at == next_fire("30 7 * * 1-5", "Europe/Berlin", timezone.now()) and made.problem == ""
    entry = Audit.objects.get()
    assert (entry.verb, entry.actor, entry.status_before) == ("create", "ann", "disabled")
    assert entry.reason == "expression 30 7 * * 1-5, timezone Europe/Berlin: asked for by the board"
    assert LogEntry.objects.get().change_message == "Create: asked for by the board"


def test_one_that_is_off_is_not_planned(boss: Client) -> None:
    given = {name: value for name, value in GIVEN.items() if name != "enabled"}
    boss.post(reverse(ADD), given)
    assert (Schedule.objects.get().enabled, Schedule.objects.get().next_fire_at) == (False, None)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"expression": "61 * * * *"}, "cannot be understood"),
        ({"expression": "0 0 30 2 *"}, "can never fire"),
        ({"expression": ""}, "This field is required."),
        ({"timezone": "Europe/Berlim"}, "There is no such time zone."),
        ({"timezone": "../../etc/passwd"}, "There is no such time zone."),
        ({"workflow": "app.gone"}, "Select a valid choice."),
        ({"name": "a\x01b"}, "has control characters"),
        ({"jitter": "-1"}, "greater than or equal to 0"),
        ({"jitter": "nan"}, "Enter a number."),
        ({"overlap": "x"}, "Select a valid choice."),
        ({"input": "{"}, "This is not JSON"),
        ({"input": "[4]"}, "Keyword arguments are a JSON object."),
        ({"input": '{"letter": 4}'}, "letter"),
        ({"input": ""}, "number"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_stored(boss: Client, wrong: dict[str, str], complaint: str) -> None:
    page = add(boss, **wrong)
    assert page.status_code == 200 and complaint in text_of(page)
    assert not Schedule.objects.exists() and not Audit.objects.exists() and not LogEntry.objects.exists()


def test_a_name_is_used_once(boss: Client) -> None:
    other = mine()
    assert "another schedule of that name" in text_of(add(boss, name="mine"))
    second = make_schedule(name="second")
    assert "another schedule of that name" in text_of(edit(boss, second, name="mine"))
    assert set(Schedule.objects.values_list("pk", "name")) == {(other.pk, "mine"), (second.pk, "second")}
    assert not Audit.objects.exists() and not LogEntry.objects.exists()


def test_one_is_changed_and_planned_anew(boss: Client) -> None:
    schedule = mine()
    page = edit(boss, schedule, expression="*/15 * * * *", reason="more often")
    assert "The schedule was changed." in text_of(page) and "every 15 minutes" in text_of(page)
    row = Schedule.objects.get()
    assert row.next_fire_at is not None and row.next_fire_at < timezone.now() + timedelta(minutes=16)
    assert row.input == '{"number":4}', "not given anew"
    entry = Audit.objects.get()
    assert (entry.verb, entry.actor) == ("change", "ann")
    assert entry.reason == "expression */15 * * * *: more often"
    assert LogEntry.objects.get().change_message == "Change: more often"


def test_other_changes_leave_its_plan(boss: Client) -> None:
    schedule = mine()
    edit(boss, schedule, overlap="queue", input='{"number": 5}', name="mine now")
    row = Schedule.objects.get()
    assert (row.overlap, row.next_fire_at, row.name) == ("queue", schedule.next_fire_at, "mine now")
    assert json.loads(row.input or "") == {"number": 5}
    entry = Audit.objects.get()
    assert entry.schedule == "mine now" and "overlap queue" in entry.reason and "5" not in entry.reason


def test_what_was_asked_of_it_goes_along_with_its_new_name(boss: Client) -> None:
    schedule = mine()
    boss.post(reverse("admin:django_durable_schedule_disable", args=[schedule.pk]), {"confirmed": "1", "reason": "x"})
    page = edit(boss, schedule, name="other")
    assert [entry.verb for entry in page.context["audit"].rows] == ["change", "disable"]


def test_a_form_that_changes_nothing_writes_nothing(boss: Client) -> None:
    edit(boss, mine())
    assert not Audit.objects.exists()


def test_a_problem_is_gone_when_it_is_mended(boss: Client) -> None:
    edit(boss, make_schedule(expression="x", problem="cannot be understood", name="mine"), expression="0 6 * * *")
    row = Schedule.objects.get()
    assert row.problem == "" and row.next_fire_at is not None


CHANGE = ("view_schedule", "change_schedule")


def test_another_input_needs_the_permission_to_make_schedules(person: Person) -> None:
    """Who chooses the input of runs has them started: that is more than to turn a schedule off."""
    schedule = mine()
    client = person(*CHANGE)
    assert "input" not in client.post(edit_url(schedule)).context["form"].fields
    edit(client, schedule, expression="0 7 * * *", input='{"number": 5}')
    row = Schedule.objects.get()
    assert (row.expression, row.input) == ("0 7 * * *", '{"number":4}')
    edit(person(*CHANGE, "add_schedule", name="bob"), schedule, input='{"number": 5}')
    assert json.loads(Schedule.objects.get().input or "") == {"number": 5}


@pytest.mark.parametrize(
    ("meanwhile", "told"),
    [
        ({"expression": "0 9 * * *"}, "Expression: 0 9 * * *."),
        ({"input": '{"number":9}'}, ""),
        ({"jitter": 3.0}, "Jitter: 3.0"),
        ({"name": "theirs", "overlap": "queue"}, f"Overlap: {dict(Schedule.OVERLAP_CHOICES)['queue']}"),
    ],
)
def test_what_another_person_has_changed_meanwhile_is_not_overwritten_unseen(
    boss: Client, meanwhile: dict[str, Any], told: str
) -> None:
    schedule = mine()
    opened = form_of(boss, schedule)
    Schedule.objects.update(**meanwhile)
    given = {"confirmed": "1", **opened, "expression": "0 7 * * *"}
    # To look what it comes to makes nobody know better.
    given["seen"] = boss.post(edit_url(schedule), {**given, "look": "1"}).context["form"]["seen"].value()
    refused = boss.post(edit_url(schedule), given)
    assert refused.status_code == 200 and "Somebody has changed this schedule" in text_of(refused)
    assert told in text_of(refused) and "number" not in text_of(refused)
    row = Schedule.objects.get()
    assert {name: getattr(row, name) for name in meanwhile} == meanwhile and not Audit.objects.exists()
    form = refused.context["form"]
    again = {name: form[name].value() or "" for name in form.fields}
    assert again["expression"] == "0 7 * * *"
    saved = boss.post(edit_url(schedule), {"confirmed": "1", **again}, follow=True)
    assert "The schedule was changed." in text_of(saved)
    assert Schedule.objects.get().expression == "0 7 * * *"


def test_a_switch_that_was_turned_meanwhile_is_no_change(boss: Client) -> None:
    schedule = mine()
    opened = form_of(boss, schedule)
    Schedule.objects.update(enabled=False, next_fire_at=None)
    boss.post(edit_url(schedule), {"confirmed": "1", **opened, "expression": "0 7 * * *"})
    assert Schedule.objects.get().expression == "0 7 * * *"


@pytest.mark.usefixtures("_nightly")
def test_the_name_of_one_in_the_code_is_refused_and_told(boss: Client) -> None:
    declared = {"workflow": "edited.nightly", "input": ""}
    for name in ("edited.nightly", "edited.nightly 2", "at noon"):
        assert "declares a schedule of that name" in text_of(add(boss, **declared, name=name))
    assert not Schedule.objects.exists()
    made = add(boss, **declared, name="mine")
    assert "declares a schedule" not in text_of(made)
    row = Schedule.objects.get()
    assert "declares a schedule of that name" in text_of(edit(boss, row, name="at noon"))
    # It was there before the code said so.
    Schedule.objects.update(name="at noon")
    page = boss.get(reverse("admin:django_durable_schedule_change", args=[row.pk]))
    assert "The code declares a schedule of this name too" in text_of(page)
    assert "The schedule was changed." in text_of(edit(boss, row, expression="0 7 * * *"))
    Schedule.objects.update(app_label="tests")
    assert "of this name too" not in text_of(boss.get(page.request["PATH_INFO"]))


def test_its_input_is_not_shown(boss: Client) -> None:
    schedule = make_schedule(input='{"number": "canary"}')
    for answer in (boss.post(edit_url(schedule)), boss.post(edit_url(schedule), {"confirmed": "1", "name": ""})):
        assert answer.status_code == 200 and "canary" not in answer.content.decode()


def test_what_the_code_declares_is_not_changed_here(boss: Client) -> None:
    schedule = mine(app_label="app")
    page = boss.get(reverse("admin:django_durable_schedule_change", args=[schedule.pk]))
    assert "changed there" in text_of(page) and edit_url(schedule) not in page.content.decode()
    for data in ({}, {"confirmed": "1", **GIVEN}):
        assert boss.post(edit_url(schedule), data).status_code == 403
    assert Schedule.objects.get().expression == "0 6 * * *"


def test_who_may_only_add_has_nowhere_to_come_back_to(person: Person) -> None:
    client = person("add_schedule")
    assert client.get(reverse(ADD)).status_code == client.post(reverse(ADD), GIVEN).status_code == 403


# --- the preview -----------------------------------------------------------------------------


def preview(client: Client, expression: str, zone: str = "UTC") -> Any:
    return client.get(reverse(PREVIEW), {"expression": expression, "timezone": zone})


def test_the_preview_tells_words_and_instants(boss: Client) -> None:
    answer = preview(boss, "30 7 * * 1-5", "Europe/Berlin")
    text = text_of(answer)
    assert "It fires at 07:30 on weekdays , Europe/Berlin" in text
    now = timezone.now()
    for _number in range(5):
        now = next_fire("30 7 * * 1-5", "Europe/Berlin", now)
        assert f"{now:%Y-%m-%d %H:%M:%S}" in text
    assert text.count("07:30:00 CE") == 5
    assert preview(boss, "30 7 * * 1-5", "Europe/Berlin").headers["ETag"] == answer.headers["ETag"]


@pytest.mark.parametrize(
    ("expression", "zone", "said"),
    [
        ("*/7 * * * *", "UTC", "as the expression says"),
        ("61 * * * *", "UTC", "It cannot fire: cannot be understood"),
        ("0 0 30 2 *", "UTC", "can never fire"),
        ("0 6 * * *", "Mars/Olympus", "unknown time zone"),
        ("0 6 * * *", "", "It fires at 06:00 every day"),
        ("x" * 10_000, "UTC", "at most 200"),
        (" ", "UTC", "Write an expression"),
    ],
)
def test_the_preview_of_what_is_not_finished(boss: Client, expression: str, zone: str, said: str) -> None:
    answer = preview(boss, expression, zone)
    assert answer.status_code == 200 and said in text_of(answer)


@pytest.mark.parametrize("what", CORPUS)
def test_whatever_is_typed_is_escaped(boss: Client, what: str) -> None:
    text = CORPUS[what]
    typed = dict.fromkeys(GIVEN, text)
    schedule = mine()
    for answer in (
        preview(boss, text, text), preview(boss, "0 6 * * *", text), add(boss, **typed),
        add(boss, **typed, look="1"), edit(boss, schedule, **typed), add(boss, name=text[:200], reason=text[:900]),
    ):  # fmt: skip
        assert answer.status_code == 200 and judge(answer) == []


def test_without_a_script_a_button_shows_it(boss: Client) -> None:
    page = add(boss, look="Show when it fires")
    assert page.status_code == 200 and "at 07:30 on weekdays" in text_of(page)
    schedule = mine()
    assert "every hour" in text_of(edit(boss, schedule, expression="0 * * * *", look="1"))
    assert Schedule.objects.get().expression == "0 6 * * *" and not Audit.objects.exists()


def test_a_form_costs_a_bounded_number_of_queries(person: Person) -> None:
    client = person("view_schedule", "change_schedule", "add_schedule")
    schedule = mine()
    client.get(reverse(LIST))
    for ask in (
        lambda: client.post(edit_url(schedule), {"confirmed": "1"}),
        lambda: client.get(reverse(ADD)),
        lambda: preview(client, "* * * * *"),
    ):
        with CaptureQueriesContext(connection) as queries:
            assert ask().status_code == 200
        assert len(queries) <= 6
