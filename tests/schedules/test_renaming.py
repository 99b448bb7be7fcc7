"""Schedules of a workflow that gets another name: one row, whose instants fire once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_durable.core.schedules.cron import Cron
from django_durable.models import Run, Schedule
from tests.schedules.making import HOUR, NIGHTLY, advance, code_of, fire_loop, make_schedule, make_workflow, move_to
from tests.schedules.noon import NOON

pytestmark = [pytest.mark.django_db, pytest.mark.contract]

GRACE = timedelta(seconds=61)
"""Two leases, and a little."""
RENAMED = "app.close_day"


def before(*crons: Any) -> Any:
    return make_workflow(*(crons or ("@hourly",)))


def after(*crons: Any) -> Any:
    return make_workflow(*(crons or ("@hourly",)), name=RENAMED, aliases=[NIGHTLY])


@pytest.fixture(autouse=True)
def _just_before_noon() -> None:
    move_to(NOON - timedelta(minutes=10))


def keys() -> list[tuple[str, str]]:
    return sorted(Schedule.objects.values_list("workflow", "name"))


def test_old_and_new_code_fire_each_instant_once() -> None:
    old, new = fire_loop(before()), fire_loop(after())
    assert keys() == [(NIGHTLY, NIGHTLY)]
    move_to(NOON)
    assert (new.tick(), old.tick()) == (1, 0)
    # The new code fires what it has the code for, under the name of today.
    assert [run.workflow for run in Run.objects.all()] == [RENAMED]
    advance(HOUR)
    for code in (old._code, new._code):
        code.tick()
    assert (old.tick(), new.tick()) == (1, 0)
    assert keys() == [(NIGHTLY, NIGHTLY)]


def test_the_row_is_taken_over_when_the_old_code_is_gone() -> None:
    code_of(before("0 * * * *", Cron("30 * * * *", name="half", timezone="Europe/Berlin"))).tick()
    ids = set(Schedule.objects.values_list("pk", flat=True))
    Schedule.objects.update(enabled=False)
    new = code_of(after("0 * * * *", Cron("45 * * * *", name="half")))
    new.tick()
    advance(GRACE)
    new.tick()
    assert keys() == [(RENAMED, RENAMED), (RENAMED, "half")]
    rows = Schedule.objects.all()
    # The same rows, the operator's switch as it was, and the definition of the new code.
    assert ({row.pk for row in rows}, {row.enabled for row in rows}) == (ids, {False})
    assert Schedule.objects.get(name="half").expression == "45 * * * *"
    assert sorted(new.ids) == sorted(ids)


def test_nothing_is_missed_between_the_one_and_the_other() -> None:
    code_of(before()).tick()
    move_to(NOON - timedelta(seconds=5))
    # A minute without any worker, and noon in it.
    advance(GRACE)
    loop = fire_loop(after())
    assert keys() == [(RENAMED, RENAMED)]
    assert loop.tick() == 1
    assert [run.workflow for run in Run.objects.all()] == [RENAMED]


def test_rows_of_the_operator_keep_their_name_and_fire_the_new_code() -> None:
    make_schedule("@hourly")
    loop = fire_loop(after("@yearly"))
    advance(GRACE)
    loop._code.tick()
    assert keys() == [(RENAMED, RENAMED), (NIGHTLY, "operator's")]
    move_to(NOON)
    assert loop.tick() == 1
    assert [run.workflow for run in Run.objects.all()] == [RENAMED]


def test_a_row_that_the_new_name_has_already_is_the_one() -> None:
    """Somebody went back to the old code for a while."""
    code_of(make_workflow("@hourly", name=RENAMED)).tick()
    code_of(before()).tick()
    new = code_of(after())
    new.tick()
    assert keys() == [(RENAMED, RENAMED), (NIGHTLY, NIGHTLY)]
    advance(GRACE)
    new.tick()
    assert keys() == [(RENAMED, RENAMED)]


def test_a_workflow_that_took_the_old_name_of_another_s_schedule_keeps_its_own() -> None:
    named = make_workflow(Cron("@hourly", name="often"), name=RENAMED, aliases=["app.gone"])
    code = code_of(before(Cron("@hourly", name="often")), named)
    code.tick()
    assert keys() == [(RENAMED, "often"), (NIGHTLY, "often")]
