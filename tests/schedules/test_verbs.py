"""What people ask of a schedule."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from django_durable.client import schedules
from django_durable.exceptions import InvalidInput, InvalidSchedule, UnknownWorkflow
from django_durable.models import Audit, Fire, Schedule
from django_durable.signals import schedule_fired
from django_durable.store import by_hand
from django_durable.workflows.definition import Workflow
from tests.schedules.making import (
    DAY,
    HOUR,
    at,
    fire_loop,
    fires,
    fresh,
    make_schedule,
    make_workflow,
    move_to,
    outcomes,
    runs,
)
from tests.schedules.noon import NOON

pytestmark = [pytest.mark.django_db, pytest.mark.contract, pytest.mark.usefixtures("before_noon")]


@pytest.fixture
def workflow(monkeypatch: pytest.MonkeyPatch) -> Workflow[Any, Any]:
    """The one that the schedules name; found although it is in no registry."""
    made = make_workflow()
    monkeypatch.setattr(schedules, "find", {made.name: made}.get)
    return made


def test_next_fires_begins_with_the_planned_instant() -> None:
    row = make_schedule("0 12 * * *")
    assert schedules.next_fires(row, 3) == [NOON, NOON + DAY, NOON + 2 * DAY]
    assert schedules.next_fires(row, 0) == []


@pytest.mark.parametrize("moved", [-HOUR / 2, HOUR / 2], ids=["is due", "moved by hand"])
def test_next_fires_begins_with_what_is_planned_and_not_with_what_would_be(moved: timedelta) -> None:
    planned = NOON + moved
    row = make_schedule("0 12 * * *", next_fire_at=planned)
    after = NOON if planned < NOON else NOON + DAY
    assert schedules.next_fires(row, 3) == [planned, after, after + DAY]
    assert schedules.next_fires(row, 1) == [planned]


def test_next_fires_tells_of_a_row_that_is_not_saved() -> None:
    assert schedules.next_fires(Schedule(name="new", expression="0 12 * * *"), 1) == [NOON]
    with pytest.raises(InvalidSchedule):
        schedules.next_fires(Schedule(name="new", expression="nonsense"))


def test_next_fires_at_a_change_of_the_clocks() -> None:
    move_to(at("2040-10-27T12:00:00"))
    row = Schedule(name="new", expression="30 2 * * *", timezone="Europe/Berlin")
    assert schedules.next_fires(row, 2) == [at("2040-10-28T00:30:00"), at("2040-10-29T01:30:00")]


@pytest.mark.parametrize("enabled", [True, False])
def test_fire_now_starts_a_run_and_leaves_the_plan(
    enabled: bool, workflow: Workflow[Any, Any], django_capture_on_commit_callbacks: Any
) -> None:
    row, told = make_schedule(enabled=enabled, jitter=600.0, input='{"day": "monday"}'), list[Any]()

    def hear(sender: Any, **kwargs: Any) -> None:
        told.append((sender, kwargs["schedule"], kwargs["run_id"]))

    schedule_fired.connect(hear, sender=workflow)
    with django_capture_on_commit_callbacks(execute=True):
        run_id = schedules.fire_now(row, reason="the night was lost", actor="ada")
        assert told == []
    assert told == [(workflow, row, run_id)]
    (run,) = runs()
    assert (run.pk, run.status) == (run_id, "queued")
    fire, audit = Fire.objects.get(), Audit.objects.get(run_id=run_id)
    assert (fire.schedule_id, fire.run_id, fire.outcome) == (row.pk, run_id, "manual")
    assert (audit.run_id, audit.verb, audit.actor, audit.reason) == (run_id, "fire", "ada", "the night was lost")
    assert fresh(row).next_fire_at == NOON


def test_fire_now_goes_beside_a_live_run_and_counts_as_one(workflow: Workflow[Any, Any]) -> None:
    row = make_schedule()
    first, second = schedules.fire_now(row), schedules.fire_now(row)
    assert first != second and len(runs()) == 2
    move_to(NOON)
    fire_loop(workflow).tick()
    assert outcomes(row) == ["manual", "manual", "skipped: overlap"]


def test_fire_now_is_never_taken_for_a_regular_instant(
    workflow: Workflow[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    row, loop = make_schedule(overlap="allow"), fire_loop(workflow)
    move_to(NOON)
    monkeypatch.setattr(by_hand, "database_now", lambda db: NOON)
    first, second = schedules.fire_now(row), schedules.fire_now(row)
    assert len({first, second}) == 2
    assert [outcome for _, outcome in fires(row)] == ["manual", "manual"]
    assert all(NOON < instant < NOON + timedelta(seconds=1) for instant, _ in fires(row))
    loop.tick()
    assert fires(row)[0] == (NOON, "fired") and len(runs()) == 3


def test_fire_now_refuses_what_cannot_begin(workflow: Workflow[Any, Any]) -> None:
    with pytest.raises(InvalidInput):
        schedules.fire_now(make_schedule(input='{"unknown": 1}'))
    with pytest.raises(UnknownWorkflow):
        schedules.fire_now(make_schedule(name="other", workflow="app.gone"))
    assert runs() == [] and not Fire.objects.exists()


def test_disable_and_enable(caplog: pytest.LogCaptureFixture) -> None:
    row, loop = make_schedule("0 12 * * *"), fire_loop()
    with caplog.at_level(logging.INFO, logger="django_durable"):
        schedules.disable(row, reason="holiday", actor="ada")
    assert "ada" in caplog.text and "holiday" in caplog.text
    assert not row.enabled and not fresh(row).enabled
    move_to(NOON + 7 * DAY + HOUR)
    assert loop.tick() == 0
    schedules.enable(row)
    assert row.enabled and row.next_fire_at == fresh(row).next_fire_at == NOON + 8 * DAY
    assert loop.tick() == 0 and outcomes(row) == []


def test_enabling_what_is_enabled_loses_no_due_instant() -> None:
    row = make_schedule()
    move_to(NOON + timedelta(seconds=2))
    schedules.enable(row)
    assert fresh(row).next_fire_at == NOON


def test_enabling_a_row_that_cannot_fire_says_why() -> None:
    row = make_schedule("nonsense", enabled=False, next_fire_at=None)
    schedules.enable(row)
    assert fresh(row).problem and fresh(row).next_fire_at is None


def test_replan_follows_a_changed_expression() -> None:
    row = make_schedule("0 12 * * *")
    row.expression = "0 6 * * *"
    schedules.replan(row)
    assert row.next_fire_at == at("2040-05-02T06:00:00")
    assert fresh(row).expression == "0 12 * * *", "not saved"


def test_a_schedule_that_was_deleted_is_fired_no_more(workflow: Workflow[Any, Any]) -> None:
    row = make_schedule()
    Schedule.objects.filter(pk=row.pk).delete()
    with pytest.raises(Schedule.DoesNotExist):
        schedules.fire_now(row)
    assert (runs(), Fire.objects.count(), Audit.objects.count()) == ([], 0, 0)
