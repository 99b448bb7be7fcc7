"""Schedules in code become rows when a worker starts."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_durable.core.payloads.codec import decode
from django_durable.core.schedules.cron import Cron
from django_durable.models import Fire, Schedule
from django_durable.worker.loops.synchronise import Synchronise, declared_by
from tests.schedules.making import (
    DAY,
    HOUR,
    NIGHTLY,
    advance,
    at,
    code_of,
    fire_loop,
    fresh,
    make_schedule,
    make_workflow,
    move_to,
    outcomes,
)
from tests.schedules.noon import NOON

pytestmark = [pytest.mark.django_db, pytest.mark.contract, pytest.mark.usefixtures("before_noon")]

GRACE = timedelta(seconds=60)
"""Two leases."""


def start(*crons: Any, **more: Any) -> Synchronise:
    """A worker starts with this code."""
    code = code_of(make_workflow(*crons, **more))
    code.tick()
    return code


def row(name: str = NIGHTLY) -> Schedule:
    found: Schedule = Schedule.objects.get(name=name)
    return found


def names() -> list[str]:
    return sorted(Schedule.objects.values_list("name", flat=True))


# --- coming into being -----------------------------------------------------------------------


def test_a_schedule_in_code_becomes_a_row() -> None:
    cron = Cron(
        "0 6 * * *",
        timezone="Europe/Berlin",
        input={"day": "monday", "note": None},
        overlap="queue",
        catch_up="all",
        jitter=5,
    )
    code = start(cron)
    found = row()
    assert (found.workflow, found.app_label, found.expression, found.timezone) == (
        NIGHTLY,
        "app",
        "0 6 * * *",
        "Europe/Berlin",
    )
    assert (found.overlap, found.catch_up, found.jitter, found.enabled) == ("queue", "all", 5, True)
    assert decode(found.input or "") == {"day": "monday", "note": None}
    assert found.next_fire_at == at("2040-05-02T04:00:00")
    assert found.problem == "" and code.ids == [found.pk]


def test_names_do_not_depend_on_expressions() -> None:
    start("0 6 * * *", Cron("0 7 * * *", name="seven"), "0 8 * * *")
    assert {one.name: one.expression for one in Schedule.objects.all()} == {
        NIGHTLY: "0 6 * * *",
        "seven": "0 7 * * *",
        f"{NIGHTLY} 2": "0 8 * * *",
    }


@pytest.mark.behaviour("SCHED-01d")
def test_names_fit_their_column_whatever_the_workflow_is_called() -> None:
    workflow = make_workflow("0 6 * * *", "0 7 * * *", name="w" * 200)
    code_of(workflow).tick()
    assert sorted(map(len, names())) == [196, 200]


@pytest.mark.behaviour("SCHED-01d")
def test_names_may_be_any_text() -> None:
    wild = ["naïve ☃", "50% 'off'", 'back\\slash "quoted"', "%(name)s {0}"]
    start(*[Cron("0 6 * * *", name=name) for name in wild])
    assert names() == sorted(wild)


@pytest.mark.behaviour("SCHED-01d")
def test_a_name_is_its_workflow_s_own() -> None:
    code_of(
        make_workflow(Cron("0 6 * * *", name="b:c"), name="a"),
        make_workflow(Cron("0 7 * * *", name="b:c"), Cron("0 8 * * *", name="c"), name="a:b"),
    ).tick()
    found = Schedule.objects.order_by("expression").values_list("workflow", "name", "expression")
    assert list(found) == [("a", "b:c", "0 6 * * *"), ("a:b", "b:c", "0 7 * * *"), ("a:b", "c", "0 8 * * *")]


def test_a_second_start_changes_nothing() -> None:
    start("0 6 * * *")
    before = Schedule.objects.values().get()
    advance(timedelta(seconds=1))
    start("0 6 * * *")
    assert Schedule.objects.values().get() == before


# --- changes ---------------------------------------------------------------------------------


def test_an_unchanged_schedule_keeps_its_next_instant_and_the_operators_switch() -> None:
    start("0 6 * * *", Cron("0 * * * *", name="hourly"))
    Schedule.objects.filter(name="hourly").update(enabled=False)
    move_to(NOON + 2 * DAY)  # due, and not fired yet: a start must not lose it
    start("0 6 * * *", Cron("0 * * * *", name="hourly"))
    assert row().next_fire_at == at("2040-05-02T06:00:00")
    assert not row("hourly").enabled


@pytest.mark.behaviour("SCHED-01f")
@pytest.mark.parametrize(
    ("changed", "following"),
    [(Cron("30 * * * *"), "2040-05-01T12:30:00"), (Cron("0 6 * * *", timezone="Asia/Tokyo"), "2040-05-01T21:00:00")],
)
def test_a_changed_expression_replaces_and_plans_anew(changed: Cron, following: str) -> None:
    start("0 6 * * *")
    pk = row().pk
    Schedule.objects.update(enabled=False)
    start(changed)
    found = row()
    assert (found.pk, found.expression, found.timezone) == (pk, changed.expression, changed.timezone)
    assert not found.enabled, "the operator's switch is not the deploy's to turn"
    Schedule.objects.update(enabled=True)
    start(changed)
    assert row().next_fire_at == at(following)


def test_other_changes_keep_the_next_instant() -> None:
    start("0 * * * *")
    move_to(NOON + HOUR / 2)
    start(Cron("0 * * * *", input={"day": "friday"}, overlap="allow", catch_up="none", jitter=3))
    found = row()
    assert (found.overlap, found.catch_up, found.jitter) == ("allow", "none", 3)
    assert found.next_fire_at == NOON


def test_enabled_in_code_counts_when_it_changes() -> None:
    start(Cron("0 * * * *", enabled=False))
    assert not row().enabled and row().next_fire_at is None
    Schedule.objects.update(enabled=True)
    start(Cron("0 * * * *", enabled=False))
    assert row().enabled
    start(Cron("0 * * * *", enabled=True))
    start(Cron("0 * * * *", enabled=False))
    assert not row().enabled


def test_only_a_start_writes_changes_so_that_two_versions_do_not_write_in_turns() -> None:
    old = start("0 6 * * *")
    start("0 7 * * *")
    advance(timedelta(minutes=1))
    old.tick()
    assert row().expression == "0 7 * * *"


def test_a_row_that_vanished_comes_back() -> None:
    code = start("0 6 * * *")
    Schedule.objects.all().delete()
    code.tick()
    assert names() == [NIGHTLY] and code.ids == [row().pk]


# --- what is removed, and what is not touched ------------------------------------------------


@pytest.mark.behaviour("SCHED-01g")
def test_a_schedule_that_no_code_has_any_more_is_not_fired_and_goes_after_a_grace_time() -> None:
    move_to(NOON - timedelta(seconds=5))
    start("0 12 * * *", Cron("0 12 * * *", name="old"))
    old = row("old")
    move_to(NOON)
    workflow = make_workflow("0 12 * * *")
    fire_loop(workflow).tick()
    assert outcomes(row()) == ["fired"] and outcomes(old) == []
    code = code_of(workflow)
    code.tick()
    assert names() == [NIGHTLY, "old"]
    advance(GRACE)
    code.tick()
    assert names() == [NIGHTLY]


def test_while_a_worker_with_the_old_code_lives_its_schedules_stay() -> None:
    old, new = start(Cron("0 6 * * *", name="old")), start(Cron("0 6 * * *", name="new"))
    for _ in range(10):
        advance(GRACE / 4)
        old.tick()
        new.tick()
    assert names() == ["new", "old"]
    for _ in range(10):
        advance(GRACE / 4)
        new.tick()
    assert names() == ["new"]


def test_the_fires_of_a_removed_schedule_go_with_it() -> None:
    start("0 12 * * *")
    Fire.objects.create(schedule=row(), scheduled_for=NOON, fired_at=NOON, outcome="fired")
    advance(2 * GRACE)
    start()
    assert names() == [] and not Fire.objects.exists()


def test_rows_that_nobody_ever_declared_go_at_once() -> None:
    make_schedule(name="forged", app_label="app")
    start("0 6 * * *")
    assert names() == [NIGHTLY]


@pytest.mark.behaviour("SCHED-01i")
@pytest.mark.parametrize("app_label", ["", "other_app"])
def test_rows_of_operators_and_of_other_apps_are_never_touched(app_label: str) -> None:
    made = make_schedule("5 5 * * *", app_label=app_label, name="theirs", next_fire_at=NOON - DAY)
    before = Schedule.objects.filter(pk=made.pk).values().get()
    code = start("0 6 * * *")
    advance(10 * GRACE)
    code.tick()
    start()
    assert Schedule.objects.filter(pk=made.pk).values().get() == before


def test_an_operators_row_under_the_same_name_stays_the_operators() -> None:
    made = make_schedule("5 5 * * *", name=NIGHTLY)
    code = start("0 6 * * *")
    assert code.ids == []
    assert fresh(made).expression == "5 5 * * *" and fresh(made).app_label == ""


def test_a_schedule_moves_with_its_workflow_to_another_app() -> None:
    start("0 6 * * *", app="other_app")
    pk = row().pk
    start("0 6 * * *")
    assert (row().pk, row().app_label) == (pk, "app")


# --- what is wrong ---------------------------------------------------------------------------


@pytest.mark.behaviour("SCHED-01h")
@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ("no cron", "fields"),
        ("0 0 31 2 *", "no such date"),
        (Cron("0 6 * * *", input={"unknown": 1}), "unknown"),
        (Cron("0 6 * * *", input={"day": object()}), "day"),
        (17, "string"),
        ("nul \x00 and \ud800", "ASCII"),
        (Cron("0 6 * * *", name="bad\x00name"), "control characters"),
        (Cron("0 6 * * *", name="n" * 300), "longer"),
    ],
)
def test_an_invalid_one_stops_only_itself(bad: Any, word: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        start(Cron("0 6 * * *", name="good"), bad, Cron("0 7 * * *", name="also good"))
    (broken,) = Schedule.objects.exclude(problem="")
    assert word in broken.problem and broken.next_fire_at is None and word in caplog.text
    assert Schedule.objects.filter(problem="", next_fire_at__isnull=False).count() == 2


def test_a_corrected_schedule_has_no_problem_any_more() -> None:
    start("no cron")
    start("0 * * * *")
    assert row().problem == "" and row().next_fire_at == NOON


def test_a_schedule_that_is_broken_by_a_deploy_stops() -> None:
    start("0 * * * *")
    start("no cron")
    assert row().problem and row().next_fire_at is None


@pytest.mark.behaviour("SCHED-01e")
def test_one_name_twice_in_a_workflow_is_refused_and_the_first_stays() -> None:
    start(Cron("0 6 * * *", name="twice"), Cron("0 7 * * *", name="twice"))
    assert row("twice").expression == "0 6 * * *" and not row("twice").problem
    other = row("twice (duplicate)")
    assert "another schedule" in other.problem and other.next_fire_at is None


def test_what_is_no_list_at_all_is_one_bad_schedule() -> None:
    workflow = make_workflow()
    object.__setattr__(workflow.options, "cron", 17)
    (one,) = declared_by(workflow)
    assert one.problem


# --- switches and cost -----------------------------------------------------------------------


def test_a_schedule_that_is_enabled_again_in_the_table_does_not_make_up_for_the_pause() -> None:
    made = make_schedule("0 12 * * *")
    Schedule.objects.update(enabled=False)
    loop = fire_loop()
    move_to(NOON + 7 * DAY + HOUR)
    Schedule.objects.update(enabled=True)
    loop.tick()
    assert outcomes(made) == [] and fresh(made).next_fire_at == NOON + 8 * DAY


def test_confirming_costs_two_looks_and_at_most_one_update() -> None:
    code = start("0 6 * * *")
    advance(timedelta(seconds=15))
    with CaptureQueriesContext(connection) as queries:
        code.tick()
    assert len(queries) <= 3
    assert code.interval == 15.0
