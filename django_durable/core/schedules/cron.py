"""Cron schedules: which instants fire, in a time zone whose clocks are changed.

Expressions are croniter's: minute, hour, day of month, month, day of week, and as a sixth, last field seconds; names,
ranges, steps, ``L``, ``15W``, ``fri#2``, ``@daily`` and friends. croniter is asked on naive local time only, and not
for what it would get wrong without a word (``_unsupported``). What a change of the clocks does is decided here (as
vixie cron does, so that no job is lost or runs twice):

* hour field that starts with ``*``: every instant at which the local clocks match the fields;
* any other: each matching local time once, at the first instant that shows it, or for a local time that the clocks
  jump over, at the first instant after the jump (once, however many such times there are).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo

from croniter import croniter

from ...exceptions import InvalidSchedule
from .. import clock
from .zones import SECOND, first_change, first_instant, furthest_wall, load_zone, offset, wall

Overlap = Literal["skip", "allow", "queue", "cancel_previous"]
CatchUp = Literal["latest", "none", "all"]

EXPRESSION_MAX = 200
JITTER_MAX = 86_400
_CHANGES_MAX = 1_000
_PROBE = datetime(2000, 1, 1)
_END = datetime.max.replace(tzinfo=UTC)
_RANGE = re.compile(r"(\w+)-(\w+)(/?)")
_STARS = ("*", "?")
_NAMES = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
    "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
    "sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6,
}  # fmt: skip
_HASHED = re.compile(r"(?:^|\s)[hr](?:[(/\s]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule for ``@durable_workflow(cron=...)``.

    ``input`` are the keyword arguments of each run, ``name`` tells schedules of one workflow apart, ``jitter`` is the
    largest random delay in seconds. ``overlap`` says what a tick does while the run of an earlier one is live,
    ``catch_up`` which of the ticks missed while nothing ran are made up for.
    Raises ``InvalidSchedule`` for what is wrong or can never fire.
    """

    expression: str
    timezone: str = "UTC"
    input: Mapping[str, Any] | None = field(default=None, hash=False)
    name: str | None = None
    overlap: Overlap = "skip"
    catch_up: CatchUp = "latest"
    jitter: float = 0
    enabled: bool = True

    def __post_init__(self) -> None:
        _parsed(self.expression)
        _zone(self.expression, self.timezone)
        for problem in _problems(self):
            raise InvalidSchedule(self.expression, problem)

    def next(self, n: int, after: datetime | None = None) -> list[datetime]:
        """The first ``n`` instants (in UTC) at which it is due after ``after`` (aware; now, if not given).

        Whether it is enabled does not count, and ``jitter`` is not in them: that delays the run.
        """
        if type(n) is not int or n < 0:
            raise ValueError(f"n must be a whole number of instants, not {n!r}")
        return fires_between(self.expression, self.timezone, after or clock.utcnow(), _END, n)


class Fields(NamedTuple):
    """The values that each field of an expression stands for, in their order; none at all: every value.

    ``LAST`` is the last day of the month. ``nearest`` are days for which the nearest one from Monday to Friday stands,
    ``nth`` says of a weekday (0 is Sunday) which of the month's it has to be, where that is not any.
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    nearest: frozenset[int]
    nth: Mapping[int, frozenset[int]]


LAST = -1


def fields_of(expression: str) -> Fields:
    """What the expression's fields mean, as far as that is a matter of values. Raises ``InvalidSchedule``."""
    cron = _parsed(expression)
    minutes, hours, days, months, weekdays, *seconds = (_values(field) for field in cron.expanded)
    nth = {weekday: frozenset(_values(which)) for weekday, which in cron.nth_weekday_of_month.items()}
    nearest = frozenset(cron.nearest_weekday or ())
    if len(weekdays) == 7 and not days and not nth:
        weekdays = ()  # croniter does not always see that a range is the whole week
    return Fields(seconds[0] if seconds else (0,), minutes, hours, days, months, weekdays, nearest, nth)


def _values(field: Iterable[Any]) -> tuple[int, ...]:
    return tuple(LAST if value == "l" else value for value in field if value != "*")


def next_fire(expression: str, timezone: str, after: datetime) -> datetime:
    """The first instant at which the schedule fires after ``after`` (aware), in UTC, always later than ``after``.

    Raises ``InvalidSchedule`` if there is none in the next fifty years, ``ValueError`` for a naive ``after``.
    """
    if after.tzinfo is None:
        raise ValueError("next_fire needs an aware datetime.")
    cron, zone = _parsed(expression), _zone(expression, timezone)
    after = after.astimezone(UTC)
    try:
        every_instant = cron.expressions[1].startswith("*")
        found = _next_instant(cron, zone, after) if every_instant else _next_local(cron, zone, after)
    except InvalidSchedule:
        raise
    except Exception as error:  # a library's, fed with what somebody typed: one bad row must not stop the others
        raise InvalidSchedule(expression, f"never fires after {after:%Y-%m-%d} ({error})") from error
    if found <= after:
        raise InvalidSchedule(expression, f"does not get past {after.isoformat()} in {timezone}")
    return found


