"""Who may do what: every person by every address of ours by every way to ask. An address, an action or a permission
that the tables here do not name fails a test of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.test import Client, RequestFactory

from django_durable.models import Audit, Event, Run, Schedule
from tests.admin.conftest import LOOK, Person
from tests.admin.every import Rows, addresses, answer, make_rows, question
from tests.admin.pages import list_url, run_url
from tests.admin.world import make_entry, make_run

# --- the tables --------------------------------------------------------------------------------

RARER = ("head", "put", "patch", "delete", "options")
METHODS = ("get", "post", *RARER)
AnyOf = frozenset[str]


@dataclass(frozen=True)
class Rule:
    """Let in is who has one permission of each of ``needs``. An answer to what the address asks changes something where
    ``does`` is true."""

    needs: tuple[AnyOf, ...]
    methods: tuple[str, ...] = METHODS
    does: bool = False
    well: int = 200
    refused: int = 403

    def lets_in(self, have: AnyOf) -> bool:
        return all(need & have for need in self.needs)


def one(*names: str) -> AnyOf:
    return frozenset(names)


def reads(*needs: AnyOf) -> Rule:
    return Rule(needs, ("get", "head"))


def steers(*needs: AnyOf) -> Rule:
    return Rule(needs, ("post",), does=True)


def fills(*needs: AnyOf) -> Rule:
    return Rule(needs, ("get", "head", "post"), does=True)


def of_django(*needs: AnyOf, **more: int) -> Rule:
    """Its own views answer every method alike."""
    return Rule(needs, **more)  # type: ignore[arg-type]


# Who may change rows of a model may look at them: so it is in Django's admin.
RUN, SCHEDULE, WORKER = (one(f"view_{model}", f"change_{model}") for model in ("run", "schedule", "worker"))
NOBODY = one()
EVERYBODY_OF_THE_STAFF = Rule((), well=302)

MATRIX = {
    "app_list": of_django(RUN | SCHEDULE | WORKER, refused=404),
    "overview": reads(RUN),
    "overview_fragment": reads(RUN),
    "overview_charts": reads(RUN),
    "workflows": reads(RUN),
    "workflows_hold": steers(RUN, one("hold_queue")),
    "workflows_release": steers(RUN, one("hold_queue")),
    "workflows_start": fills(RUN, one("start_run")),
    "workflowentry_changelist": EVERYBODY_OF_THE_STAFF,
    "run_changelist": of_django(RUN),
    "run_change": reads(RUN),
    "run_live": reads(RUN),
    "run_value": reads(RUN, one("view_payload")),
    "run_history": of_django(RUN),
    "run_cancel": steers(RUN, one("cancel_run")),
    "run_pause": steers(RUN, one("pause_run")),
    "run_resume": steers(RUN, one("resume_run")),
    "run_rerun": steers(RUN, one("rerun_run")),
    "run_fork": steers(RUN, one("rerun_run")),
    "run_event": steers(RUN, one("send_event")),
    "run_add": of_django(NOBODY),
    "run_delete": of_django(NOBODY),
    "run_old": EVERYBODY_OF_THE_STAFF,
    "schedule_changelist": of_django(SCHEDULE),
    "schedule_change": reads(SCHEDULE),
    "schedule_history": of_django(SCHEDULE),
    "schedule_preview": reads(SCHEDULE, one("add_schedule", "change_schedule")),
    "schedule_add": Rule((SCHEDULE, one("add_schedule")), does=True),
    "schedule_edit": steers(one("change_schedule")),
    "schedule_remove": steers(one("change_schedule")),
    "schedule_enable": steers(one("change_schedule")),
    "schedule_disable": steers(one("change_schedule")),
    "schedule_fire": steers(SCHEDULE, one("fire_schedule")),
    "schedule_backfill": steers(SCHEDULE, one("fire_schedule")),
    "schedule_delete": of_django(NOBODY),
    "schedule_old": EVERYBODY_OF_THE_STAFF,
    "worker_changelist": of_django(WORKER),
    "worker_change": reads(WORKER),
    "worker_history": of_django(WORKER),
    "worker_add": of_django(NOBODY),
    "worker_delete": of_django(NOBODY),
    "worker_old": EVERYBODY_OF_THE_STAFF,
}
ACTIONS = {
    ("run", "cancel_selected"): one("cancel_run"),
    ("run", "pause_selected"): one("pause_run"),
    ("run", "resume_selected"): one("resume_run"),
    ("run", "rerun_selected"): one("rerun_run"),
    ("run", "export_selected"): RUN,
    ("schedule", "enable_selected"): one("change_schedule"),
    ("schedule", "disable_selected"): one("change_schedule"),
}
ASKED_FOR = frozenset(chain.from_iterable(chain(*(rule.needs for rule in MATRIX.values()), ACTIONS.values())))

ALONE = {f"{name} alone": one(name) for name in sorted(ASKED_FOR)}
WITH_LOOKS = {f"{name} and to look": one(name, *LOOK) for name in sorted(ASKED_FOR - {*LOOK})}
STAFF = {"nobody": one(), "to look": one(*LOOK), **ALONE, **WITH_LOOKS, "the others": one(*LOOK), "boss": ASKED_FOR}
"""What each has of what is asked for. The others have everything besides."""
THOROUGHLY = ("nobody", "to look", "boss")
"""Who comes by all of the rarer methods: those with least and with most. The others come by one each, in turn: all of
them by all would be three times as many requests."""
OUTSIDE = ("anonymous", "customer")
"""The customer has every permission, and is no member of the staff."""


def test_the_tables_name_every_address() -> None:
    assert set(MATRIX) == set(addresses())


def test_the_tables_name_every_action() -> None:
    request = RequestFactory().get("/")
    request.user = User(is_superuser=True, is_active=True)
    named = {
        (str(model._meta.model_name), action)
        for model, model_admin in admin.site._registry.items()
        if model._meta.app_label == "django_durable"
        for action in model_admin.get_actions(request)
    }
    assert set(ACTIONS) == named


def test_the_tables_name_every_permission_of_ours() -> None:
    models = apps.get_app_config("django_durable").get_models()
    assert {codename for model in models for codename, _ in model._meta.permissions} <= ASKED_FOR


# --- the people --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _on(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    # To refuse a thousand requests takes as long again where each is written down with its traceback.
    caplog.set_level("ERROR", "django.request")


def come(who: str, person: Person) -> Client:
    if who == "anonymous":
        return Client()
    ours = set(Permission.objects.filter(content_type__app_label="django_durable").values_list("codename", flat=True))
    others = {*LOOK, *(ours - ASKED_FOR)}
    client = person(*{"customer": ours, "the others": others}.get(who, STAFF.get(who, ())), boss=who == "boss")
    User.objects.update(is_staff=who != "customer")
    return client


def state() -> dict[str, list[Any]]:
    """All that is stored of ours, and Django's history."""
    models = [*apps.get_app_config("django_durable").get_models(), LogEntry]
    return {model.__name__: list(model._default_manager.order_by("pk").values_list()) for model in models}


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def told() -> tuple[int, int]:
    return LogEntry.objects.count(), Audit.objects.count()


