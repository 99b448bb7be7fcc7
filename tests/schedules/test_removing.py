"""A schedule of the operators' is removed: what goes with it, what stays, and what may come after it."""

from __future__ import annotations

import os
import pwd
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_durable.client import schedules
from django_durable.management.commands._schedules import find_schedule
from django_durable.models import Audit, Fire, Run, Schedule
from django_durable.store.database import Database
from django_durable.store.pruning import prune
from django_durable.workflows.definition import Workflow
from tests.schedules.making import (
    DAY,
    HOUR,
    NIGHTLY,
    advance,
    code_of,
    fire_loop,
    fires,
    make_schedule,
    make_workflow,
    move_to,
    runs,
    tick_until_done,
)
from tests.schedules.noon import NOON

pytestmark = [pytest.mark.django_db, pytest.mark.contract, pytest.mark.usefixtures("before_noon")]

WAS = "expression 0 * * * *, timezone UTC, overlap skip, catch_up latest, jitter 0.0"
ME = f"shell:{pwd.getpwuid(os.getuid()).pw_name}"


@pytest.fixture(autouse=True)
def workflow(monkeypatch: pytest.MonkeyPatch) -> Workflow[Any, Any]:
    made = make_workflow()
    monkeypatch.setattr(schedules, "find", {made.name: made}.get)
    return made


def told() -> list[tuple[str, ...]]:
    found = Audit.objects.filter(run=None).order_by("pk")
    return list(found.values_list("schedule", "verb", "actor", "reason", "status_before"))


def test_its_row_and_its_fires_go_and_its_runs_stay() -> None:
    row, other = make_schedule(overlap="allow"), make_schedule(name="other")
    loop = fire_loop()
    for hour in range(2):
        move_to(NOON + hour * HOUR)
        tick_until_done(loop)
    mine = {run_id for (run_id,) in Fire.objects.filter(schedule=row).values_list("run_id")}
    assert len(mine) == 2
    schedules.remove(row, reason="the branch was closed", actor="ada")
    assert list(Schedule.objects.all()) == [other]
    assert set(Fire.objects.values_list("schedule_id", flat=True)) == {other.pk}
    found = Run.objects.filter(pk__in=mine)
    assert {run.status for run in found} == {"queued"} and len(found) == 2
    assert {schedules.scheduled_for(run.pk) for run in found} == {None}
    was = WAS.replace("overlap skip", "overlap allow")
    assert told() == [("operator's", "remove", "ada", f"{was}: the branch was closed", "enabled")]


def test_nothing_that_is_due_fires_any_more() -> None:
    row, loop = make_schedule(catch_up="all"), fire_loop()
    move_to(NOON + 5 * HOUR)
    assert row.next_fire_at == NOON, "late by hours"
    schedules.remove(row)
    assert tick_until_done(loop) == 0
    advance(timedelta(days=2))
    assert tick_until_done(loop) == 0 and runs() == []


def test_one_whose_instant_waits_for_its_live_run_leaves_that_run_alone() -> None:
    row, loop = make_schedule(overlap="queue"), fire_loop()
    for hour in range(2):
        move_to(NOON + hour * HOUR)
        tick_until_done(loop)
    [run] = runs()
    schedules.remove(row)
    advance(timedelta(minutes=1))
    tick_until_done(loop)
    assert [(one.pk, one.status, one.cancel_requested_at) for one in runs()] == [(run.pk, "queued", None)]


@pytest.mark.parametrize(
    ("columns", "before"),
    [({"enabled": False}, "disabled"), ({"problem": "There is no such zone.", "next_fire_at": None}, "enabled")],
    ids=["disabled", "cannot fire"],
)
def test_one_that_does_not_fire_is_removed_as_well(columns: dict[str, Any], before: str) -> None:
    schedules.remove(make_schedule(**columns), actor="ada")
    assert not Schedule.objects.exists()
    assert told() == [("operator's", "remove", "ada", WAS, before)]


def test_it_is_removed_once() -> None:
    row = make_schedule()
    schedules.remove(row, actor="ada")
    assert row.pk, "who asked may still say which it was"
    with pytest.raises(Schedule.DoesNotExist):
        schedules.remove(row, actor="bob")
    assert [entry[2] for entry in told()] == ["ada"]


