"""When an expression should fire: a walk over every real minute, or second, of a window.

Written from docs/schedules.md and nothing else: no croniter, no folds, no arithmetic with offsets, only what the clocks
of a zone show from tick to tick. Slow, and simple enough to be believed.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
STARS = ("*", "?")


# --- what the fields say ---------------------------------------------------------------------


class Rule:
    """An expression that has been read."""

    def __init__(self, expression: str) -> None:
        fields = ALIASES.get(expression, expression).lower().split()
        minute, hour, self._day, month, self._weekday, *second = fields
        self.has_seconds = bool(second)
        self.fires_at_every_instant = hour.startswith("*")
        self.minutes, self.hours = values(minute, 0, 59), values(hour, 0, 23)
        self._months = values(month, 1, 12, MONTHS)
        self._seconds = values(second[0], 0, 59) if second else {0}
        self._is_day, self._is_weekday = day_test(self._day), weekday_test(self._weekday)
        self._dates: dict[date, bool] = {}

    def matches(self, local: datetime) -> bool:
        if local.minute not in self.minutes or local.hour not in self.hours or local.second not in self._seconds:
            return False
        day = local.date()
        if day not in self._dates:
            self._dates[day] = day.month in self._months and self._is_date(day)
        return self._dates[day]

    def _is_date(self, day: date) -> bool:
        if self._day in STARS or self._weekday in STARS:
            return self._is_day(day) and self._is_weekday(day)
        return self._is_day(day) or self._is_weekday(day)


def values(field: str, low: int, high: int, names: dict[str, int] | None = None) -> set[int]:
    """What a list of values, ranges and steps stands for."""
    found: set[int] = set()
    for part in field.split(","):
        bounds, _, step = part.partition("/")
        first, last = (read(text, names or {}) for text in limits(bounds, low, high, has_step=bool(step)))
        whole = list(range(first, last + 1)) if first <= last else [*range(first, high + 1), *range(low, last + 1)]
        found.update(whole[:: int(step or 1)])
    return found


def limits(bounds: str, low: int, high: int, *, has_step: bool) -> tuple[str, str]:
    if bounds in STARS:
        return str(low), str(high)
    first, dash, last = bounds.partition("-")
    if dash:
        return first, last
    return first, str(high) if has_step else first


def read(text: str, names: dict[str, int]) -> int:
    return names[text] if text in names else int(text)


def day_test(field: str) -> Callable[[date], bool]:
    if field.endswith("w"):
        wanted = int(field[:-1])
        return lambda day: day == nearest_weekday(day.year, day.month, wanted)
    numbers = ",".join(part for part in field.split(",") if part != "l")
    days, has_last = values(numbers, 1, 31) if numbers else set(), numbers != field
    return lambda day: day.day in days or (has_last and day.day == length(day.year, day.month))


def nearest_weekday(year: int, month: int, number: int) -> date:
    """Monday to Friday, in the same month."""
    weekdays = [day for day in range(1, length(year, month) + 1) if date(year, month, day).isoweekday() <= 5]
    return date(year, month, min(weekdays, key=lambda day: abs(day - number)))


def length(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1]


def weekday_test(field: str) -> Callable[[date], bool]:
    if "#" in field or "l" in field:
        wanted = [nth(part) for part in field.split(",")]
        return lambda day: any(day.isoweekday() % 7 == weekday and is_it(day) for weekday, is_it in wanted)
    weekdays = {number % 7 for number in values(field, 0, 6, DAYS)}  # only by its own name, 7, is Sunday the last day
    return lambda day: day.isoweekday() % 7 in weekdays


def nth(part: str) -> tuple[int, Callable[[date], bool]]:
    if part.startswith("l"):
        return read(part[1:], DAYS) % 7, lambda day: day.day + 7 > length(day.year, day.month)
    weekday, _, number = part.partition("#")
    return read(weekday, DAYS) % 7, lambda day: (day.day - 1) // 7 + 1 == int(number)


# --- what the clocks show --------------------------------------------------------------------


class Moment(NamedTuple):
    """A real instant, what the clocks show, and the local times that they reach or jump over for the first time."""

    instant: datetime
    shown: datetime
    reached: tuple[datetime, ...]


def walk(zone: ZoneInfo, start: datetime, end: datetime, tick: timedelta) -> Iterator[Moment]:
    """The moments later than ``start`` up to ``end``. ``start`` must not be in or just after a repeated hour."""
    furthest = wall(start, zone)
    for instant in steps(start + tick, end, tick):
        shown = wall(instant, zone)
        yield Moment(instant, shown, tuple(steps(furthest + tick, shown, tick)))
        furthest = max(furthest, shown)


def steps(first: datetime, last: datetime, tick: timedelta) -> Iterator[datetime]:
    while first <= last:
        yield first
        first += tick


def wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def fires(rule: Rule, moments: list[Moment]) -> list[datetime]:
    """The instants of the walk at which the rule fires."""
    if rule.fires_at_every_instant:
        return [moment.instant for moment in moments if rule.matches(moment.shown)]
    return [moment.instant for moment in moments if any(map(rule.matches, moment.reached))]


def changes(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """The instants from which on the clocks show another offset, to the second."""
    for before in steps(start, end, timedelta(hours=12)):
        low, high = before, before + timedelta(hours=12)
        if offset(low, zone) == offset(high, zone):
            continue
        while high - low > SECOND:
            middle = (low + (high - low) / 2).replace(microsecond=0)
            low, high = (middle, high) if offset(middle, zone) == offset(low, zone) else (low, middle)
        yield high


def offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    return wall(instant, zone) - instant.astimezone(UTC).replace(tzinfo=None)