# --- the walk ----------------------------------------------------------------------------------


@pytest.mark.parametrize("who", STAFF)
def test_every_address(who: str, person: Person) -> None:
    client, have, rows = come(who, person), STAFF[who], make_rows()
    before, wrong = state(), {}
    in_turn = RARER[list(STAFF).index(who) % len(RARER)]
    for name, rule in MATRIX.items():
        is_in, url = rule.lets_in(have), rows.url(name)
        for method in METHODS if who in THOROUGHLY else ("get", "post", in_turn):
            data = question(name) if method == "post" else None
            status = getattr(client, method)(url, data).status_code
            if status != (405 if method not in rule.methods else rule.well if is_in else rule.refused):
                wrong[name, method] = status
    assert wrong == {}
    assert state() == before, "something was done that was only asked for, or by who may not"


@pytest.mark.parametrize("who", STAFF)
def test_every_answer(who: str, person: Person) -> None:
    client, have, rows = come(who, person), STAFF[who], make_rows()
    before, wrong = state(), {}
    for name in (name for name, rule in MATRIX.items() if "post" in rule.methods and rule.needs):
        rule, url, sent = MATRIX[name], rows.url(name), answer(name)
        if not (rule.does and rule.lets_in(have)):
            status = client.post(url, {**sent, "post": "yes", "workflow": "other"}).status_code
            if status != (rule.well if rule.lets_in(have) else rule.refused):
                wrong[name] = f"{status}"
            continue
        with undone():
            entries, audits = told()
            status = client.post(url, sent).status_code
            entries, audits = told()[0] - entries, told()[1] - audits
            said = LogEntry.objects.order_by("-pk").values_list("change_message", flat=True).first() or ""
        if status != 302 or entries != 1 or not audits or "why" not in said:
            wrong[name] = f"{status}, {entries} entries in the history, {audits} in the audit"
    assert wrong == {}
    assert state() == before


