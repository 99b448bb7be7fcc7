"""Addresses that nobody was given: each is answered, soon, with a page that is safe or with a refusal."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from itertools import product
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.template import RequestContext, Template
from django.test import Client, RequestFactory

from django_durable.models import Run
from django_durable.store.keys import hash_of
from tests.admin.every import addresses, answer, make_rows
from tests.admin.pages import judge
from tests.admin.test_access import ACTIONS, state
from tests.app.workflows import doubling
from tests.hostile import rude
from tests.hostile.corpus import TEXTS, TYPED, VALUES
from tests.hostile.statements import values_given

pytestmark = pytest.mark.django_db

SENDABLE = {what: text.encode("utf-8", "replace").decode() for what, text in TYPED.items() if len(text) <= 10_000}
"""As far as they fit into an address: a browser sends no half of a character, and a server takes no megabyte."""
FEW = {what: SENDABLE[what] for what in (
    "out of an attribute", "line breaks", "nul", "quotes", "huge number",
)}  # fmt: skip
FREE = ("q", "workflow", "queue", "expression", "timezone")
"""Fields for words: they are sent all that people type, the others the texts alone."""
MORE = ("from", "near", "in", "of", "id", "path", "since", "limit", "expression", "timezone", "token", "window")
OTHERS: list[tuple[str, str, dict[str, str]]] = [
    *(("schedule_changelist", field, {}) for field in ("status", "p", "o", "q")),
    *(("worker_changelist", field, {}) for field in ("p", "o")),
    *(("run_change", field, {}) for field in ("from", "until", "in", "at")),
    ("run_change", "near", {"from": "1"}),
    ("run_value", "of", {}),
    ("run_value", "id", {"of": "event"}),
    *(("run_value", "path", {"of": of}) for of in ("value", "failure")),
    ("schedule_preview", "expression", {}),
    ("schedule_preview", "timezone", {"expression": "0 7 * * *"}),
    ("workflows_start", "workflow", {}),
    ("workflows_start", "from", {"workflow": "app.doubling"}),
]
"""A page, what it is asked, and what has to stand beside that: else it would not be read. The charts of the overview
read nothing of their address."""
FINE = (200, 301, 302, 400, 403, 404, 405)
SOON = 15.0
NOBODYS = UUID(int=7)


@pytest.fixture(autouse=True)
def _on(settings: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    caplog.set_level("CRITICAL", "django")
    # Nobody asks by which contexts a page was made, and to copy them takes a sixth of the time.
    monkeypatch.setattr("django.test.client.store_rendered_templates", lambda *_given, **_named: None)


def sent_to(field: str) -> list[str]:
    return [what for what in SENDABLE if field in FREE or what in TEXTS]


def answered(response: Any, what: Any) -> None:
    assert response.status_code in FINE, what
    if response.status_code == 200 and response["Content-Type"].startswith("text/html"):
        assert judge(response) == [], what
    assert not any("\n" in value or "\r" in value for value in response.headers.values()), what


@pytest.mark.parametrize("what", FEW)
def test_whatever_an_address_is_asked(admin_client: Client, what: str) -> None:
    rows, text = make_rows(), FEW[what]
    before, began = state(), time.monotonic()
    for name in addresses():
        url = rows.url(name).partition("?")[0]
        answered(admin_client.get(url, dict.fromkeys((*FILTERS, *MORE), text)), name)
    for field in FILTERS:
        # Once is what is asked below, with all of the corpus.
        answered(admin_client.get(rows.url("run_changelist"), {field: [text, text]}), field)
    assert state() == before
    assert time.monotonic() - began < 5 * SOON


@pytest.mark.parametrize(("name", "field", "beside"), OTHERS)
def test_whatever_one_of_the_other_pages_is_asked(
    admin_client: Client, name: str, field: str, beside: dict[str, str]
) -> None:
    """All of the corpus that an address can hold."""
    url = make_rows().url(name).partition("?")[0]
    before = state()
    # A list refuses all that it does not know before it looks at the rest.
    assert admin_client.get(url, beside).status_code != 400
    for what in sent_to(field):
        response = admin_client.get(url, {**beside, field: SENDABLE[what]})
        answered(response, what)
        # It is there to say what is wrong with what is being typed.
        assert name != "schedule_preview" or response.status_code == 200, what
    assert state() == before


NAMES = {what for what, text in SENDABLE.items() if text.strip() and "\0" not in text and len(text) <= 200}
"""What is looked for as a name: the others no run can have."""
ID = "uuid"
"""The one text that can be read as an id."""
FOUND_BY = {"workflow": NAMES, "queue": NAMES, "parent": {ID}, "worker": {ID}, "q": NAMES}
CHOICES = ("status", "trouble", "reason", "created", "until", "p", "o", "all", "e")
FILTERS = (*FOUND_BY, *CHOICES)
CHOSEN_BY = {field: {ID} if field in ("created", "until") else set() for field in CHOICES}
"""The fields of the list of runs, and which of the texts come to the database through them: where there is a choice, an
id at most."""


def spellings(field: str, text: str) -> list[Any]:
    """What a statement is given of it."""
    if text == TEXTS[ID] and field not in ("workflow", "queue"):
        return [Run._meta.pk.get_db_prep_value(UUID(text), connection)]
    # A search is for a tag by its name, and for an idempotency key by its hash.
    return [text, hash_of(text)] if field == "q" else [text]


def came_through(client: Client, field: str, names: Iterable[str]) -> set[str]:
    """Ask the list of runs for each of these texts in this field alone; of which of them a statement was given all.

    Alone, since one field that cannot be read makes the answer empty before the others are looked at.
    """
    url, found = make_rows().url("run_changelist"), set()
    for what in names:
        with values_given() as given:
            answered(client.get(url, {field: SENDABLE[what]}), what)
        if all(one in given for one in spellings(field, SENDABLE[what])):
            found.add(what)
    return found


@pytest.mark.parametrize("field", FOUND_BY)
def test_whatever_the_list_of_runs_is_asked_to_find(admin_client: Client, field: str) -> None:
    """All of the corpus that an address can hold, where people and links put any text."""
    assert came_through(admin_client, field, sent_to(field)) >= FOUND_BY[field]


@pytest.mark.parametrize("field", CHOSEN_BY)
def test_whatever_the_list_of_runs_is_asked_where_it_offers_a_choice(admin_client: Client, field: str) -> None:
    # Of the empty one nobody could tell by whom a statement was given it.
    assert came_through(admin_client, field, filter(SENDABLE.get, sent_to(field))) == CHOSEN_BY[field]


@pytest.mark.parametrize("what", FEW)
def test_whatever_row_an_address_names(admin_client: Client, what: str) -> None:
    make_rows()
    before = state()
    for name, route in addresses().items():
        if "<" in route:
            for key in (FEW[what], f"{NOBODYS}{FEW[what]}"):
                url = "/" + re.sub("<[^>]*>", lambda _match, key=key: quote(key, safe=""), route)
                answered(admin_client.get(url), (name, key))
                answered(admin_client.post(url, answer(name)), (name, key))
    assert state() == before


@pytest.mark.parametrize("what", FEW)
def test_whatever_a_list_is_told_to_do(admin_client: Client, what: str) -> None:
    rows, text = make_rows(), FEW[what]
    runs = Run.objects.count()
    for model, action in (*ACTIONS, ("run", text), ("worker", "delete_selected")):
        url = rows.url(f"{model}_changelist")
        for more in ({}, {"select_across": "1", "confirmed": "1"}):
            sent = {"action": action, ACTION_CHECKBOX_NAME: [text, str(NOBODYS)], **more}
            answered(admin_client.post(url, sent), (model, action))
            answered(admin_client.post(url, {**dict.fromkeys(FORGED, text), **sent}), (model, action))
    assert Run.objects.count() == runs


FORGED = ("ids", "upto", "place", "done", "held", "index", "asked_after", "select_across")
CAPPED = {
    "run_changelist": [{"p": "9" * 30}, {"p": "-1"}, {"p": "1e3"}, {"all": "1", "p": "10000000"}, {"o": "1." * 200}],
    "schedule_preview": [
        {"expression": "* * * * * *", "n": "999999999"},
        {"expression": "0 0 29 2 mon", "timezone": "UTC"},
    ],
    "run_change": [
        *({"from": "9" * 400}, {"near": "9" * 400}, {"until": "9" * 400}),
        *({"in": "a/" * 5_000}, {"from": "-9"}),
    ],
    "overview_charts": [{"hours": "999999999"}, {"window": "9" * 400}],
    "run_value": [{"of": "event", "id": "9" * 400}, {"of": "value", "path": "x" * 100_000}],
}


@pytest.mark.parametrize("name", CAPPED)
def test_no_number_in_an_address_makes_a_page_long_or_late(admin_client: Client, name: str) -> None:
    rows = make_rows()
    for query in CAPPED[name]:
        began = time.monotonic()
        response = admin_client.get(rows.url(name).partition("?")[0], query)
        answered(response, query)
        assert time.monotonic() - began < SOON
        assert response.streaming or len(response.content) < 300_000


# --- a project's own pages -------------------------------------------------------------------


@pytest.mark.urls("tests.views.urls")
def test_whatever_the_fragment_is_asked_for(client: Client) -> None:
    run = doubling.enqueue(4)
    for what, end in product(sent_to("id"), ("/", ".json")):
        text = SENDABLE[what]
        for key in (text, f"{run.id}{text}", f"{run.id}/{text}"):
            assert client.get(f"/durable/runs/{quote(key, safe='')}{end}").status_code in (301, 404)
        assert client.get(f"/durable/runs/{run.id}{end}", {"token": text}).status_code == 404
        for method in (client.post, client.put, client.delete):
            assert method(f"/durable/runs/{run.id}{end}", {"token": text}).status_code == 405


NO_TEXT = ("str raises", "every attribute raises", "str exits", "depth 10,000", "depth 100,000")
"""Of which nobody can make a text."""


@pytest.mark.urls("tests.views.urls")
@pytest.mark.parametrize("what", [what for what in VALUES if what not in NO_TEXT])
def test_the_tag_shows_nothing_of_what_is_no_run(what: str) -> None:
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    text = "{% load django_durable %}{% durable_run_progress run every=run %}{% durable_run_json run %}"
    try:
        page = Template(text).render(RequestContext(request, {"run": VALUES[what]()}))
    except rude.Rude:
        return
    assert page.strip() == ""
