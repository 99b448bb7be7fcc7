"""A site of the project whose ``get_queryset`` leaves rows out: to whoever comes there, these are as if they were not.

Each is asked for by what finds it on Django's own site beside it: by its addresses, its key, the filters, the search.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models import QuerySet
from django.http import HttpRequest
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path
from django.utils import timezone

from django_durable.admin import RunAdmin, ScheduleAdmin, register, starting
from django_durable.admin.troubles import LABELS
from django_durable.core.journal.states import Status
from django_durable.core.payloads.codec import encode
from django_durable.models import Audit, Fire, IdempotencyKey, Run, Schedule, Tag
from django_durable.store import meeting
from django_durable.store.keys import hash_of
from tests.admin.every import Rows, addresses, answer, make_rows, question
from tests.admin.test_access import state, undone
from tests.admin.test_run_list import make_troubles
from tests.admin.test_start_by_hand import fields_of, latest, order, single
from tests.admin.world import make_run, make_schedule

HIDDEN = "confidential"
"""A tag of runs; and where schedules have it in their name, they are."""


class NarrowedRuns(RunAdmin):
    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).exclude(tags__name=HIDDEN)


class NarrowedSchedules(ScheduleAdmin):
    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).exclude(name__contains=HIDDEN)


narrowed = admin.AdminSite("narrowed")
register(narrowed)
narrowed.unregister([Run, Schedule])
narrowed.register(Run, NarrowedRuns)
narrowed.register(Schedule, NarrowedSchedules)
urlpatterns = [path("admin/", admin.site.urls), path("narrowed/", narrowed.urls)]
pytestmark = pytest.mark.urls(__name__)

WIDE, NARROW = "/admin/", "/narrowed/"
RUNS, SCHEDULES = "django_durable/run/", "django_durable/schedule/"


@pytest.fixture(autouse=True)
def _on(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    # To refuse very many requests takes as long again where each is written down with its traceback.
    caplog.set_level("ERROR", "django.request")


def hide(*runs: Run) -> None:
    Tag.objects.bulk_create(Tag(run=run, name=HIDDEN) for run in runs)


def content(response: Any) -> str:
    return (b"".join(response.streaming_content) if response.streaming else response.content).decode()


# --- addresses -------------------------------------------------------------------------------

OF_A_ROW = [
    name for name, route in addresses().items() if name.partition("_")[0] in ("run", "schedule") and "<" in route
]
OF_ANY_ROW = {f"{model}_{name}" for model in ("run", "schedule") for name in ("delete", "old")}
"""Django refuses to delete whatever it is, and leads from an old address to the present one before it looks."""
Answers = dict[tuple[str, str], tuple[int, str, str]]


def answers(client: Client, site: str, rows: Rows) -> Answers:
    """What each address says of its row, by each method and to the form that it shows; without the row's key."""
    found: Answers = {}
    for name in OF_A_ROW:
        url = rows.url(name).replace(WIDE, site, 1)
        key = url.split("/")[4]
        for way, data in (("get", None), ("post", question(name)), ("answer", answer(name))):
            with undone():
                response = client.get(url) if data is None else client.post(url, data)
                told = (response.headers.get("Location", ""), content(response))
            place, text = (one.replace(f"/{key}/", "/…/") for one in told)
            found[name, way] = response.status_code, place, text
    return found


def nobody(rows: Rows) -> Rows:
    """What there is not."""
    run, schedule = Run(pk=uuid4()), Schedule(pk=10**6)
    return replace(rows, run=run, live=run, schedule=schedule, idle=schedule)


def make_hidden_rows() -> Rows:
    rows = make_rows()
    hide(rows.run, rows.live)
    for schedule in (rows.schedule, rows.idle):
        Schedule.objects.filter(pk=schedule.pk).update(name=f"{schedule.name} {HIDDEN}")
    return rows


def test_each_address_of_a_row_answers_as_that_of_one_that_there_is_not(boss: Client) -> None:
    rows = make_hidden_rows()
    before = state()
    found, of_nobody = answers(boss, NARROW, rows), answers(boss, NARROW, nobody(rows))
    assert {where for where, answer in found.items() if answer != of_nobody[where]} == set()
    assert {status for status, _place, _text in found.values()} == {302, 403, 404, 405}
    assert state() == before


@pytest.mark.parametrize("site", [WIDE, NARROW])
def test_where_they_are_not_left_out_each_address_knows_the_row(boss: Client, site: str) -> None:
    rows = make_hidden_rows() if site == WIDE else make_rows()
    found, of_nobody = answers(boss, site, rows), answers(boss, site, nobody(rows))
    known = {name for (name, way), answer in found.items() if answer != of_nobody[name, way]}
    assert known == set(OF_A_ROW) - OF_ANY_ROW


def test_no_form_is_filled_with_its_input(boss: Client) -> None:
    rows = make_hidden_rows()
    asked = {"workflow": rows.run.workflow, "from": str(rows.run.pk)}
    statuses = [boss.get(f"{site}{RUNS}workflows/start/", asked).status_code for site in (WIDE, NARROW)]
    assert statuses == [200, 404]