@pytest.mark.parametrize("who", STAFF)
def test_every_action(who: str, person: Person) -> None:
    client, have, rows = come(who, person), STAFF[who], make_rows()
    wrong = {}
    for (model, action), need in ACTIONS.items():
        url, may_look = rows.url(f"{model}_changelist"), MATRIX[f"{model}_changelist"].lets_in(have)
        row = {"cancel": rows.live, "pause": rows.live, "enable": rows.idle, "disable": rows.schedule}.get(
            action.partition("_")[0], rows.run
        )
        sent = {"action": action, ACTION_CHECKBOX_NAME: str(row.pk), "reason": "why"}
        ways = [{}, {"confirmed": "1"}]
        if model == "run":
            across = {"select_across": "1", ACTION_CHECKBOX_NAME: "all"}
            ways = [
                {},
                {"confirmed": "1", "ids": row.pk.hex},
                across,
                {**across, "confirmed": "1", "upto": str(rows.live.pk)},
            ]
        for way in ways:
            with undone():
                before = set(LogEntry.objects.values_list("pk", flat=True))
                response = client.post(url, {**sent, **way})
                if response.streaming:
                    b"".join(response.streaming_content)  # type: ignore[arg-type]
                done = list(LogEntry.objects.exclude(pk__in=before).values_list("change_message", flat=True))
            # To those without it the action does not exist: Django answers with the list.
            well = (200, 302) if may_look else (403,)
            is_meant = may_look and bool(need & have) and "confirmed" in way
            if response.status_code not in well or bool(done) != is_meant or not all("why" in said for said in done):
                wrong[action, str(way)] = f"{response.status_code}, in the history {done}"
        if may_look and (f'value="{action}"' in client.get(url).content.decode()) != bool(need & have):
            wrong[action, "offered"] = "or not offered"
    assert wrong == {}


@pytest.mark.parametrize("who", OUTSIDE)
def test_who_is_not_of_the_staff_is_led_to_the_login(who: str, person: Person) -> None:
    rows, client = make_rows(), come(who, person)
    before, wrong = state(), {}
    for name in MATRIX:
        for method in METHODS:
            response = getattr(client, method)(rows.url(name), answer(name) if method == "post" else None)
            if response.status_code != 302 or not response["Location"].startswith("/admin/login/"):
                wrong[name, method] = response.status_code
    assert wrong == {}
    assert state() == before


