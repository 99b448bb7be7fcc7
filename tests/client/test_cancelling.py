"""Cancelling runs in every status."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import transaction

import django_durable
from django_durable.core.journal.journal import Entry
from django_durable.core.journal.states import LIVE, TERMINAL, EntryStatus, Kind, Status
from django_durable.exceptions import (
    RunCancelled,
)
from django_durable.models import Audit, Run
from django_durable.queues.ready import Ready
from django_durable.store import recovery
from django_durable.store.database import Database
from django_durable.testing import run_until_idle, travel
from tests.client.orders import calls, in_status, order
from tests.store.rows import journal_row, make_run, status_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@pytest.mark.behaviour("CANCEL-01a")
@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED, Status.BLOCKED])
def test_cancelling_what_has_no_code_under_way_is_final_at_once(status: Status) -> None:
    run = in_status(status)
    run.cancel("no need", actor="ann")
    assert run.status == Status.CANCELLED
    assert run.run.finished_at is not None
    run_until_idle()
    assert calls == []
    audit = Audit.objects.get()
    assert (audit.run_id, audit.verb, audit.reason, audit.actor, audit.status_before) == (
        run.id,
        "cancel",
        "no need",
        "ann",
        status,
    )


@pytest.mark.behaviour("CANCEL-01b")
@pytest.mark.parametrize("status", [Status.WAITING, Status.PAUSED])
def test_cancelling_what_has_begun_lets_a_worker_end_it(status: Status) -> None:
    run = in_status(status)
    run.cancel("no need")
    assert run.status == Status.QUEUED
    run_until_idle()
    with pytest.raises(RunCancelled, match="no need"):
        run.result(timeout=0)
    assert calls == []


def test_cancelling_what_runs_is_only_asked_for() -> None:
    run = in_status(Status.RUNNING)
    run.cancel()
    assert run.status == Status.RUNNING
    assert run.run.cancel_requested_at is not None


@pytest.mark.behaviour("CANCEL-01d")
@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_cancelling_what_is_over_changes_nothing(status: Status) -> None:
    run = in_status(status)
    before = Run.objects.filter(pk=run.id).values().get()
    audits = Audit.objects.count()
    run.cancel("too late")
    assert Run.objects.filter(pk=run.id).values().get() == before
    assert Audit.objects.count() == audits


def test_cancel_is_part_of_the_caller_s_transaction() -> None:
    run = order.enqueue()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        run.cancel()
        _ = 1 / 0
    assert run.refresh().status == Status.QUEUED


def test_cancel_twice_keeps_the_first_time() -> None:
    run = in_status(Status.RUNNING)
    run.cancel("first")
    first = run.run.cancel_requested_at
    with travel() as clock:
        clock.advance(hours=1)
        run.cancel("second")
    assert run.run.cancel_requested_at == first


def test_cancel_runs_counts_those_that_were_live() -> None:
    runs = [in_status(status) for status in Status]
    assert django_durable.cancel_runs(Run.objects.all(), reason="closing") == len(LIVE)
    run_until_idle()
    assert {run.refresh().status for run in runs} == {
        Status.SUCCEEDED,
        Status.FAILED,
        Status.CANCELLED,
        Status.RUNNING,
    }
    assert django_durable.cancel_runs([]) == 0


def test_children_of_one_map_that_end_at_once_wake_their_parent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = make_run(Status.WAITING, waiting_on="map:each", wake_at=None)
    journal_row(parent, Entry("each", Kind.MAP, EntryStatus.WAITING, seq=1))
    children = [make_run(parent_id=parent.pk, parent_path=f"each[{n}]", root_id=parent.pk) for n in range(3)]
    asked: list[str] = []

    def wake_parent(db: Database, parent_id: UUID, path: str) -> list[Ready]:
        asked.append(path)
        return wake(db, parent_id, path)

    wake = recovery.wake_parent
    monkeypatch.setattr(recovery, "wake_parent", wake_parent)
    assert django_durable.cancel_runs([child.pk for child in children]) == 3
    assert len(asked) == 1
    assert status_of(parent.pk) == Status.QUEUED
