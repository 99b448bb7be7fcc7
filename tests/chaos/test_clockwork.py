"""What a schedule has left out, done twice or not brought to an end is found: planted among fires that are right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from django_durable.models import Fire, Run, Schedule
from django_durable.store.scheduling import FIRED
from tests.app.workflows import doubling
from tests.chaos.clockwork import STEP, Clockwork

pytestmark = pytest.mark.django_db(transaction=True)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clockwork() -> Clockwork:
    """One that has fired at five instants."""
    clockwork = Clockwork()
    for number in range(5):
        add(FIRST + STEP * number)
    return clockwork


def add(instant: datetime) -> None:
    run_id = doubling.enqueue(1).id
    Run.objects.filter(pk=run_id).update(status="succeeded", finished_at=instant, queued_at=None)
    Fire.objects.create(
        schedule=Schedule.objects.get(), scheduled_for=instant, fired_at=instant, run_id=run_id, outcome=FIRED
    )


def at(number: int) -> Fire:
    return Fire.objects.get(scheduled_for=FIRST + STEP * number)


def share_a_run() -> None:
    Fire.objects.filter(pk=at(2).pk).update(run_id=at(3).run_id)


def test_what_went_well_is_right(clockwork: Clockwork) -> None:
    assert list(clockwork.wrong()) == []


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (lambda: at(2).delete(), "has not fired at 00:00:02"),
        (lambda: add(FIRST + STEP * 2.5), "has fired out of time at 00:00:02.5"),
        (lambda: Fire.objects.filter(pk=at(1).pk).update(outcome="skipped"), "00:00:01 is skipped"),
        (lambda: Run.objects.filter(pk=at(4).run_id).update(status="failed"), "its run failed"),
        (lambda: Run.objects.filter(pk=at(4).run_id).delete(), "its run None"),
        (share_a_run, "two instants of the schedule have one run"),
        (lambda: Fire.objects.all().delete(), "has never fired"),
    ],
)
def test_what_is_planted_is_found(clockwork: Clockwork, plant: Callable[[], object], words: str) -> None:
    plant()
    [wrong] = clockwork.wrong()
    assert words in wrong