# --- lists -----------------------------------------------------------------------------------


def listed(client: Client, url: str) -> list[Any]:
    response = client.get(url)
    assert response.status_code == 200
    found = list(response.context["cl"].result_list)
    # All of them are on one page.
    assert response.context["cl"].result_count == len(found)
    return found


def make_every_kind() -> tuple[list[Run], list[str]]:
    """Runs, and with what the list is asked that leads to some of them."""
    make_troubles()
    parent, worker, now = make_run("waiting"), uuid4(), timezone.now()
    for number in range(2):
        run = make_run("blocked", parent=parent, parent_path=f"c{number}", queue="vip", workflow="app.sleepy")
        IdempotencyKey.objects.create(
            workflow=f"app.{number}", key="order-42", key_hash=hash_of("order-42"), run_id=run.pk, input_hash="",
            expires_at=now + timedelta(days=1),
        )  # fmt: skip
        Tag.objects.create(run=run, name="blue")
        make_run("running", leased_by=worker, lease_expires_at=now + timedelta(hours=1))
    runs = list(Run.objects.order_by("pk"))
    queries = [
        *("", "?status=attention", "?reason=crashed", "?reason=diverged", "?created=1h", f"?until={runs[-1].pk}"),
        *(f"?status={status}" for status in sorted(Status)),
        *(f"?trouble={trouble}" for trouble in sorted(LABELS)),
        *("?workflow=app.sleepy", "?queue=vip", f"?parent={parent.pk}", f"?worker={worker}"),
        *("?q=order-42", "?q=blue", "?q=blue&status=blocked", f"?q={runs[0].pk}", f"?q={runs[1].pk}"),
    ]
    return runs, queries


def test_lists_searches_and_exports_leave_them_out(boss: Client) -> None:
    runs, queries = make_every_kind()
    of_all = {query: listed(boss, WIDE + RUNS + query) for query in queries}
    assert [query for query, found in of_all.items() if not found] == []
    for hidden in (runs[::2], runs[1::2]):
        with undone():
            hide(*hidden)
            left = {query: [run for run in found if run not in hidden] for query, found in of_all.items()}
            assert {query: listed(boss, NARROW + RUNS + query) for query in queries} == left
            exported = {query: export(boss, NARROW + RUNS + query, runs[-1]) for query in queries}
            assert exported == {query: {str(run.pk) for run in found} for query, found in left.items()}


def export(client: Client, url: str, newest: Run) -> set[str]:
    """The ids of all that match."""
    response = client.post(url, {"action": "export_selected", "index": "0", "upto": str(newest.pk), **ALL, **CONFIRMED})
    return {run["run"]["id"] for run in map(json.loads, content(response).splitlines()) if "run" in run}


# --- actions ---------------------------------------------------------------------------------

ALL = {"select_across": "1", ACTION_CHECKBOX_NAME: "all"}
CONFIRMED = {"confirmed": "1", "reason": "why"}


def ways(*runs: Run) -> dict[str, dict[str, Any]]:
    """How an action is asked for, and how its question is answered: for runs that are named, and for all."""
    ids, newest = ",".join(run.pk.hex for run in runs), max(runs, key=lambda run: run.pk)
    whole = {**ALL, **CONFIRMED, "upto": str(newest.pk)}
    return {
        "these": {ACTION_CHECKBOX_NAME: [str(run.pk) for run in runs]},
        "all": ALL,
        "yes, these": {"select_across": "1", ACTION_CHECKBOX_NAME: str(runs[0].pk), **CONFIRMED, "ids": ids},
        "yes, all": whole,
        "yes, all of these": {**whole, "named": ids},
    }


@pytest.mark.parametrize("action", ["cancel", "pause", "resume", "rerun", "export"])
def test_an_action_is_neither_asked_about_them_nor_done_to_them(boss: Client, action: str) -> None:
    hidden, shown = (make_run("failed" if action == "resume" else "waiting") for _ in range(2))
    for run in (hidden, shown):
        run.payloads.create(kind="input", data=encode({"number": 4}))
    hide(hidden)
    before = state_of([hidden])
    for way, data in ways(hidden, shown).items():
        with undone():
            response = boss.post(NARROW + RUNS, {"action": f"{action}_selected", "index": "0", **data})
            text = content(response)
            if "confirmed" in data:
                # Of the export of all that match Django's history names none.
                assert state_of([shown])["audit"] or action == "export", way
                assert response.status_code == (200 if action == "export" else 302), way
            else:
                assert str(shown.pk) in text or shown.pk.hex in text, way
            assert str(hidden.pk) not in text and hidden.pk.hex not in text, way
            assert state_of([hidden]) == before, way
            assert Run.objects.count() == 2 + (action == "rerun" and "confirmed" in data), way


def state_of(runs: Iterable[Run]) -> dict[str, list[Any]]:
    ids = [run.pk for run in runs]
    return {
        "rows": list(Run.objects.filter(pk__in=ids).values_list()),
        "audit": list(Audit.objects.filter(run_id__in=ids).values_list()),
        "history": list(LogEntry.objects.filter(object_id__in=map(str, ids)).values_list()),
    }