def test_every_post_is_checked_for_its_origin(person: Person) -> None:
    careful = Client(enforce_csrf_checks=True)
    careful.cookies = person(boss=True).cookies
    rows = make_rows()
    before = state()
    posts = [(name, rows.url(name), answer(name)) for name, rule in MATRIX.items() if "post" in rule.methods]
    for (model, action), _ in ACTIONS.items():
        row = rows.run if model == "run" else rows.schedule
        sent = {"action": action, ACTION_CHECKBOX_NAME: str(row.pk), "confirmed": "1", "ids": str(row.pk)}
        posts.append((action, rows.url(f"{model}_changelist"), sent))
    assert {name: status for name, url, sent in posts if (status := careful.post(url, sent).status_code) != 403} == {}
    assert state() == before


# --- what is shown -----------------------------------------------------------------------------


def page_of(name: str, rows: Rows) -> str:
    """The page that has the button which leads to this address."""
    if name == "schedule_add":
        return rows.url("schedule_changelist")
    if name.startswith("workflows_"):
        return rows.url("workflows")
    return rows.url(name).replace(f"/{name.partition('_')[2]}/", "/change/")


@pytest.mark.parametrize("who", STAFF)
def test_buttons_are_offered_to_those_who_may(who: str, person: Person) -> None:
    client, have, rows = come(who, person), STAFF[who], make_rows()
    seen: dict[str, str] = {}
    for name, rule in MATRIX.items():
        if not rule.does:
            continue
        page = page_of(name, rows)
        if page not in seen:
            response = client.get(page)
            seen[page] = response.content.decode() if response.status_code == 200 else ""
        is_offered = f'"{rows.url(name).partition("?")[0]}' in seen[page]
        assert is_offered == rule.lets_in(have), name


BUT_PAYLOADS = ASKED_FOR - {"view_payload"}
VIEWERS: list[tuple[AnyOf, bool]] = [
    (one(*LOOK), False),
    (BUT_PAYLOADS, False),
    (one("view_run", "view_payload"), True),
    (one("change_run", "view_payload"), True),
]


@pytest.mark.parametrize(("have", "sees"), VIEWERS)
def test_payloads_are_for_those_who_may_view_them(person: Person, have: AnyOf, sees: bool) -> None:
    run = make_run("waiting")
    make_entry(run, "secretive", value='"canary-value"')
    run.payloads.create(kind="input", data='["canary-input"]')
    run.payloads.create(kind="output", data='"canary-output"')
    run.events.create(name="packed", payload='"canary-event"')
    page = person(*have).get(run_url(run)).content.decode()
    for canary in ("canary-value", "canary-input", "canary-output", "canary-event"):
        assert (canary in page) == sees


@pytest.mark.parametrize(("have", "sees"), VIEWERS)
def test_an_export_has_the_values_for_those_who_may_view_them(person: Person, have: AnyOf, sees: bool) -> None:
    run, client = make_run("failed"), person(*have)
    run.payloads.create(kind="input", data='["canary-input"]')
    data = {"action": "export_selected", ACTION_CHECKBOX_NAME: str(run.pk), "confirmed": "1"}
    for named in ({"ids": run.pk.hex}, {"select_across": "1", "upto": str(run.pk)}):
        response = client.post(list_url(), {**data, **named})
        text = b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]
        assert str(run.pk) in text
        assert ("canary" in text) == sees


def test_what_is_done_is_done_to_the_row_that_was_asked_about(boss: Client) -> None:
    rows, untouched = make_rows(), make_run("waiting")
    for name in ("run_cancel", "schedule_disable", "run_event", "run_resume"):
        assert boss.post(rows.url(name), answer(name)).status_code == 302
    assert Run.objects.get(pk=untouched.pk).cancel_requested_at is None
    assert Run.objects.get(pk=rows.live.pk).cancel_requested_at is not None
    assert Run.objects.get(pk=rows.run.pk).status == "queued"
    assert Event.objects.get().run_id == rows.live.pk
    assert not Schedule.objects.filter(enabled=True).exists()
