"""Plants: fires."""

from __future__ import annotations

from uuid import uuid4

from django.db import connection
from django.utils import timezone

from tests.commands.checking import (
    FIRE,
    a_fire,
    a_schedule,
    sound,
)
from tests.commands.conftest import allow_anything
from tests.commands.plants.planting import Plant, Planted
from tests.commands.rows import execute


def fired_twice() -> Planted:
    schedule, second = a_schedule(), sound()
    first = a_fire(schedule, run=sound())
    again = a_fire(schedule, minutes=2, run=second)
    if connection.vendor == "postgresql":
        # A table whose foreign keys are still to be checked keeps its constraints.
        execute("SET CONSTRAINTS ALL IMMEDIATE")
    allow_anything(FIRE, "durable_fire_once")
    instant = "(SELECT f.scheduled_for FROM django_durable_fire f WHERE f.id = %s)"
    execute(f"UPDATE {FIRE} SET scheduled_for = {instant} WHERE id = %s", first.pk, again.pk)
    return second.pk, f"an instant of schedule {schedule.pk} fired twice"


def fired_for_nothing() -> Planted:
    schedule = a_schedule()
    a_fire(schedule)
    return None, f"a fire of schedule {schedule.pk} that started no run"


def skipped_and_started() -> Planted:
    schedule, run = a_schedule(), sound()
    a_fire(schedule, run=run, outcome="skipped: overlap")
    return run.pk, f"a skipped instant of schedule {schedule.pk} with a run"


def one_run_for_two_fires() -> Planted:
    schedule, run = a_schedule(), sound()
    a_fire(schedule, run=run, outcome="backfilled")
    a_fire(schedule, minutes=2, run=run)
    return run.pk, f"the run of two fires, one of schedule {schedule.pk}"


def fired_a_run_that_is_not() -> Planted:
    schedule, gone = a_schedule(), uuid4()
    a_fire(schedule, run_id=gone)
    return gone, f"no run, but a fire of schedule {schedule.pk} names it"


def planned_back() -> Planted:
    at = timezone.now()
    schedule = a_schedule(next_fire_at=at, last_scheduled_for=at)
    return None, f"schedule {schedule.pk} would fire an instant again that it has fired"


PLANTS: dict[str, list[Plant]] = {
    "I15": [
        fired_twice,
        fired_for_nothing,
        skipped_and_started,
        one_run_for_two_fires,
        fired_a_run_that_is_not,
        planned_back,
    ],
}
