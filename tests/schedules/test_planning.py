"""Which instants fire at a given time: no database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_durable.exceptions import InvalidSchedule
from django_durable.models import Schedule
from django_durable.store.scheduling import Plan, delay_of, make_plan
from tests.schedules.making import DAY, HOUR, at

GRACE = timedelta(seconds=10)
NOON = at("2024-05-01T12:00:00")


def schedule(expression: str = "0 * * * *", **more: Any) -> Schedule:
    return Schedule(workflow="app.nightly", name="one", expression=expression, **more)


def plan(row: Schedule, due: datetime | None, now: datetime, limit: int = 50) -> Plan:
    return make_plan(row, due, now, grace=GRACE, limit=limit)


@pytest.mark.parametrize("catch_up", ["latest", "none", "all"])
def test_an_instant_on_time_fires_and_the_next_follows_from_it(catch_up: str) -> None:
    row = schedule(catch_up=catch_up)
    assert plan(row, NOON, NOON + GRACE / 2) == Plan([NOON], NOON + HOUR, None)


@pytest.mark.parametrize("catch_up", ["latest", "none", "all"])
def test_a_little_late_is_not_missed(catch_up: str) -> None:
    row = schedule("* * * * * *", catch_up=catch_up)
    expected = [NOON + timedelta(seconds=second) for second in range(4)]
    assert plan(row, NOON, NOON + timedelta(seconds=3.5)) == Plan(expected, NOON + timedelta(seconds=4), None)


def test_latest_makes_up_for_a_week_with_one_instant() -> None:
    now = NOON + 7 * DAY + HOUR / 2
    assert plan(schedule(), NOON, now) == Plan([NOON + 7 * DAY], NOON + 7 * DAY + HOUR, NOON)


def test_latest_of_one_missed_instant_misses_nothing() -> None:
    assert plan(schedule(), NOON, NOON + HOUR / 2) == Plan([NOON], NOON + HOUR, None)


def test_none_makes_up_for_nothing() -> None:
    now = NOON + 7 * DAY + HOUR / 2
    assert plan(schedule(catch_up="none"), NOON, now) == Plan([], NOON + 7 * DAY + HOUR, NOON)


def test_none_fires_what_is_only_a_little_late_after_downtime() -> None:
    now = NOON + 7 * DAY + GRACE / 2
    assert plan(schedule(catch_up="none"), NOON, now) == Plan([NOON + 7 * DAY], NOON + 7 * DAY + HOUR, NOON)


def test_all_makes_up_for_each_in_bounded_portions() -> None:
    row, now = schedule(catch_up="all"), NOON + 7 * DAY
    first = plan(row, NOON, now, limit=50)
    assert first.instants == [NOON + HOUR * number for number in range(50)]
    assert first.next == NOON + 50 * HOUR
    assert len(plan(row, first.next, now, limit=500).instants) == 7 * 24 + 1 - 50


def test_a_week_of_seconds_is_planned_at_once() -> None:
    found = plan(schedule("* * * * * *"), NOON, NOON + 7 * DAY)
    assert found == Plan([NOON + 7 * DAY], NOON + 7 * DAY + timedelta(seconds=1), NOON)


def test_a_row_without_a_next_instant_is_planned_and_fires_nothing() -> None:
    assert plan(schedule(), None, NOON) == Plan([], NOON + HOUR, None)


@pytest.mark.parametrize(
    ("expression", "due", "following"),
    [
        # Berlin, 31 March 2024: 2:00 to 3:00 does not exist; the first instant after the gap is 3:00 = 1:00 UTC.
        ("30 2 * * *", "2024-03-31T01:00:00", "2024-04-01T00:30:00"),
        # 27 October 2024: 2:30 comes twice; it fires at the first, 0:30 UTC.
        ("30 2 * * *", "2024-10-27T00:30:00", "2024-10-28T01:30:00"),
        # An hour field that starts with * fires in both of the repeated hours.
        ("30 * * * *", "2024-10-27T00:30:00", "2024-10-27T01:30:00"),
    ],
)
def test_at_a_change_of_the_clocks_each_instant_fires_once(expression: str, due: str, following: str) -> None:
    row = schedule(expression, timezone="Europe/Berlin")
    for late in (0, 1, 5):
        found = plan(row, at(due), at(due) + timedelta(seconds=late))
        assert found == Plan([at(due)], at(following), None)
    before = at(due) - timedelta(minutes=1)
    assert plan(row, None, before).next == at(due)


@pytest.mark.parametrize(
    "wrong",
    [
        {"expression": "61 * * * *"},
        {"expression": "0 0 30 2 *"},
        {"timezone": "Mars/Olympus"},
        {"overlap": "perhaps"},
        {"catch_up": "some"},
        {"jitter": -1.0},
    ],
)
def test_a_row_that_cannot_fire_says_why(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule):
        plan(schedule(**wrong), NOON, NOON)


def test_jitter_is_the_same_for_an_instant_and_spreads_over_instants() -> None:
    row = schedule(jitter=60.0)
    delays = [delay_of(row, NOON + HOUR * number) for number in range(200)]
    assert delays == [delay_of(row, NOON + HOUR * number) for number in range(200)]
    assert all(0 <= delay <= 60 for delay in delays)
    assert min(delays) < 6 and max(delays) > 54
    assert len(set(delays)) == 200
    other = schedule(jitter=60.0)
    other.name = "two"
    assert delay_of(other, NOON) != delay_of(row, NOON)
    assert delay_of(row, NOON) == delay_of(row, NOON.astimezone(UTC))
    assert delay_of(schedule(), NOON) == 0
