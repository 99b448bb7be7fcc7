from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_durable.admin import journal
from django_durable.core.journal.states import Status
from django_durable.core.payloads.codec import encode
from django_durable.models import Payload, Run
from django_durable.testing import run_until_idle
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import judge, run_url, text_of
from tests.admin.world import make_entry, make_full_run, make_run
from tests.app.workflows import doubling, failing, listening, parent


def test_a_finished_run_shows_what_it_did(boss: Client) -> None:
    handle = doubling.enqueue(number=21)
    run_until_idle()
    text = text_of(boss.get(run_url(handle.run)))
    for part in ("app.doubling", "succeeded", str(handle.id), "It is over: succeeded", "double", "step", "42"):
        assert part in text
    assert "{'number': 21}" in text


def test_a_failed_run_shows_its_error(boss: Client) -> None:
    handle = failing.enqueue()
    run_until_idle()
    text = text_of(boss.get(run_url(handle.run)))
    for part in ("failed", "ValueError", "boom", "Traceback", "explode"):
        assert part in text


def test_a_waiting_run_says_for_what(boss: Client) -> None:
    handle = listening.enqueue()
    run_until_idle()
    text = text_of(boss.get(run_url(handle.refresh().run)))
    assert "It waits at 'packed' for an event" in text
    assert "waiting for packed until" in text


def test_a_journal_past_the_soft_limit_is_told(boss: Client, settings: Any) -> None:
    run = make_run("waiting")
    for seq in range(1, 4):
        make_entry(run, f"entry {seq}", seq)
    for limit, is_told in ((3, False), (2, True)):
        settings.DURABLE = {**settings.DURABLE, "JOURNAL_WARN_ENTRIES": limit}
        assert (f"Its journal has more than {limit} entries" in text_of(boss.get(run_url(run)))) is is_told


def test_children_and_parents_are_linked(boss: Client) -> None:
    handle = parent.enqueue(number=1)
    run_until_idle()
    page = boss.get(run_url(handle.run)).content.decode()
    children = Run.objects.filter(parent_id=handle.id)
    assert len(children) == 2
    for child in children:
        assert page.count(run_url(child)) == 2  # among the children, and at its entry of the journal
        assert run_url(handle.run) in boss.get(run_url(child)).content.decode()


def test_a_parent_that_is_gone_is_left_out(boss: Client) -> None:
    run = make_run(parent_id=make_run().pk)
    Run.objects.filter(pk=run.parent_id).delete()
    response = boss.get(run_url(run))
    assert response.status_code == 200
    assert "Parent" not in text_of(response)


@pytest.mark.parametrize("status", sorted(Status))
def test_thirteen_queries_are_enough(person: Person, status: str) -> None:
    client = person(*LOOK, "cancel_run", "resume_run", "send_event", "view_payload")
    run = make_full_run("text", status)
    for seq in range(10, 40):
        make_entry(run, f"entry {seq}", seq, value="1")
        make_run(parent=run, parent_path=f"entry {seq}")
        run.events.create(name="packed", payload="1")
    client.get(run_url(run))
    with CaptureQueriesContext(connection) as queries:
        assert client.get(run_url(run)).status_code == 200
    assert len(queries) <= 13, [query["sql"] for query in queries]
    assert not any("COUNT(" in query["sql"] for query in queries)


def test_every_part_is_bounded(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "ENTRIES_SHOWN", 5)
    run = make_run("waiting")
    for seq in range(5):
        make_entry(run, f"entry {seq}", seq)
    assert "There are more entries" not in text_of(boss.get(run_url(run)))
    make_entry(run, "entry 5", 5)
    for turn in range(101):
        make_run(parent=run, parent_path=f"x{turn}")
        run.events.create(name=f"event {turn}", payload=encode(None))
        run.audit.create(verb=f"verb {turn}", status_before="queued")
    text = text_of(boss.get(run_url(run)))
    assert "There are more entries; these are the first 5." in text
    assert "entry 5" not in text
    assert "event 99" in text
    assert "event 100" not in text
    assert "verb 100" in text  # of the audit the latest
    assert "verb 0 " not in text
    assert text.count("There are more; these are the first.") == 2


def test_annotations_are_shown_one_by_one_also_where_one_cannot_be_read(boss: Client) -> None:
    run = make_run("waiting")
    notes = '[["customer","gold"],["parcel",{"$":"gone","v":1}],["lines",[1,2]]]'
    Payload.objects.create(run=run, kind="notes", data=notes)
    text = text_of(boss.get(run_url(run)))
    for part in ("Annotations", "customer", "'gold'", "parcel", "cannot be read", "lines", "[1, 2]"):
        assert part in text


def test_a_new_run_has_an_empty_page(boss: Client) -> None:
    text = text_of(boss.get(run_url(make_run("scheduled"))))
    assert "Nothing is journaled yet." in text
    assert "It starts at" in text


def test_a_person_without_the_permission_is_told(person: Person) -> None:
    assert "You may not view payloads." in text_of(person(*LOOK).get(run_url(make_run())))


@pytest.mark.parametrize(
    ("missed", "shown"),
    [
        (encode(["charge", "<b>ship</b>"]), "without coming by charge, <b>ship</b>, which its journal has."),
        ("{damaged", "without coming by many entries, which its journal has."),
    ],
)
def test_what_changed_code_has_left_out_is_told(boss: Client, missed: str, shown: str) -> None:
    run = make_run("succeeded")
    assert "Its code has changed" not in text_of(boss.get(run_url(run)))
    run.payloads.create(kind="missed", data=missed)
    response = boss.get(run_url(run))
    assert f"Its code has changed: it ended {shown}" in text_of(response)
    assert judge(response) == []
