"""Rows of the operators' are made and changed; and what is asked before anything is done."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.utils import IntegrityError

from django_durable.client import schedules
from django_durable.client.schedules import WindowFilled, missing, upcoming
from django_durable.exceptions import InvalidInput, InvalidSchedule, UnknownWorkflow
from django_durable.models import Audit, Fire, Run, Schedule
from django_durable.store import by_hand
from django_durable.store.database import Database
from django_durable.store.scheduling import database_now
from django_durable.workflows.definition import Workflow
from tests.schedules.making import (
    DAY,
    HOUR,
    NIGHTLY,
    fire_loop,
    fires,
    fresh,
    make_schedule,
    make_workflow,
    move_to,
)
from tests.schedules.noon import NOON

pytestmark = [pytest.mark.django_db, pytest.mark.contract, pytest.mark.usefixtures("before_noon")]


@pytest.fixture(autouse=True)
def workflow(monkeypatch: pytest.MonkeyPatch) -> Workflow[Any, Any]:
    workflow = make_workflow()
    monkeypatch.setattr(schedules, "find", lambda name: workflow if name == NIGHTLY else None)
    return workflow


def make(**more: Any) -> Schedule:
    schedule = Schedule(**{"workflow": NIGHTLY, "name": "mine", "expression": "0 * * * *", **more})
    schedules.create(schedule, reason="a wish", actor="ann")
    return fresh(schedule)


def told() -> list[tuple[str, ...]]:
    return list(Audit.objects.order_by("pk").values_list("verb", "actor", "reason", "status_before"))


def test_a_new_one_is_planned_and_written_down() -> None:
    schedule = make()
    assert (schedule.next_fire_at, schedule.app_label, schedule.problem) == (NOON, "", "")
    assert told() == [("create", "ann", "expression 0 * * * *, timezone UTC: a wish", "disabled")]


def test_a_new_one_that_is_wrong_says_why() -> None:
    schedule = make(expression="61 * * * *")
    assert schedule.next_fire_at is None and "InvalidSchedule" in schedule.problem


def test_a_name_is_used_once() -> None:
    make()
    with pytest.raises(IntegrityError), transaction.atomic():
        make()
    assert len(told()) == 1


def test_another_expression_is_planned_from_now_on() -> None:
    schedule = make()
    schedules.change(schedule, {"expression": "30 * * * *", "overlap": "skip"}, reason="later", actor="bob")
    assert fresh(schedule).next_fire_at == NOON + timedelta(minutes=30)
    assert told()[-1] == ("change", "bob", "expression 30 * * * *: later", "enabled")
    move_to(NOON + timedelta(minutes=31))
    fire_loop().tick()
    assert fires(schedule) == [(NOON + timedelta(minutes=30), "fired")]


def test_of_an_input_the_audit_says_that_it_was_changed() -> None:
    schedule = make()
    schedules.change(schedule, {"input": '{"day":"secret"}'})
    assert fresh(schedule).input == '{"day":"secret"}' and told()[-1][2] == "input"


def test_what_is_due_stays_due_when_something_else_is_changed() -> None:
    schedule = make()
    move_to(NOON + HOUR)
    schedules.change(schedule, {"jitter": 5.0})
    assert fresh(schedule).next_fire_at == NOON


def test_no_change_is_none() -> None:
    schedule = make()
    schedules.change(schedule, {"name": "mine", "jitter": 0})
    assert len(told()) == 1


def test_one_that_is_off_stays_off() -> None:
    schedule = make(enabled=False)
    schedules.change(schedule, {"expression": "30 * * * *"})
    assert (fresh(schedule).enabled, fresh(schedule).next_fire_at) == (False, None)


def test_a_row_of_the_code_is_not_changed() -> None:
    schedule = make_schedule(app_label="app")
    with pytest.raises(Schedule.DoesNotExist):
        schedules.change(schedule, {"expression": "30 * * * *"})
    assert fresh(schedule).expression == "0 * * * *" and told() == []


# --- what a backfill would do ----------------------------------------------------------------


def test_what_is_missing_is_told_and_stays_missing() -> None:
    schedule = make_schedule()
    now = database_now(Database())
    Fire.objects.create(schedule=schedule, scheduled_for=NOON - 2 * HOUR, fired_at=now, outcome="skipped: missed")
    Fire.objects.create(schedule=schedule, scheduled_for=NOON - 3 * HOUR, fired_at=now, run_id=schedules.uuid7())
    found = missing(schedule, NOON - 4 * HOUR, NOON + DAY)
    assert found == ([NOON - 4 * HOUR, NOON - 2 * HOUR, NOON - HOUR], True)
    assert missing(schedule, NOON - 4 * HOUR, NOON, 2) == (found.instants[:2], False)
    assert missing(schedule, NOON - 4 * HOUR, NOON, 3) == found
    assert not Run.objects.exists()
    assert len(schedules.backfill(schedule, NOON - 4 * HOUR, NOON + DAY).run_ids) == 3


def test_many_that_have_their_runs_are_not_looked_through_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hand, "PORTION", 2)
    schedule = make_schedule()
    begin = NOON - DAY
    for number in range(12):
        Fire.objects.create(
            schedule=schedule, scheduled_for=begin + number * HOUR, fired_at=begin, run_id=schedules.uuid7()
        )
    assert missing(schedule, begin, NOON, 1) == ([], False)
    assert missing(schedule, begin, begin + 3 * HOUR, 1) == ([], True)


def test_a_backfill_does_not_look_through_it_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hand, "PORTION", 2)
    monkeypatch.setattr(schedules, "INSTANTS_MOST", 4)
    schedule, begin = make_schedule(), NOON - DAY
    for number in range(6):
        Fire.objects.create(
            schedule=schedule, scheduled_for=begin + number * HOUR, fired_at=begin, run_id=schedules.uuid7()
        )
    with pytest.raises(WindowFilled, match="The first 4 due instants from 2040-04-30T12:00:00"):
        schedules.backfill(schedule, begin, NOON, 1)
    assert schedules.backfill(schedule, begin, begin + 3 * HOUR, 1) == ([], True)
    done = schedules.backfill(schedule, begin + 4 * HOUR, NOON, 1)
    assert (len(done.run_ids), done.is_complete) == (1, False)
    assert fires(schedule)[-1] == (begin + 6 * HOUR, "backfilled")


def test_a_schedule_is_not_locked_while_its_past_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hand, "PORTION", 2)
    schedule, order = make_schedule(), list[str]()
    looked, filled = by_hand.without_run, by_hand.fill

    def look(*args: Any) -> Iterator[list[datetime]]:
        for portion in looked(*args):
            order.append("look")
            yield portion

    monkeypatch.setattr(by_hand, "without_run", look)
    monkeypatch.setattr(by_hand, "fill", lambda *args: order.append("fill") or filled(*args))
    assert len(schedules.backfill(schedule, NOON - 9 * HOUR, NOON, 4).run_ids) == 4
    assert order == sorted(order, reverse=True) and {"look", "fill"} == set(order)


def test_what_could_not_be_started_is_said_at_once() -> None:
    window = NOON - DAY, NOON
    with pytest.raises(UnknownWorkflow):
        missing(make_schedule(workflow="app.gone"), *window)
    with pytest.raises(InvalidInput):
        missing(make_schedule(input='{"letter": 1}', name="a"), *window)
    with pytest.raises(InvalidSchedule):
        missing(make_schedule(expression="61 * * * *", name="b"), *window)
    with pytest.raises(ValueError, match="ends before it begins"):
        missing(make_schedule(name="c"), NOON, NOON - DAY)


# --- what comes ------------------------------------------------------------------------------


@pytest.mark.parametrize("catch_up", ["latest", "none", "all"])
@pytest.mark.parametrize("hours", [0, 3, 9])
def test_what_is_told_to_come_is_what_a_worker_fires(catch_up: str, hours: int) -> None:
    schedule = make_schedule(catch_up=catch_up, overlap="allow")
    move_to(NOON + hours * HOUR + timedelta(minutes=1))
    now = database_now(Database())
    overdue, following = upcoming(schedule, 20, now)
    fire_loop().tick()
    assert [when for when, outcome in fires(schedule) if outcome == "fired"] == overdue
    assert len(overdue) + len(following) == 20
    assert following[0] == fresh(schedule).next_fire_at > now
    assert len(overdue) == {"latest": 1, "none": 0, "all": hours + 1}[catch_up]


def test_more_than_asked_for_is_not_told() -> None:
    schedule = make_schedule(catch_up="all")
    move_to(NOON + DAY)
    assert upcoming(schedule, 3, NOON + DAY) == ([NOON, NOON + HOUR, NOON + 2 * HOUR], [])


def test_what_is_not_due_comes_as_it_is_planned() -> None:
    schedule = make_schedule()
    assert upcoming(schedule, 2, NOON - HOUR) == ([], [NOON, NOON + HOUR])
    schedule.next_fire_at = None
    assert upcoming(schedule, 1, NOON - HOUR).overdue == []
