"""What it costs a sender to know how many events the run has not taken yet."""

from __future__ import annotations

from random import Random

import pytest
from django.db import connection

from django_durable.models import Event
from django_durable.store.database import Database
from django_durable.store.sending import inbox_of
from django_durable.store.sql.events import inbox
from tests.store.rows import make_run

pytestmark = pytest.mark.django_db

LARGE = 200_000
"""Bytes: kept aside, in a hundred pages."""


def test_large_payloads_are_measured_without_being_read() -> None:
    run = make_run()
    random = Random(1)
    texts = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=LARGE)) for _ in range(4)]
    Event.objects.bulk_create(Event(run_id=run.pk, name="note", payload=text) for text in texts)
    db = Database()
    found = inbox_of(db, run.pk, 1_000)
    assert found is not None and (found.events, found.bytes) == (4, 4 * LARGE)
    [(plan,)] = db.rows(
        f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {inbox(db.dialect)}", run_id=str(run.pk), most=1_000
    )
    assert plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"] < 20


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_are_looked_at_than_are_asked_for(most: int) -> None:
    run = make_run()
    Event.objects.bulk_create(Event(run_id=run.pk, name="note", payload="null") for _ in range(5))
    found = inbox_of(Database(), run.pk, most)
    assert found == (run.status, most, 4 * most)


def test_what_was_taken_is_not_looked_at() -> None:
    run = make_run()
    Event.objects.bulk_create(
        Event(run_id=run.pk, name="note", payload="null", consumed_at=run.created_at) for _ in range(5_000)
    )
    db = Database()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_durable_event")
    [(plan,)] = db.rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {inbox(db.dialect)}", run_id=str(run.pk), most=1_000)
    assert "durable_event_open" in str(plan)
