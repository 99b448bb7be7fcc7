"""Schedules against a scan of every real minute (or second) of days on which clocks are changed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from django_durable.core.cron import Cron, fires_between, latest_fire, next_fire
from django_durable.core.zones import first_change
from django_durable.exceptions import InvalidSchedule

MINUTE, SECOND, DAY = timedelta(minutes=1), timedelta(seconds=1), timedelta(days=1)

# --- the oracle: no croniter, no folds, only what the clocks show ----------------------------


def field_values(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        bounds, _, step = part.partition("/")
        first, _, last = bounds.partition("-")
        if bounds == "*":
            first, last = str(low), str(high)
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def matcher(expression: str) -> Callable[[datetime], bool]:
    minute, hour, day, month, weekday, *second = expression.split()
    minutes, hours, months = field_values(minute, 0, 59), field_values(hour, 0, 23), field_values(month, 1, 12)
    days, weekdays = field_values(day, 1, 31), field_values(weekday, 0, 6)
    seconds = field_values(second[0], 0, 59) if second else {0}

    def matches(local: datetime) -> bool:
        by_day, by_weekday = local.day in days, local.isoweekday() % 7 in weekdays
        on_date = by_day or by_weekday if "*" not in (day, weekday) else by_day and by_weekday
        on_time = local.hour in hours and local.minute in minutes and local.second in seconds
        return on_time and on_date and local.month in months

    return matches


def ticks(start: datetime, end: datetime, tick: timedelta) -> Iterator[datetime]:
    while start <= end:
        yield start
        start += tick


def scan(expression: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """The instants later than ``start`` up to ``end``. ``start`` must not be in or just after a repeated hour."""
    tick = SECOND if len(expression.split()) == 6 else MINUTE
    matches, fires = matcher(expression), []
    every_instant = expression.split()[1].startswith("*")
    shown = start.astimezone(zone).replace(tzinfo=None)
    for instant in ticks(start + tick, end, tick):
        local = instant.astimezone(zone).replace(tzinfo=None)
        # A fixed hour fires when the clocks reach a matching time, or jump over it, for the first time.
        reached = [local] if every_instant else ticks(shown + tick, local, tick)
        if any(map(matches, reached)):
            fires.append(instant)
        shown = max(shown, local)
    return fires


# --- the sample ------------------------------------------------------------------------------

CHANGES = [
    ("America/New_York", datetime(2024, 3, 10)),
    ("America/New_York", datetime(2024, 11, 3)),
    ("Europe/Berlin", datetime(2024, 3, 31)),
    ("Europe/Berlin", datetime(2030, 10, 27)),
    ("Europe/Dublin", datetime(2025, 10, 26)),
    ("Australia/Lord_Howe", datetime(2024, 4, 7)),
    ("Australia/Lord_Howe", datetime(2024, 10, 6)),
    ("Africa/Casablanca", datetime(2024, 3, 10)),
    ("Africa/Casablanca", datetime(2024, 4, 14)),
    ("Pacific/Apia", datetime(2011, 12, 30)),  # a day that was left out
    ("America/Sao_Paulo", datetime(2018, 11, 4)),  # a gap at midnight
    ("America/Havana", datetime(2024, 11, 3)),  # an hour before midnight is repeated
    ("Asia/Gaza", datetime(2040, 10, 20)),
    ("Antarctica/Troll", datetime(2024, 3, 31)),  # by two hours
    ("Asia/Kathmandu", datetime(2024, 3, 31)),
    ("UTC", datetime(2024, 3, 31)),
]
ODD_CHANGES = [("Africa/Monrovia", datetime(1972, 1, 7))]  # by 44 minutes and 30 seconds
EXPRESSIONS = [
    "* * * * *",
    "*/7 * * * *",
    "30 * * * *",
    "0 */2 * * *",
    "15,45 */3 * * *",
    "30 2 * * *",
    "30 1 * * *",
    "0,15,45 1,2 * * *",
    "*/20 0-4 * * *",
    "0 0 * * *",
    "59 23 * * *",
    "5 0-23 * * *",
    "0 3 * * 0",
    "0 2 31 * 0",
    "30 23,0 30 12,3,11 *",
]


def window(zone: ZoneInfo, day: datetime, around: timedelta) -> tuple[datetime, datetime]:
    """From before to after the change of the clock near that day, or that day where there is none."""
    start = day.replace(tzinfo=UTC) - 2 * DAY
    change = first_change(start, start + 4 * DAY, zone) or day.replace(tzinfo=UTC)
    return change - around, change + around


@pytest.mark.parametrize(("key", "day"), CHANGES, ids=[f"{key}-{day:%F}" for key, day in CHANGES])
def test_minutes(key: str, day: datetime) -> None:
    start, end = window(ZoneInfo(key), day, timedelta(hours=31))
    for expression in random.Random(key + str(day)).sample(EXPRESSIONS, 7):
        check(expression, key, start, end)


SECONDS = ["* * * * * */13", "0 * * * * 30", "59 1,2,3 * * * 58", "30 0-3 * * * 0", "0 2 * * * *", "0 0,3 * * * 0,59"]


@pytest.mark.parametrize(
    ("key", "day"), CHANGES + ODD_CHANGES, ids=[f"{key}-{day:%F}" for key, day in CHANGES + ODD_CHANGES]
)
def test_seconds(key: str, day: datetime) -> None:
    start, end = window(ZoneInfo(key), day, timedelta(minutes=75))
    count = len(SECONDS) if (key, day) in ODD_CHANGES else 2
    for expression in random.Random(key + str(day)).sample(SECONDS, count):
        check(expression, key, start, end)


def check(expression: str, key: str, start: datetime, end: datetime) -> None:
    expected = scan(expression, ZoneInfo(key), start, end)
    if len(expected) > 300:
        expected = expected[:150]
        end = expected[-1]
    assert fires_between(expression, key, start, end, 10_000) == expected, expression
    # From any instant on, also from within a repeated hour, the next one is the same.
    draw = random.Random(expression)
    for _ in range(20):
        after = start + draw.random() * (end - start)
        following = [fire for fire in expected if fire > after]
        if following:
            assert next_fire(expression, key, after) == following[0], (expression, after)
        assert latest_fire(expression, key, start, after) == max((f for f in expected if f <= after), default=None)


def test_the_oracle_itself() -> None:
    """Known days, told by hand."""
    key, day = "America/New_York", datetime(2024, 3, 10, tzinfo=UTC)
    assert scan("30 2 * * *", ZoneInfo(key), day, day + DAY) == [datetime(2024, 3, 10, 7, 0, tzinfo=UTC)]
    assert scan("30 * * * *", ZoneInfo(key), day + timedelta(hours=6), day + timedelta(hours=8)) == [
        datetime(2024, 3, 10, 6, 30, tzinfo=UTC),
        datetime(2024, 3, 10, 7, 30, tzinfo=UTC),
    ]
    day = datetime(2024, 11, 3, tzinfo=UTC)
    assert scan("30 1 * * *", ZoneInfo(key), day, day + DAY) == [datetime(2024, 11, 3, 5, 30, tzinfo=UTC)]
    assert len(scan("* * * * *", ZoneInfo(key), day + timedelta(hours=4), day + timedelta(hours=29))) == 25 * 60


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
