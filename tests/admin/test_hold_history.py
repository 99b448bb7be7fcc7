"""What was held once and is not any more: who did it, when and why, on the page of the workflows."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_durable.admin import hold_history
from django_durable.client.holding import hold_queue, hold_workflow, release_queue, release_workflow
from django_durable.models import Audit
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import judge, text_of
from tests.admin.test_hostile import CORPUS
from tests.admin.test_workflows import PAGE, QUERIES_MOST
from tests.admin.world import make_run, make_schedule


def told(client: Client) -> str:
    """What the page says of it; nothing where it says nothing."""
    return text_of(client.get(PAGE)).partition("Held and released")[2]


def test_the_reason_of_a_hold_is_there_after_its_release(boss: Client) -> None:
    assert told(boss) == ""
    hold_queue("vip", reason="the gateway is down", actor="ann")
    release_queue("vip", reason="it is up again", actor="bob")
    hold_workflow("app.doubling", reason="it doubles", actor="cid")
    release_workflow("app.doubling", reason="", actor="cid")
    text = told(boss)
    parts = ("release", "workflow", "app.doubling", "cid", "hold", "it doubles")
    older = ("release", "queue", "vip", "bob", "it is up again", "hold", "queue", "vip", "ann", "the gateway is down")
    place = 0
    for part in (*parts, *older):  # newest first
        place = text.index(part, place)


def test_what_was_done_to_runs_and_schedules_is_elsewhere(boss: Client) -> None:
    make_run().audit.create(verb="cancel", reason="of a run", status_before="queued")
    schedule = make_schedule()
    Audit.objects.create(workflow=schedule.workflow, schedule=schedule.name, verb="fire", reason="of a schedule")
    assert told(boss) == ""


def test_the_latest_are_enough(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold_history, "SHOWN", 3)
    for number in range(3):
        Audit.objects.create(queue="vip", verb="hold", reason=f"reason {number}")
    assert "There are more" not in told(boss)
    Audit.objects.create(queue="vip", verb="hold", reason="reason 3")
    assert "There are more; these are the latest." in told(boss)
    assert "reason 3" in told(boss) and "reason 0" not in told(boss)


@pytest.mark.parametrize("what", CORPUS)
def test_it_is_escaped(boss: Client, what: str) -> None:
    text = CORPUS[what][:200]
    Audit.objects.create(queue=text, verb=text[:20], actor=text[:150], reason=text)
    assert judge(boss.get(PAGE)) == []


def test_it_costs_one_query(person: Person) -> None:
    client = person(*LOOK, "hold_queue")
    for number in range(50):
        Audit.objects.create(queue=f"queue {number}", verb="hold", reason="")
    with CaptureQueriesContext(connection) as queries:
        client.get(PAGE)
    assert sum("durable_audit" in query["sql"] for query in queries) == 1
    assert len(queries) <= QUERIES_MOST