# --- starts ------------------------------------------------------------------------------------


def send(client: Client, site: str, workflow: str, **given: str) -> Any:
    url = f"{site}{RUNS}workflows/start/?workflow={workflow}"
    return client.post(url, {**fields_of(content(client.get(url))), **given})


UNSEEN = "A run that you cannot see is there already: no other was started."


@pytest.mark.parametrize(
    ("start", "given"),
    [
        (lambda: order.using(idempotency_key="k").enqueue(1), {"idempotency_key": "k", "input:order_id": "1"}),
        (lambda: order.using(idempotency_key="k").enqueue(1), {"idempotency_key": "k", "input:order_id": "2"}),
        (lambda: single.enqueue(1), {"input:which": "1"}),
        (lambda: latest.enqueue(), {}),
    ],
    ids=["key", "key of another input", "singleton", "singleton that cancels"],
)
def test_a_start_neither_finds_nor_cancels_them(boss: Client, start: Callable[[], Any], given: dict[str, str]) -> None:
    run = Run.objects.get(pk=start().id)
    with undone():
        assert UNSEEN not in content(send(boss, NARROW, run.workflow, **given))
    hide(run)
    before = state()
    page = content(send(boss, NARROW, run.workflow, **given))
    assert UNSEEN in page and str(run.pk) not in page
    assert state() == before
    with undone():
        assert UNSEEN not in content(send(boss, WIDE, run.workflow, **given))


def test_a_start_cancels_none_that_came_to_be_after_it_was_looked_who_sees_them(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verb on another run makes them, and takes no key of starts."""
    seen = Run.objects.get(pk=latest.enqueue().id)
    late = []

    def lock_replaced(*arguments: Any) -> Any:
        found = meeting.lock_replaced(*arguments)
        late.append(make_run("queued", workflow=seen.workflow, limit_key=seen.limit_key))
        hide(*late)
        return found

    monkeypatch.setattr(starting, "lock_replaced", lock_replaced)
    assert send(boss, NARROW, seen.workflow).status_code == 302
    statuses = dict(Run.objects.values_list("pk", "status"))
    assert (statuses[seen.pk], statuses[late[0].pk]) == (Status.CANCELLED, Status.QUEUED)
    assert len(statuses) == 3


def test_however_many_a_start_cancels_who_sees_them_is_asked_at_once(boss: Client) -> None:
    first, counts = Run.objects.get(pk=latest.enqueue().id), []
    for more in (0, 5):
        for _ in range(more):
            make_run("queued", workflow=first.workflow, limit_key=first.limit_key)
        with CaptureQueriesContext(connection) as queries:
            assert send(boss, NARROW, first.workflow).status_code == 302
        counts.append(len(queries))
    assert counts[0] == counts[1]


# --- schedules -------------------------------------------------------------------------------


def make_schedules(name: str) -> dict[str, Schedule]:
    """One of each mark."""
    now = timezone.now()
    failing = make_schedule(name=f"failing {name}")
    run = make_run("failed")
    Fire.objects.create(schedule=failing, scheduled_for=now, fired_at=now, run_id=run.pk, outcome="started")
    return {
        "failing": failing,
        "late": make_schedule(name=f"late {name}", next_fire_at=now - timedelta(hours=1)),
        "broken": make_schedule(name=f"broken {name}", problem="no such zone"),
        "enabled": make_schedule(name=f"enabled {name}"),
        "disabled": make_schedule(name=f"disabled {name}", enabled=False),
    }


def test_lists_and_searches_of_schedules_leave_them_out(boss: Client) -> None:
    shown, hidden = make_schedules("shown"), make_schedules(HIDDEN)
    for query in ("", "?q=doubling", "?status=attention", *(f"?status={mark}" for mark in shown)):
        wide, narrow = (set(listed(boss, site + SCHEDULES + query)) for site in (WIDE, NARROW))
        assert wide & {*hidden.values()}, query
        assert narrow == wide - {*hidden.values()} != set(), query
    assert listed(boss, f"{NARROW}{SCHEDULES}?q={HIDDEN}") == []


@pytest.mark.parametrize("action", ["enable", "disable"])
@pytest.mark.parametrize("more", [{}, {"select_across": "1"}], ids=["these", "all"])
def test_an_action_on_schedules_is_not_done_to_them(boss: Client, action: str, more: dict[str, str]) -> None:
    before = action == "disable"
    hidden, shown = (make_schedule(name=name, enabled=before) for name in (HIDDEN, "shown"))
    asked = {"action": f"{action}_selected", ACTION_CHECKBOX_NAME: [str(hidden.pk), str(shown.pk)], **more}
    page = content(boss.post(NARROW + SCHEDULES, asked))
    assert "shown" in page and HIDDEN not in page
    assert boss.post(NARROW + SCHEDULES, {**asked, **CONFIRMED}).status_code == 302
    assert dict(Schedule.objects.values_list("name", "enabled")) == {HIDDEN: before, "shown": not before}
    assert list(Audit.objects.values_list("schedule", flat=True)) == ["shown"]
    assert list(LogEntry.objects.values_list("object_id", flat=True)) == [str(shown.pk)]
