"""Each invariant with a violation planted: found, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from django_durable.models import Fire
from django_durable.store.invariants import INVARIANTS
from tests.commands.checking import HOUR, a_fire, a_schedule, sound
from tests.commands.conftest import Call
from tests.commands.plants import attempts, claims, endings, families, journals, schedules, values
from tests.commands.plants.planting import MAX_BYTES, Plant
from tests.commands.plants.values import LONG

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
SUBJECTS = (endings, claims, journals, schedules, attempts, values, families)
PLANTS = {name: plants for subject in SUBJECTS for name, plants in subject.PLANTS.items()}
ALL = [(name, plant) for name, plants in PLANTS.items() for plant in plants]


@pytest.fixture(autouse=True)
def _small_values(settings: Any) -> Iterator[None]:
    settings.DURABLE = {**settings.DURABLE, "MAX_PAYLOAD_BYTES": MAX_BYTES, "WARN_PAYLOAD_BYTES": MAX_BYTES}
    yield


def test_there_is_a_plant_for_every_invariant() -> None:
    assert PLANTS.keys() == {invariant.id for invariant in INVARIANTS} | {"I20b"}


@pytest.mark.parametrize(("name", "plant"), ALL, ids=[f"{name}-{number}" for number, (name, _) in enumerate(ALL)])
def test_a_planted_violation_is_found_and_nothing_else(call: Call, name: str, plant: Plant) -> None:
    sound()
    run_id, problem = plant()
    sound()
    called = call("durable_check", "--payloads", "--json")
    [(broken, [found])] = violations(called.data).items()
    assert (broken, found["run"]) == (name, run_id and str(run_id))
    assert found["problem"] == problem or (problem.endswith(": ") and found["problem"].startswith(problem))
    assert (called.failed, called.data["ok"], called.data["known"]) == ("1 violation found.", False, True)


# The first of each, and a name, whose statement is another one.
@pytest.mark.parametrize(
    ("name", "plant"), [*((name, plants[0]) for name, plants in PLANTS.items()), ("I20", LONG[-1])]
)
def test_it_is_found_in_the_smallest_windows(call: Call, name: str, plant: Plant) -> None:
    sound()
    run_id, problem = plant()
    sound()
    called = call("durable_check", "--payloads", "--json", "--batch-size", 1)
    [(broken, [found])] = violations(called.data).items()
    assert (broken, found["run"]) == (name, run_id and str(run_id))
    text = call("durable_check", "--only", name).out
    assert f"VIOLATED  {name} " in text
    assert f"{run_id or '-'}  {problem}" in text


def violations(data: Any) -> dict[str, list[dict[str, str]]]:
    return {name: found["violations"] for name, found in data["invariants"].items() if found["violations"]}


def test_fires_and_their_runs_that_are_as_they_should_be(call: Call) -> None:
    schedule, run = a_schedule(last_scheduled_for=timezone.now() - HOUR, next_fire_at=timezone.now() + HOUR), sound()
    a_fire(schedule, run=run)
    a_fire(schedule, minutes=2, run=run, outcome="debounced")
    a_fire(schedule, minutes=3, outcome="skipped: overlap")
    # Retention has removed its run.
    a_fire(schedule, minutes=90, run_id=uuid4())
    assert Fire.objects.count() == 4
    assert call("durable_check").failed is None
