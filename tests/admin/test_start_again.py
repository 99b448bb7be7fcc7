"""Starting a run with the input of an earlier one in the form: what stands in it, what cannot, and who comes there."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_durable import durable_workflow
from django_durable.core.payloads.codec import encode
from django_durable.models import Run
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import judge, run_url, text_of
from tests.admin.test_hostile import CORPUS
from tests.admin.test_start_by_hand import GIVEN, Address, address, fields_of, input_of, send
from tests.admin.world import make_run

MANY_TAGS = [["a,b"], [" a"], [f"{number}" for number in range(200)], [letter * 200 for letter in "abcde"]]
LEFT_OUT = "Not filled in, because no form holds it as it was"


@durable_workflow(name="again.now", aliases=["again.before"])
def renamed(ctx: Any, card: str = "", order: int = 0) -> None: ...


@pytest.fixture(autouse=True)
def _on(settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}


def make_given(text: str | None, workflow: str = "again.now", **more: Any) -> Run:
    """A run with this input, as it is stored."""
    run = make_run("failed", workflow=workflow, **more)
    if text is not None:
        run.payloads.create(kind="input", data=text)
    return run


def link_of(client: Client, run: Run) -> str:
    """Where its page leads to; empty: nowhere."""
    page = client.get(run_url(run)).content.decode()
    found = re.findall(r'<a class="button" href="([^"]*)">Start again with another input', page)
    return unescape(found[0]) if found else ""


def like(run: Run, workflow: str = "again.now") -> str:
    return f"{address(workflow)}&from={run.pk}"


def form_at(client: Client, url: str) -> tuple[dict[str, str], str]:
    """The fields as they come, and what the page says."""
    response = client.get(url)
    assert response.status_code == 200 and judge(response) == []
    return fields_of(response.content.decode()), text_of(response)


def sent_anew(client: Client, url: str, **changed: str) -> Run:
    """The run that the form starts."""
    before = set(Run.objects.values_list("pk", flat=True))
    fields, said = form_at(client, url)
    assert LEFT_OUT not in said
    fields |= {f"input:{name}": text for name, text in changed.items()}
    assert client.post(url, fields).status_code == 302
    return Run.objects.exclude(pk__in=before).get()


@pytest.mark.parametrize(
    ("workflow", "given"),
    [
        ("hand.all", GIVEN),
        ("hand.all", {**GIVEN, "maybe": "0", "name": "x", "polite": "1", "options": "null", "text": "a\r\n<b>\r\n"}),
        ("hand.order", {"order_id": "1", "address": '{"street": "Elm", "number": 4}'}),
        ("hand.order", {"order_id": "1", "address": ""}),
        ("hand.many", {"first": "1", "others": "[3, 4]", "more": '{"a": "b"}'}),
        ("hand.many", {"first": "1", "second": "9", "flag": "0"}),
        ("hand.none", {}),
    ],
)
def test_sent_as_it_comes_it_starts_the_same(boss: Client, workflow: str, given: dict[str, str]) -> None:
    assert send(boss, workflow, given, queue="slow", priority="7", tags="a, b c").status_code == 302
    run = Run.objects.get()
    url = link_of(boss, run)
    assert f"The input is that of run {run.pk}" in form_at(boss, url)[1]
    again = sent_anew(boss, url)
    assert input_of(again) == input_of(run)
    assert (again.workflow, again.queue, again.priority) == (workflow, "slow", 7)
    assert sorted(again.tags.values_list("name", flat=True)) == ["a", "b c"]


def test_what_is_changed_is_changed(boss: Client) -> None:
    run = make_given(encode({"order_id": 1, "address": Address("Elm", 4), "queue": "mine"}), "hand.order")
    fields, _said = form_at(boss, link_of(boss, run))
    assert (fields["input:order_id"], fields["input:address"]) == ("1", '{"street": "Elm", "number": 4}')
    assert (fields["queue"], fields["priority"], fields["tags"]) == ("", "", "")
    again = sent_anew(boss, link_of(boss, run), order_id="2")
    assert input_of(again) == {"order_id": 2, "address": Address("Elm", 4), "queue": "mine"}


def test_what_no_form_holds_is_told_and_not_filled_in(boss: Client) -> None:
    at = datetime(2024, 5, 1, 6, 0, 30, 1, tzinfo=UTC)
    given = {"text": "a\rb", "number": "x", "share": 0.5, "at": at, "sure": None, "options": {"at": at}, "left": 1}
    run = make_given(encode(given), "hand.all")
    fields, said = form_at(boss, like(run, "hand.all"))
    assert f"{LEFT_OUT}: text, number, at, sure, options, left." in said
    assert {name: fields[f"input:{name}"] for name in ("text", "number", "share", "at", "sure", "options")} == {
        "text": "", "number": "", "share": "0.5", "at": "", "sure": "", "options": '{"a": 1}',
    }  # fmt: skip


@pytest.mark.parametrize("names", MANY_TAGS)
def test_tags_that_their_field_cannot_hold_are_told(boss: Client, names: list[str]) -> None:
    run = make_given(encode({"card": "mine"}))
    for name in names:
        run.tags.create(name=name)
    fields, said = form_at(boss, like(run))
    assert f"{LEFT_OUT}: Tags." in said
    assert (fields["tags"], fields["input:card"]) == ("", "mine")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is not kept any more"),
        (encode({"card": "c" * 100_001}), "is too long for a form"),
        ('{"card": "canary', "cannot be read"),
        ('["canary"]', "cannot be read"),
        (encode({1: "canary"}), "cannot be read"),
    ],
)
def test_where_there_is_nothing_to_fill_in_it_says_why(boss: Client, text: str | None, said: str) -> None:
    run = make_given(text)
    fields, page = form_at(boss, like(run))
    assert f"The input of run {run.pk} is not filled in" in page and said in page
    assert (fields["input:card"], fields["input:order"]) == ("", "0") and "canary" not in page
    assert bool(link_of(boss, run)) == (text is not None)


def masking(run: Run, kind: str, value: Any) -> Any:
    return {**value, "card": "•••"} if kind == "input" else value


def masking_in_place(run: Run, kind: str, value: Any) -> Any:
    value["card"] = "•••"
    return value


def failing(run: Run, kind: str, value: Any) -> Any:
    raise ValueError


def sparing(run: Run, kind: str, value: Any) -> Any:
    return dict(value) if kind == "input" else "•••"


@pytest.mark.parametrize(
    ("redact", "is_filled"), [(masking, False), (masking_in_place, False), (failing, False), (sparing, True)]
)
def test_of_what_is_redacted_nothing_is_filled_in(boss: Client, settings: Any, redact: Any, is_filled: bool) -> None:
    settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.{redact.__name__}"}
    run = make_given(encode({"card": "canary", "order": 4711}))
    fields, said = form_at(boss, like(run))
    assert (fields["input:card"], fields["input:order"]) == (("canary", "4711") if is_filled else ("", "0"))
    assert ("is not filled in: it is redacted." in said) != is_filled


PEOPLE: dict[str, tuple[str, ...]] = {
    "all of it": (*LOOK, "start_run", "view_payload"), "no payloads": (*LOOK, "start_run"),
    "no starts": (*LOOK, "view_payload"), "no looks": ("start_run", "view_payload"),
}  # fmt: skip


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("who", PEOPLE)
def test_it_needs_both_permissions_and_the_setting(person: Person, settings: Any, who: str, is_on: bool) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": is_on}
    run, client = make_given(encode({"card": "canary"})), person(*PEOPLE[who])
    allowed = is_on and who == "all of it"
    for method in (client.get, client.head):
        assert method(like(run)).status_code == (200 if allowed else 403)
    assert (link_of(client, run) == like(run)) == bool(link_of(client, run)) == allowed


def test_a_run_of_another_workflow_or_of_none_is_not_found(boss: Client) -> None:
    unknown = make_given(encode({}), "again.elsewhere")
    assert link_of(boss, unknown) == ""
    assert boss.get(like(unknown, "again.elsewhere")).status_code == 404
    for run in (unknown, make_given(encode({}), "hand.order")):
        assert boss.get(like(run)).status_code == 404
    for run_id in (str(uuid4()), "x", ""):
        assert boss.get(f"{address('again.now')}&from={run_id}").status_code == 404


def test_a_workflow_that_was_renamed_is_started_under_its_name(boss: Client) -> None:
    run = make_given(encode({"card": "mine"}), "again.before")
    assert link_of(boss, run) == like(run)
    assert sent_anew(boss, link_of(boss, run)).workflow == "again.now"


def test_a_form_that_is_open_outlives_the_run(boss: Client) -> None:
    run = make_given(encode({"card": "mine"}))
    url = link_of(boss, run)
    fields, _said = form_at(boss, url)
    Run.objects.all().delete()
    assert boss.post(url, fields).status_code == 302
    assert input_of(Run.objects.get()) == {"card": "mine", "order": 0}


@pytest.mark.parametrize("what", CORPUS)
def test_whatever_stands_in_it_is_escaped(boss: Client, what: str) -> None:
    text = CORPUS[what]
    given = {"order_id": text, "address": [text, {1: text}], "queue": text, text: text}
    run = make_given(encode(given), "hand.order", queue=text[:100])
    run.tags.create(name=text[:200])
    form_at(boss, like(run, "hand.order"))


def test_it_costs_a_few_queries(boss: Client) -> None:
    run = make_given(encode({"card": "mine"}))
    with CaptureQueriesContext(connection) as queries:
        boss.get(like(run))
    assert len(queries) <= 8
