"""Schedules of a workflow that has a limit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from django_durable.client import schedules
from django_durable.core.clock import DatabaseClock
from django_durable.core.limits import Bounds
from django_durable.models import Fire, Payload, Run
from django_durable.store.claiming import Claimant
from django_durable.store.database import PrivateDatabase
from django_durable.store.limiting import KeyWalk, claim_limited
from django_durable.workflows.definition import Workflow
from tests.schedules.making import (
    HOUR,
    NIGHTLY,
    end,
    fire_loop,
    make_schedule,
    make_workflow,
    move_to,
    outcomes,
    runs,
)
from tests.schedules.noon import NOON, just_before_noon

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@pytest.fixture
def workflow(monkeypatch: pytest.MonkeyPatch) -> Workflow[Any, Any]:
    just_before_noon()
    made = make_workflow(max_concurrency=1)
    monkeypatch.setattr(schedules, "find", {made.name: made}.get)
    return made


@pytest.fixture
def db() -> Iterator[PrivateDatabase]:
    opened = PrivateDatabase()
    yield opened
    opened.close()


def claim(db: PrivateDatabase) -> list[Any]:
    claimant = Claimant(uuid4(), ("default",), (NIGHTLY,), {NIGHTLY: Bounds(1)})
    claims = claim_limited(db, claimant, 10, KeyWalk(), lease=30.0, time=DatabaseClock())
    return [claim.run_id for claim in claims]


@pytest.mark.behaviour("RUN-12f", "SCHED-01b")
def test_at_the_limit_one_run_waits_for_its_turn_and_instants_are_passed_over(
    workflow: Workflow[Any, Any], db: PrivateDatabase
) -> None:
    row, loop = make_schedule(), fire_loop(workflow)
    busy = schedules.fire_now(make_schedule(name="other", enabled=False))
    assert claim(db) == [busy]
    for hour in range(3):
        move_to(NOON + hour * HOUR)
        loop.tick()
    assert outcomes(row) == ["fired", "skipped: overlap", "skipped: overlap"]
    assert claim(db) == []
    end("succeeded", Run.objects.get(pk=busy))
    waited = Run.objects.exclude(pk=busy).get()
    assert claim(db) == [waited.pk]
    end("succeeded")
    move_to(NOON + 3 * HOUR)
    loop.tick()
    assert outcomes(row)[3:] == ["fired"]
    assert len(claim(db)) == 1


@pytest.mark.behaviour("RUN-12f")
def test_runs_by_hand_and_for_the_past_keep_to_the_limit(workflow: Workflow[Any, Any], db: PrivateDatabase) -> None:
    row = make_schedule()
    schedules.backfill(row, NOON - 5 * HOUR, NOON)
    schedules.fire_now(row)
    worked = []
    while claims := claim(db):
        assert len(claims) == 1 and claim(db) == []
        worked += claims
        end("succeeded", Run.objects.get(pk=claims[0]))
    assert len(worked) == len(set(worked)) == 6


# --- fires that meet another run of their key -----------------------------------------------


def hourly(**options: Any) -> tuple[Any, Any, Workflow[Any, Any]]:
    just_before_noon()
    made = make_workflow(**options)
    return make_schedule(overlap="allow"), fire_loop(made), made


def test_a_fire_of_a_singleton_that_is_live_is_passed_over() -> None:
    row, loop, made = hourly(singleton="skip")
    busy = made.enqueue().id
    move_to(NOON)
    loop.tick()
    assert outcomes(row) == ["skipped: overlap"]
    assert not Fire.objects.filter(run_id__isnull=False).exists()
    assert [run.pk for run in runs()] == [busy]
    end("succeeded")
    move_to(NOON + HOUR)
    loop.tick()
    assert outcomes(row) == ["skipped: overlap", "fired"]


def test_a_fire_of_a_singleton_cancels_the_run_that_is_live() -> None:
    row, loop, made = hourly(singleton="cancel_running")
    made.enqueue()
    move_to(NOON)
    loop.tick()
    assert outcomes(row) == ["fired"]
    assert [run.status for run in runs()] == ["cancelled", "queued"]


def test_a_fire_of_a_debounced_workflow_is_a_start_like_any_other() -> None:
    row, loop, made = hourly(debounce=90)
    move_to(NOON - timedelta(seconds=60))
    pending = made.enqueue("yesterday").id
    move_to(NOON)
    loop.tick()
    assert outcomes(row) == ["debounced"]
    assert Fire.objects.get().run_id == pending
    [run] = runs()
    assert timedelta(seconds=80) < run.wake_at - NOON < timedelta(seconds=100)
    assert Payload.objects.get(run_id=pending, kind="input").data == "{}", "as the schedule says"
    end("succeeded")
    move_to(NOON + HOUR)
    loop.tick()
    assert outcomes(row) == ["debounced", "fired"]
    assert [run.status for run in runs()] == ["succeeded", "scheduled"]


def test_by_hand_and_for_the_past_runs_start_whatever_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({"singleton": "skip"}, {"singleton": "cancel_running"}, {"debounce": 90}):
        row, _, made = hourly(**options)
        monkeypatch.setattr(schedules, "find", {made.name: made}.get)
        ids = [made.enqueue().id, schedules.fire_now(row), schedules.fire_now(row)]
        ids += schedules.backfill(row, NOON - 2 * HOUR, NOON).run_ids
        assert len(set(ids)) == 5
        assert {run.status for run in runs()[1:]} == {"queued"}
        Run.objects.all().delete()
        row.delete()