def fires_between(expression: str, timezone: str, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The instants later than ``after`` up to and with ``until``, the earliest first, at most ``limit`` of them."""
    fires: list[datetime] = []
    while len(fires) < limit and (after := next_fire(expression, timezone, after)) <= until:
        fires.append(after)
    return fires


def latest_fire(expression: str, timezone: str, after: datetime, until: datetime) -> datetime | None:
    """The last instant later than ``after`` up to and with ``until``, if any; quick, however many there are."""
    latest, low, high = None, after, until
    while high - low >= SECOND or latest is None:
        middle = low + (high - low) // 2 if latest else low
        fire = next_fire(expression, timezone, middle)
        if fire <= until:
            latest = low = fire
        elif latest is None:
            return None
        else:
            high = middle
    return latest


# --- the two policies ------------------------------------------------------------------------


def _next_local(cron: croniter, zone: ZoneInfo, after: datetime) -> datetime:
    return first_instant(_next_match(cron, furthest_wall(after, zone)), zone)


def _next_instant(cron: croniter, zone: ZoneInfo, after: datetime) -> datetime:
    start, local = after, wall(after, zone)
    for _ in range(_CHANGES_MAX):
        # As long as the clocks are not changed, real time is local time less the offset.
        found = (_next_match(cron, local) - offset(start, zone)).replace(tzinfo=UTC)
        change = first_change(start, found, zone)
        if change is None:
            return found
        start, local = change, wall(change, zone) - SECOND
    raise ValueError("too many changes of the clocks")


def _next_match(cron: croniter, local: datetime) -> datetime:
    """The first naive local time after ``local`` that matches the fields."""
    iterator = copy(cron)  # croniter keeps its place in itself; the parsed one is shared between threads
    match: datetime = iterator.get_next(datetime, start_time=local.replace(microsecond=0))  # it counts in floats
    return match


# --- parsing and checking --------------------------------------------------------------------


def _parsed(expression: object) -> croniter:
    if not isinstance(expression, str):
        raise InvalidSchedule(repr(expression)[:EXPRESSION_MAX], "the expression must be a string")
    return _parsed_text(expression)


@lru_cache(maxsize=1024)
def _parsed_text(expression: str) -> croniter:
    if problem := _unsupported(expression):
        raise InvalidSchedule(expression[:EXPRESSION_MAX], problem)
    try:
        cron = croniter(expression.strip(), _PROBE)
    except Exception as error:
        raise InvalidSchedule(expression, f"cannot be understood: {error}") from error
    try:
        _next_match(cron, _PROBE)
    except Exception as error:
        raise InvalidSchedule(expression, "can never fire: there is no such date") from error
    return cron


def _unsupported(expression: str) -> str | None:
    if len(expression) > EXPRESSION_MAX or not expression.isascii():
        return f"at most {EXPRESSION_MAX} ASCII characters, please"
    if not expression.strip().startswith("@") and len(expression.split()) not in (5, 6):
        return "has to have five fields (minute hour day month weekday), or six (and second)"
    if _HASHED.search(expression):
        return "H and R are not supported: name the values, or use jitter"
    return _range_problem(expression.lower()) or _days_problem(expression.lower())


def _range_problem(expression: str) -> str | None:
    for low, high, step in _RANGE.findall(expression):
        first, last = _number(low), _number(high)
        if first == last != -1:
            return f"the range {low}-{high} would stand for every value: write {low} alone, or *"
        if step and first > last >= 0:
            return f"the range {low}-{high} goes past the end and has a step: write two ranges"
    return None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else _NAMES.get(text, -1)


def _days_problem(expression: str) -> str | None:
    """croniter ignores the other field of days beside ``#``, ``L5`` and ``15W``, and plain days in one list with L5."""
    fields = expression.split()
    if len(fields) < 5:
        return None
    day, weekday = fields[2], fields[4]
    kinds = {next((mark for mark in "#l" if mark in part), "") for part in weekday.split(",")}
    if len(kinds) > 1:
        return f"{weekday} has weekdays of different kinds: make a schedule of each"
    if (kinds != {""} and day not in _STARS) or ("w" in day and weekday not in _STARS):
        return f"{day} and {weekday} cannot be combined: make a schedule of each"
    return None


def _zone(expression: str, timezone: str) -> ZoneInfo:
    try:
        return load_zone(timezone)
    except ValueError as error:
        raise InvalidSchedule(expression, str(error)) from error


def _problems(cron: Cron) -> Iterator[str]:
    if cron.overlap not in get_args(Overlap):
        yield f"overlap must be one of {', '.join(get_args(Overlap))}, not {cron.overlap!r}"
    if cron.catch_up not in get_args(CatchUp):
        yield f"catch_up must be one of {', '.join(get_args(CatchUp))}, not {cron.catch_up!r}"
    if not _are_keywords(cron.input):
        yield "input must be a dict of keyword arguments"
    if cron.name == "" or not isinstance(cron.name, str | None):
        yield "name must be a string that is not empty"
    if not _are_seconds(cron.jitter):
        yield f"jitter must be seconds, from 0 to {JITTER_MAX}, not {cron.jitter!r}"
    if cron.enabled not in (True, False):
        yield f"enabled must be True or False, not {cron.enabled!r}"


def _are_keywords(value: object) -> bool:
    return value is None or (isinstance(value, Mapping) and all(isinstance(key, str) for key in value))


def _are_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= JITTER_MAX
