"""Who may do what: every person by every address by every way to ask."""

from __future__ import annotations

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from django_durable.models import Audit, Event, Run, Schedule
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import list_url, run_url, verb_url
from tests.admin.world import make_entry, make_run, make_schedule, make_worker

PEOPLE = {
    "anonymous": None,
    "nobody": (),
    "view": LOOK,
    "cancel": (*LOOK, "cancel_run"),
    "pause": (*LOOK, "pause_run"),
    "resume": (*LOOK, "resume_run"),
    "rerun": (*LOOK, "rerun_run"),
    "event": (*LOOK, "send_event"),
    "payload": (*LOOK, "view_payload"),
    "schedule": (*LOOK, "change_schedule"),
    "fire": (*LOOK, "fire_schedule"),
    "blind": (
        "cancel_run",
        "pause_run",
        "resume_run",
        "rerun_run",
        "send_event",
        "change_schedule",
        "view_payload",
    ),
    "igniter": ("fire_schedule",),
    "writer": tuple(f"{what}_{model}" for what in ("add", "change", "delete") for model in ("run", "worker")),
    "boss": ("all",),
}
VERBS = {"cancel": "waiting", "pause": "waiting", "resume": "failed", "event": "waiting"}


@pytest.fixture(params=list(PEOPLE))
def who(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(who: str, person: Person) -> Client:
    permissions = PEOPLE[who]
    if permissions is None:
        return Client()
    return person(*permissions, boss=who == "boss")


def sees(who: str, model: str = "run") -> bool:
    """Who may change rows of a model may look at them: so it is in Django's admin."""
    may_change = {"run": "writer", "worker": "writer", "schedule": "blind"}[model]
    return who == may_change or who not in ("anonymous", "nobody", "blind", "writer", "igniter")


def expected(who: str, allowed: bool, answer: int = 200) -> int:
    if who == "anonymous":
        return 302
    return answer if allowed else 403


@pytest.mark.parametrize("model", ["run", "schedule", "worker"])
def test_lists_and_pages_are_for_those_who_may_look(who: str, client: Client, model: str) -> None:
    made = {"run": make_run, "schedule": make_schedule, "worker": make_worker}[model]()
    for name, args in (("changelist", []), ("change", [made.pk]), ("history", [made.pk])):
        response = client.get(reverse(f"admin:django_durable_{model}_{name}", args=args))
        assert response.status_code == expected(who, sees(who, model)), name


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("model", ["run", "schedule", "worker"])
def test_nobody_adds_changes_or_deletes(who: str, client: Client, model: str, method: str) -> None:
    made = {"run": make_run, "schedule": make_schedule, "worker": make_worker}[model]()
    before = {**type(made).objects.values().get()}
    for name, args in (("add", []), ("delete", [made.pk])):
        url = reverse(f"admin:django_durable_{model}_{name}", args=args)
        response = getattr(client, method)(url, {"post": "yes", "workflow": "other"})
        assert response.status_code == expected(who, False), name
    response = client.post(reverse(f"admin:django_durable_{model}_change", args=[made.pk]), {"workflow": "other"})
    assert response.status_code in (302, 403, 405)
    assert type(made).objects.values().get() == before


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_is_reached_by_get(who: str, client: Client, verb: str) -> None:
    run = make_run(VERBS[verb])
    for method in (client.get, client.head, client.put, client.delete):
        assert method(verb_url(run, verb)).status_code == (302 if who == "anonymous" else 405)
    assert not Audit.objects.exists()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_needs_its_permission_and_the_one_to_look(who: str, client: Client, verb: str) -> None:
    run = make_run(VERBS[verb])
    allowed = who in (verb, "boss")
    assert client.post(verb_url(run, verb)).status_code == expected(who, allowed)
    assert not Audit.objects.exists()  # the first request only asks
    data = {"confirmed": "1", "reason": "why not", "name": "packed", "payload": "", "key": str(run.pk)}
    assert client.post(verb_url(run, verb), data).status_code == expected(who, allowed, 302)
    assert Audit.objects.count() == LogEntry.objects.count() == int(allowed)
    assert Event.objects.count() == int(allowed and verb == "event")
    if not allowed:
        assert Run.objects.get().status == VERBS[verb]


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
def test_an_action_needs_its_permission(who: str, client: Client, verb: str) -> None:
    run = make_run(VERBS[verb])
    data = {"action": f"{verb}_selected", ACTION_CHECKBOX_NAME: str(run.pk), "confirmed": "1", "ids": run.pk.hex}
    response = client.post(list_url(), data)
    # To those without it the action does not exist: Django answers with the list.
    assert response.status_code in ((200, 302) if sees(who) else (expected(who, False),))
    assert Audit.objects.count() == LogEntry.objects.count() == int(who in (verb, "boss"))
    assert (Run.objects.get().status == VERBS[verb]) == (who not in (verb, "boss"))


@pytest.mark.parametrize("action", ["enable", "disable"])
def test_switching_schedules_needs_its_permission(who: str, client: Client, action: str) -> None:
    schedule = make_schedule(enabled=action == "disable")
    data = {"action": f"{action}_selected", ACTION_CHECKBOX_NAME: str(schedule.pk), "confirmed": "1"}
    response = client.post(reverse("admin:django_durable_schedule_changelist"), data)
    assert response.status_code in ((200, 302) if sees(who, "schedule") else (expected(who, False),))
    allowed = who in ("schedule", "blind", "boss")
    assert Schedule.objects.get().enabled == ((action == "enable") == allowed)
    assert LogEntry.objects.count() == Audit.objects.count() == int(allowed)


@pytest.mark.parametrize("verb", ["enable", "disable", "fire", "backfill"])
def test_a_schedules_button_needs_its_permission_and_the_one_to_look(who: str, client: Client, verb: str) -> None:
    schedule = make_schedule(enabled=verb != "enable", input='{"number": 4}')
    url = reverse(f"admin:django_durable_schedule_{verb}", args=[schedule.pk])
    allowed = who in (("fire",) if verb in ("fire", "backfill") else ("schedule", "blind")) or who == "boss"
    for method in (client.get, client.head, client.put, client.delete):
        assert method(url).status_code == (302 if who == "anonymous" else 405)
    assert client.post(url).status_code == expected(who, allowed)
    assert not Audit.objects.exists()  # the first request only asks
    data = {"confirmed": "1", "since": "2024-01-01T00:00", "until": "2024-01-01T23:00", "limit": "5"}
    assert client.post(url, data).status_code == expected(who, allowed, 302)
    assert (LogEntry.objects.count(), Audit.objects.filter(run=None).count()) == (int(allowed), int(allowed))
    assert Run.objects.count() == int(allowed and verb in ("fire", "backfill"))
    if sees(who, "schedule"):
        page = client.get(reverse("admin:django_durable_schedule_change", args=[schedule.pk])).content.decode()
        offered = verb in ("fire", "backfill") or (verb == "enable") == (not Schedule.objects.get().enabled)
        assert (url in page) == (allowed and offered)


def test_buttons_and_actions_are_offered_to_those_who_may(who: str, client: Client) -> None:
    if not sees(who):
        return
    run = make_run("waiting")
    page, runs = client.get(run_url(run)).content.decode(), client.get(list_url()).content.decode()
    offered = {"cancel": "cancel", "pause": "pause", "event": "event", "rerun": "rerun", "fork": "rerun"}
    for verb, permission in offered.items():
        assert (verb_url(run, verb) in page) == (who in (permission, "boss"))
    for verb in ("cancel", "pause", "resume", "rerun"):
        assert (f"{verb}_selected" in runs) == (who in (verb, "boss"))
    assert "delete_selected" not in runs


def test_payloads_are_for_those_who_may_view_them(who: str, client: Client) -> None:
    if not sees(who):
        return
    run = make_run("waiting")
    make_entry(run, "secretive", value='"canary-value"')
    run.payloads.create(kind="input", data='["canary-input"]')
    run.payloads.create(kind="output", data='"canary-output"')
    run.events.create(name="packed", payload='"canary-event"')
    page = client.get(run_url(run)).content.decode()
    for canary in ("canary-value", "canary-input", "canary-output", "canary-event"):
        assert (canary in page) == (who in ("payload", "boss"))


def test_every_post_is_checked_for_its_origin(person: Person) -> None:
    run = make_run("waiting")
    careful = Client(enforce_csrf_checks=True)
    careful.cookies = person(boss=True).cookies
    fire = reverse("admin:django_durable_schedule_fire", args=[make_schedule().pk])
    for url in (verb_url(run, "cancel"), verb_url(run, "resume"), verb_url(run, "event"), list_url(), fire):
        assert careful.post(url, {"confirmed": "1"}).status_code == 403
    assert not Audit.objects.exists()