def test_what_the_code_declares_stays() -> None:
    code = code_of(make_workflow("0 3 * * *"))
    code.tick()
    row = Schedule.objects.get()
    with pytest.raises(Schedule.DoesNotExist):
        schedules.remove(row)
    assert Schedule.objects.get() == row and told() == []


def test_of_its_input_the_audit_says_nothing() -> None:
    schedules.remove(make_schedule(input='{"day":"secret"}'))
    assert "secret" not in str(told())


@pytest.mark.parametrize("verb", ["fire_now", "backfill", "enable", "disable", "change"])
def test_nothing_else_can_be_done_to_it(verb: str) -> None:
    row = make_schedule()
    schedules.remove(row)
    more: tuple[Any, ...] = {"backfill": (NOON - HOUR, NOON), "change": ({"jitter": 5.0},)}.get(verb, ())
    with pytest.raises(Schedule.DoesNotExist):
        getattr(schedules, verb)(row, *more)
    assert runs() == [] and len(told()) == 1


def test_one_that_is_made_again_begins_anew() -> None:
    """No instant that the one before has fired comes again; only a window that somebody asks for is filled anew."""
    row, loop = make_schedule(), fire_loop()
    move_to(NOON)
    tick_until_done(loop)
    schedules.remove(row, actor="ada")
    again = Schedule(workflow=NIGHTLY, name=row.name, expression=row.expression)
    schedules.create(again, actor="ada")
    tick_until_done(loop)
    assert fires(again) == [] and again.next_fire_at == NOON + HOUR
    assert len(schedules.backfill(again, NOON, NOON).run_ids) == 1
    assert [entry[1] for entry in told()] == ["remove", "create", "backfill"]


def test_the_schedule_of_the_code_that_had_to_stand_back_gets_its_name() -> None:
    code = code_of(make_workflow("0 3 * * *"))
    row = make_schedule(name=NIGHTLY)
    code.tick()
    assert Schedule.objects.get() == row and code.ids == []
    schedules.remove(row)
    code.tick()
    declared = Schedule.objects.get()
    assert (declared.app_label, declared.expression, code.ids) == ("app", "0 3 * * *", [declared.pk])


def test_retention_takes_its_runs_as_any_others_and_leaves_what_the_audit_says_of_the_removal() -> None:
    row, loop = make_schedule(), fire_loop()
    move_to(NOON)
    tick_until_done(loop)
    schedules.remove(row, reason="closed")
    [run] = runs()
    Run.objects.update(status="cancelled", finished_at=run.created_at, queued_at=None)
    advance(40 * DAY)
    prune(Database(), 100)
    assert runs() == [] and [entry[1] for entry in told()] == ["remove"]


# --- at a shell ------------------------------------------------------------------------------


def call(*arguments: str) -> str:
    out = StringIO()
    call_command("durable_unschedule", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_removes_one() -> None:
    make_schedule(), make_schedule(name="other")
    with pytest.raises(CommandError, match="has several schedules"):
        call(NIGHTLY)
    assert call(NIGHTLY, "operator's", "--reason", "closed") == f"Removed {NIGHTLY}: operator's.\n"
    assert Schedule.objects.get().name == "other"
    assert told() == [("operator's", "remove", ME, f"{WAS}: closed", "enabled")]
    with pytest.raises(CommandError, match="has no schedule called"):
        call(NIGHTLY, "operator's")


def test_the_command_says_why_it_leaves_one_of_the_code_alone() -> None:
    make_schedule(app_label="app")
    with pytest.raises(CommandError, match="belongs to the code of 'app', and the next worker would bring it back"):
        call(NIGHTLY)
    assert Schedule.objects.exists()


WINDOW = ("--since", "2040-05-01T06:00Z", "--until", "2040-05-01T12:00Z")


@pytest.mark.parametrize(("verb", "given"), [("unschedule", ()), ("fire", ()), ("backfill", WINDOW)])
def test_the_command_says_that_one_went_while_it_looked(
    verb: str, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"django_durable.management.commands.durable_{verb}"
    found = find_schedule

    def removed_meanwhile(*which: Any) -> Schedule:
        row = found(*which)
        schedules.remove(row)
        return row

    monkeypatch.setattr(f"{module}.find_schedule", removed_meanwhile)
    make_schedule()
    with pytest.raises(CommandError, match="operator's is gone already"):
        call_command(f"durable_{verb}", NIGHTLY, *given)
