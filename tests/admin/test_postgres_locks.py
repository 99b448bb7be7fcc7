"""A run whose row an open transaction holds: the page says so, and waits for it only so long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_durable.core.journal.states import Status
from django_durable.models import Audit, Run, Schedule
from django_durable.store import locking
from tests.admin.pages import text_of, verb_url
from tests.admin.test_narrowed import NARROW, content, hide, send
from tests.admin.world import make_run, make_schedule
from tests.app.limits import settled
from tests.app.workflows import doubling

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def holding(row: Model) -> Iterator[None]:
    other = connections["default"].copy()
    other.inc_thread_sharing()
    other.set_autocommit(False)
    with other.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {row._meta.db_table} WHERE id = %s FOR UPDATE", [row.pk])
    try:
        yield
    finally:
        other.rollback()
        other.close()


@pytest.fixture
def held() -> Iterator[Run]:
    run = Run.objects.get(pk=doubling.using(run_after=3600).enqueue(1).id)
    with holding(run):
        yield run


def test_a_held_run_is_told_and_nothing_is_done(boss: Client, held: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", 0.1)
    answer = boss.post(verb_url(held, "cancel"), {"confirmed": "1", "reason": "now"}, follow=True)
    assert answer.status_code == 200
    assert f"Run {held.pk} is held by another transaction" in text_of(answer)
    assert Run.objects.get(pk=held.pk).status == Status.SCHEDULED
    assert not Audit.objects.exists()


def test_a_resume_locks_the_parent_first_as_a_cancellation_does(boss: Client) -> None:
    parent = make_run("waiting")
    child = make_run("failed", parent=parent, parent_path="order")
    with CaptureQueriesContext(connection) as queries:
        boss.post(verb_url(child, "resume"), {"confirmed": "1"})
    locks = [query["sql"] for query in queries if "FOR NO KEY UPDATE" in query["sql"]]
    assert parent.pk.hex in locks[0] and child.pk.hex in locks[1]
    assert Run.objects.get(pk=child.pk).status == Status.QUEUED


@pytest.mark.parametrize("verb", ["disable", "fire", "backfill", "edit"])
def test_a_held_schedule_is_told_and_nothing_is_done(boss: Client, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", 0.1)
    schedule = make_schedule(input='{"number": 4}')
    window = {"since": "2024-01-01T00:00", "until": "2024-01-02T23:00", "limit": "5"}
    window["counted"] = "2024-01-01T00:00:00+00:00 2024-01-02T23:00:00+00:00 5 2"
    edited = {"name": "daily", "expression": "0 7 * * *", "timezone": "UTC", "overlap": "skip", "catch_up": "all"}
    url = reverse(f"admin:django_durable_schedule_{verb}", args=[schedule.pk])
    with holding(schedule):
        answer = boss.post(url, {"confirmed": "1", "jitter": "0", **edited, **window}, follow=True)
    assert answer.status_code == 200
    assert "Schedule app.doubling: daily is held by another transaction" in text_of(answer)
    assert Schedule.objects.get().enabled and Schedule.objects.get().expression == "0 6 * * *"
    assert not Run.objects.exists() and not Audit.objects.exists()


@pytest.mark.urls("tests.admin.test_narrowed")
def test_a_start_by_hand_that_would_put_off_a_held_run_names_it_to_those_who_see_it(
    boss: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    monkeypatch.setattr(locking, "LOCK_SECONDS", 0.1)
    run = Run.objects.get(pk=settled.enqueue("alpha").id)
    with holding(run):
        assert f"Run {run.pk} is held by another transaction" in content(start(boss, NARROW))
        hide(run)
        page = content(start(boss, NARROW))
    assert "A run is held by another transaction" in page and str(run.pk) not in page
    assert list(Run.objects.values_list("pk")) == [(run.pk,)]


def start(client: Client, site: str) -> Any:
    return send(client, site, "app.settled", **{"input:tenant": "alpha"})
