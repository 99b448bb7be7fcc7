"""Particular instants, and what is refused. tests/schedules/test_oracle.py has the changes of the clocks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from django_durable.core import clock
from django_durable.core.schedules.cron import LAST, Cron, Fields, fields_of, fires_between, latest_fire, next_fire
from django_durable.exceptions import InvalidSchedule

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)

# --- particular instants ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "key", "after", "expected"),
    [
        ("0 6 * * *", "Europe/Berlin", "2024-07-01T00:00+00:00", "2024-07-01T04:00+00:00"),
        ("@daily", "Asia/Tokyo", "2024-07-01T00:00+00:00", "2024-07-01T15:00+00:00"),
        ("@hourly", "UTC", "2024-07-01T00:00+00:00", "2024-07-01T01:00+00:00"),
        (" @yearly ", "UTC", "2024-07-01T00:00+00:00", "2025-01-01T00:00+00:00"),
        ("0 0 29 2 *", "UTC", "2096-03-01T00:00+00:00", "2104-02-29T00:00+00:00"),
        ("0 0 L * *", "UTC", "2024-02-01T00:00+00:00", "2024-02-29T00:00+00:00"),
        ("0 9 * * mon#1", "UTC", "2024-07-01T10:00+00:00", "2024-08-05T09:00+00:00"),
        ("0 9 15W * *", "UTC", "2024-06-01T00:00+00:00", "2024-06-14T09:00+00:00"),
        ("0 0 13 * fri", "UTC", "2024-07-01T00:00+00:00", "2024-07-05T00:00+00:00"),
        ("0 0 * * 7", "UTC", "2024-07-01T00:00+00:00", "2024-07-07T00:00+00:00"),
        ("0 0 L * fri", "UTC", "2024-07-27T00:00+00:00", "2024-07-31T00:00+00:00"),
        ("0 0 * * L5", "UTC", "2024-07-01T00:00+00:00", "2024-07-26T00:00+00:00"),
        ("0 0 * * fri-mon", "UTC", "2024-07-09T00:00+00:00", "2024-07-12T00:00+00:00"),
        ("* * * * * */10", "UTC", "2024-07-01T00:00:05+00:00", "2024-07-01T00:00:10+00:00"),
        ("0 12 * * * 30", "UTC", "2024-07-01T00:00+00:00", "2024-07-01T12:00:30+00:00"),
        ("* * * * *", "UTC", "2024-07-01T00:00:00.999999+00:00", "2024-07-01T00:01+00:00"),
        ("* * * * *", "UTC", "2024-06-30T23:59:59.999999+00:00", "2024-07-01T00:00+00:00"),
        ("0 1 * * *", "Europe/Berlin", "2024-07-01T02:00+05:30", "2024-06-30T23:00+00:00"),
        # From within the second of the two hours from 2 to 3, on to the next day.
        ("30 2 * * *", "Europe/Berlin", "2024-10-27T01:10+00:00", "2024-10-28T01:30+00:00"),
        # Years ahead, across changes of the clock.
        ("0 * 29 2 *", "Europe/Berlin", "2024-07-01T00:00+00:00", "2028-02-28T23:00+00:00"),
    ],
)
def test_next_fire(expression: str, key: str, after: str, expected: str) -> None:
    fire = next_fire(expression, key, datetime.fromisoformat(after))
    assert fire == datetime.fromisoformat(expected)
    assert fire.tzinfo is UTC


def test_it_goes_on_for_years_and_never_back() -> None:
    after = datetime(2020, 1, 1, tzinfo=UTC)
    fires = fires_between("30 2 * * *", "Africa/Casablanca", after, after + 6 * 365 * DAY, 10_000)
    assert len(fires) == 6 * 365
    assert all(timedelta(hours=22) < later - earlier < timedelta(hours=26) for earlier, later in pairwise(fires))


def test_a_schedule_tells_its_next_instants() -> None:
    cron = Cron("30 2 * * *", timezone="Europe/Berlin", enabled=False, jitter=600)
    fires = cron.next(3, after=datetime(2024, 3, 30, 1, 30, tzinfo=UTC))
    assert fires == [
        datetime(2024, 3, 31, 1, tzinfo=UTC),  # 2:30 does not exist
        datetime(2024, 4, 1, 0, 30, tzinfo=UTC),
        datetime(2024, 4, 2, 0, 30, tzinfo=UTC),
    ]
    assert all(fire.tzinfo is UTC for fire in fires)
    assert cron.next(0) == []


def test_a_schedule_tells_its_next_instants_from_now_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "utcnow", lambda: datetime(2024, 7, 1, 0, 0, 30, tzinfo=UTC))
    assert Cron("* * * * *").next(2) == [datetime(2024, 7, 1, 0, 1, tzinfo=UTC), datetime(2024, 7, 1, 0, 2, tzinfo=UTC)]


@pytest.mark.parametrize("n", [-1, 2.0, True, None])
def test_how_many_next_instants_is_a_whole_number(n: Any) -> None:
    with pytest.raises(ValueError, match="whole number"):
        Cron("* * * * *").next(n)


def test_fires_between_is_bounded() -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    assert fires_between("* * * * *", "UTC", start, start + DAY, 2) == [start + MINUTE, start + 2 * MINUTE]
    assert fires_between("* * * * *", "UTC", start, start + MINUTE, 9) == [start + MINUTE]
    assert fires_between("* * * * *", "UTC", start, start, 9) == []


def test_latest_fire_does_not_walk() -> None:
    start, end = datetime(2000, 1, 1, tzinfo=UTC), datetime(2024, 7, 1, 12, 0, 30, tzinfo=UTC)
    assert latest_fire("* * * * *", "Europe/Berlin", start, end) == datetime(2024, 7, 1, 12, tzinfo=UTC)
    assert latest_fire("0 0 1 1 *", "UTC", start, end) == datetime(2024, 1, 1, tzinfo=UTC)
    assert latest_fire("0 0 1 1 *", "UTC", end, end + DAY) is None
    assert latest_fire("* * * * *", "UTC", end, start) is None


def test_naive_times_are_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        next_fire("* * * * *", "UTC", datetime(2024, 1, 1))


def test_the_end_of_time_is_an_invalid_schedule() -> None:
    with pytest.raises(InvalidSchedule):
        next_fire("0 0 1 1 *", "UTC", datetime(9999, 12, 31, tzinfo=UTC))


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* * * * * * *", "five fields"),
        ("0 0 1 1 * 0 2020", "five fields"),
        ("60 * * * *", "out of range"),
        ("* 24 * * *", "out of range"),
        ("*/0 * * * *", "step '0'"),
        ("a b c d e", "not acceptable"),
        ("@reboot", "cannot be understood"),
        ("@every 5m", "cannot be understood"),
        ("0 0 31 2 *", "can never fire"),
        ("0 0 30 feb ?", "can never fire"),
        ("0 0 31 4,6,9,11 *", "can never fire"),
        ("H * * * *", "H and R"),
        ("* * * * * R(0-30)/5", "H and R"),
        ("5-5 * * * *", "range 5-5 would stand for every value: write 5 alone"),
        ("0 0 * * 1,Fri-fri", "range fri-fri"),
        ("05-5 * * * *", "range 05-5"),
        ("0 0 * * sun-0", "range sun-0"),
        ("0 22-2/3 * * *", "range 22-2 goes past the end and has a step: write two ranges"),
        ("0 0 * * fri-tue/2", "range fri-tue goes past the end"),
        ("0 0 13 * fri#2", "13 and fri#2 cannot be combined: make a schedule of each"),
        ("0 0 1 * L5", "1 and l5 cannot be combined"),
        ("0 0 15W * mon", "15w and mon cannot be combined"),
        ("0 0 * * fri,L5", "fri,l5 has weekdays of different kinds"),
        ("\u0665 * * * *", "ASCII"),
        ("\ud800 * * * *", "ASCII"),
        ("0\u00a00 * * *", "ASCII"),
        ("1," * 500 + "1 * * * *", "200"),
        ("9" * 150 + " * * * *", "out of range"),
        ("\0 * * * *", "not acceptable"),
        (None, "must be a string"),
        (["*"], "must be a string"),
        (b"* * * * *", "must be a string"),
    ],
)
def test_bad_expressions(expression: Any, reason: str) -> None:
    with pytest.raises(InvalidSchedule, match=re.escape(reason)):
        Cron(expression)
    with pytest.raises(InvalidSchedule):
        next_fire(expression, "UTC", datetime(2024, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "zone", ["", "Mars/Base", "America", "../../etc/passwd", "/etc/localtime", "a\0b", "\ud800", None, 5]
)
def test_bad_zones(zone: Any) -> None:
    with pytest.raises(InvalidSchedule, match="unknown time zone"):
        Cron("* * * * *", timezone=zone)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"overlap": "maybe"}, "overlap must be one of skip, allow, queue, cancel_previous, not 'maybe'"),
        ({"overlap": None}, "overlap"),
        ({"catch_up": True}, "catch_up must be one of latest, none, all"),
        ({"input": [1]}, "keyword arguments"),
        ({"input": {1: 2}}, "keyword arguments"),
        ({"name": ""}, "name"),
        ({"name": 5}, "name"),
        ({"jitter": -1}, "jitter"),
        ({"jitter": float("nan")}, "jitter"),
        ({"jitter": True}, "jitter"),
        ({"jitter": "5"}, "jitter"),
        ({"enabled": "no"}, "enabled must be True or False, not 'no'"),
    ],
)
def test_bad_options(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSchedule, match=re.escape(reason)):
        Cron("* * * * *", **options)


def test_schedules_are_values() -> None:
    cron = Cron("0 6 * * *", "Europe/Berlin", {"full": True}, "morning", "queue", "all", 2.5, False)
    assert cron == Cron(
        "0 6 * * *",
        timezone="Europe/Berlin",
        input={"full": True},
        name="morning",
        overlap="queue",
        catch_up="all",
        jitter=2.5,
        enabled=False,
    )
    assert hash(cron) == hash(cron)
    assert Cron("* * * * *").overlap == "skip"
    with pytest.raises(AttributeError):
        cron.enabled = True  # type: ignore[misc]


# --- what the fields mean --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("* * * * *", {}),
        ("0-59 * ? jan-dec 0-6", {}),
        ("30 7 * * mon-fri", {"minutes": (30,), "hours": (7,), "weekdays": (1, 2, 3, 4, 5)}),
        ("0 22-2 * * 7", {"minutes": (0,), "hours": (0, 1, 2, 22, 23), "weekdays": (0,)}),
        ("@yearly", {"minutes": (0,), "hours": (0,), "days": (1,), "months": (1,)}),
        ("0 0 1,L * *", {"minutes": (0,), "hours": (0,), "days": (1, LAST)}),
        ("0 0 15W * *", {"minutes": (0,), "hours": (0,), "days": (15,), "nearest": frozenset({15})}),
        ("* * * * L5", {"weekdays": (5,), "nth": {5: frozenset({LAST})}}),
        ("* * * * fri#2", {"weekdays": (5,), "nth": {5: frozenset({2})}}),
        ("* * * * * */20", {"seconds": (0, 20, 40)}),
        ("* * * * * *", {"seconds": ()}),
    ],
)
def test_the_values_of_fields(expression: str, told: dict[str, Any]):
    every = Fields((0,), (), (), (), (), (), frozenset(), {})
    assert fields_of(expression) == every._replace(**told)


def test_fields_of_what_is_wrong():
    with pytest.raises(InvalidSchedule):
        fields_of("61 * * * *")
