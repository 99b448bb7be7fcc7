"""Who asked what of a schedule, when and why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from django_durable.client import schedules
from django_durable.core.ids import uuid7
from django_durable.core.schedules.cron import Cron
from django_durable.models import Audit, Schedule
from django_durable.store.database import Database
from django_durable.store.pruning import prune
from django_durable.workflows.definition import Workflow
from tests.admin.world import make_run
from tests.schedules.making import DAY, HOUR, NIGHTLY, advance, code_of, make_schedule, make_workflow, move_to
from tests.schedules.noon import NOON

pytestmark = pytest.mark.django_db

GRACE = timedelta(seconds=61)
"""Two leases, and a little."""


@pytest.fixture(autouse=True)
def _just_after_noon() -> None:
    move_to(NOON + timedelta(minutes=1))


@pytest.fixture
def workflow(monkeypatch: pytest.MonkeyPatch) -> Workflow[Any, Any]:
    """The one that the schedules name; found although it is in no registry."""
    made = make_workflow()
    monkeypatch.setattr(schedules, "find", {made.name: made}.get)
    return made


def told(workflow: str = NIGHTLY) -> list[tuple[str, ...]]:
    found = Audit.objects.filter(workflow=workflow).order_by("pk")
    return list(found.values_list("schedule", "verb", "actor", "reason", "status_before"))


@pytest.mark.contract
def test_a_switch_that_is_turned_is_told_and_one_that_stands_so_is_not() -> None:
    row = make_schedule()
    schedules.disable(row, reason="holidays", actor="ada")
    schedules.disable(row, reason="again", actor="bob")
    schedules.enable(row, actor="ada")
    schedules.enable(row, reason="again", actor="bob")
    assert told() == [
        ("operator's", "disable", "ada", "holidays", "enabled"),
        ("operator's", "enable", "ada", "", "disabled"),
    ]
    entry = Audit.objects.latest("pk")
    assert entry.run_id is None and abs(entry.at - (NOON + timedelta(minutes=1))) < timedelta(minutes=1)


def test_a_fire_is_told_of_the_run_and_of_the_schedule(workflow: Workflow[Any, Any]) -> None:
    row = make_schedule(enabled=False)
    run_id = schedules.fire_now(row, "the night was lost", "ada")
    assert told() == [("operator's", "fire", "ada", f"run {run_id}: the night was lost", "disabled")]
    assert Audit.objects.get(run_id=run_id).verb == "fire"


def test_a_backfill_tells_its_window(workflow: Workflow[Any, Any]) -> None:
    row = make_schedule()
    window = (NOON - 3 * HOUR, NOON)
    schedules.backfill(row, *window, limit=3, reason="the disk was full", actor="ada")
    schedules.backfill(row, *window, actor="ada")
    schedules.backfill(row, *window, actor="bob")
    assert told() == [
        ("operator's", "backfill", "ada", f"3 runs, {at_hour(9)} to {at_hour(11)}: the disk was full", "enabled"),
        ("operator's", "backfill", "ada", f"1 run, {at_hour(12)}", "enabled"),
    ]


def at_hour(hour: int) -> str:
    return f"2040-05-01T{hour:02}:00:00+00:00"


@pytest.mark.contract
def test_what_goes_with_its_code_is_remembered_and_found_when_it_is_back() -> None:
    code_of(make_workflow(Cron("0 * * * *", name="hourly"))).tick()
    schedules.disable(Schedule.objects.get(), reason="holidays", actor="ada")
    gone = code_of(make_workflow())
    advance(GRACE)
    gone.tick()
    assert not Schedule.objects.exists()
    assert told() == [
        ("hourly", "disable", "ada", "holidays", "enabled"),
        ("hourly", "remove", "", "in the code no more", "disabled"),
    ]


def test_the_code_that_turns_a_switch_says_so() -> None:
    code_of(make_workflow(Cron("0 * * * *", name="hourly"))).tick()
    code_of(make_workflow(Cron("0 * * * *", name="hourly", enabled=False))).tick()
    code_of(make_workflow(Cron("30 * * * *", name="hourly", enabled=False))).tick()
    assert told() == [("hourly", "disable", "", "the code says so", "enabled")]


def test_what_was_told_goes_along_to_the_new_name_of_its_workflow() -> None:
    code_of(make_workflow("0 * * * *")).tick()
    schedules.disable(Schedule.objects.get(), reason="holidays", actor="ada")
    new = code_of(make_workflow("0 * * * *", name="app.close_day", aliases=[NIGHTLY]))
    advance(GRACE)
    new.tick()
    assert told() == [] and told("app.close_day") == [("app.close_day", "disable", "ada", "holidays", "enabled")]


def test_fires_are_forgotten_with_their_runs_and_switches_never(workflow: Workflow[Any, Any]) -> None:
    row = make_schedule()
    schedules.disable(row, reason="holidays", actor="ada")
    schedules.fire_now(row)
    schedules.backfill(row, NOON, NOON)
    advance(29 * DAY)
    schedules.fire_now(row, "young")
    prune(Database(), 100)
    assert len(told()) == 4
    advance(2 * DAY)
    prune(Database(), 100)
    assert [(entry[1], entry[3].rpartition(" ")[2]) for entry in told()] == [("disable", "holidays"), ("fire", "young")]


@pytest.mark.contract
@pytest.mark.parametrize("of_a_run", [True, False])
def test_an_entry_is_of_a_run_or_of_one_other_thing(of_a_run: bool) -> None:
    both = {"run_id": make_run().pk, "workflow": NIGHTLY, "schedule": "daily"} if of_a_run else {}
    with pytest.raises(IntegrityError), transaction.atomic():
        Audit.objects.create(verb="disable", status_before="", **both)
    with pytest.raises(IntegrityError), transaction.atomic():
        more = {"run_id": uuid7()} if of_a_run else {"queue": "vip"}
        Audit.objects.create(verb="disable", status_before="", workflow=NIGHTLY, **more)
