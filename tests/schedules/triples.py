"""Zone x change of its clocks x expression: all that core/schedules/cron.py is compared with the oracle in."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from django_durable.core.schedules.cron import fires_between, next_fire
from tests.schedules.expressions import EXPRESSIONS
from tests.schedules.oracle import MINUTE, SECOND, Moment, Rule, changes, fires, walk

# Ten years with every kind of change: a day left out (Apia), gaps and repeats at midnight (Santiago, Beirut, Havana,
# São Paulo, Asunción, Amman, Gaza), at one minute past it (St. John's), by half an hour (Lord Howe, Caracas,
# Pyongyang), by two (Troll) and three hours (Casey), four changes in a year (Casablanca, Cairo), summer time that
# came to an end (Moscow, Istanbul), negative summer time (Dublin), offsets of 45 minutes (Chatham, Kathmandu).
FIRST, LAST = datetime(2011, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)
ZONES = [
    "Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Caracas", "America/Havana",
    "America/Los_Angeles", "America/New_York", "America/Nuuk", "America/Santiago", "America/Sao_Paulo",
    "America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza",
    "Asia/Kathmandu", "Asia/Pyongyang", "Asia/Tehran", "Atlantic/Azores", "Australia/Adelaide",
    "Australia/Lord_Howe", "Europe/Berlin", "Europe/Dublin", "Europe/Istanbul", "Europe/London",
    "Europe/Moscow", "Pacific/Apia", "Pacific/Chatham", "Pacific/Fiji",
]  # fmt: skip
# A zone whose clocks were never changed in those years is looked at on an ordinary day.
ORDINARY = datetime(2015, 3, 29, 1, tzinfo=UTC)


class Triple(NamedTuple):
    zone: str
    change: datetime
    expression: str

    def __str__(self) -> str:
        return f"{self.zone} {self.change:%Y-%m-%dT%H:%M:%SZ} {self.expression!r}"


# --- the triples -----------------------------------------------------------------------------


@cache
def changes_of(key: str) -> list[datetime]:
    return list(changes(ZoneInfo(key), FIRST, LAST)) or [ORDINARY]


def all_changes() -> list[tuple[str, datetime]]:
    return [(key, change) for key in ZONES for change in changes_of(key)]


def all_triples() -> Iterator[Triple]:
    for key, change in all_changes():
        for expression in EXPRESSIONS:
            yield Triple(key, change, expression)


def sample(count: int, seed: int) -> list[Triple]:
    """So many of them, the same for the same seed, in the order in which ``all_triples`` has them."""
    everything = list(all_triples())
    return [everything[index] for index in sorted(random.Random(seed).sample(range(len(everything)), count))]


# --- the comparison --------------------------------------------------------------------------


def window(rule: Rule, change: datetime) -> tuple[datetime, datetime, timedelta]:
    """From when until when around the change, and in which ticks: the narrower the more often the rule fires."""
    if rule.has_seconds:
        around, tick = timedelta(minutes=10), SECOND
    else:
        is_frequent = len(rule.minutes) > 1 and len(rule.hours) > 3
        around, tick = timedelta(hours=3 if is_frequent else 36), MINUTE
    return change - around, change + around, tick


@cache
def rule_of(expression: str) -> Rule:
    return Rule(expression)


@lru_cache(maxsize=8)
def moments_of(key: str, start: datetime, end: datetime, tick: timedelta) -> list[Moment]:
    return list(walk(ZoneInfo(key), start, end, tick))


def difference(triple: Triple) -> str | None:
    """The first instant that the product and the oracle do not agree in, in words."""
    rule = rule_of(triple.expression)
    start, end, tick = window(rule, triple.change)
    expected = fires(rule, moments_of(triple.zone, start, end, tick))
    try:
        return _difference(triple, start, end, expected)
    except Exception as error:
        return f"{triple}: {type(error).__name__}: {error}"


def _difference(triple: Triple, start: datetime, end: datetime, expected: Sequence[datetime]) -> str | None:
    _, change, expression = triple
    found = fires_between(expression, triple.zone, start, end, len(expected) + 1)
    if found != expected:
        wrong = min(set(found) ^ set(expected))
        return f"{triple}: {'fires' if wrong in found else 'does not fire'} at {wrong:%Y-%m-%dT%H:%M:%SZ}"
    # Whoever looks from the midst of a gap or of a repeated hour sees the same next instant.
    for after in probes(triple, change, start, end):
        following = next((fire for fire in expected if fire > after), None)
        answer = next_fire(expression, triple.zone, after)
        if answer != following and (following is not None or answer <= end):
            return f"{triple}: after {after.isoformat()} comes {answer.isoformat()}, not {following}"
    return None


def probes(triple: Triple, change: datetime, start: datetime, end: datetime) -> list[datetime]:
    draw = random.Random(str(triple))
    return [change - SECOND, change - SECOND / 3, change, *(start + draw.random() * (end - start) for _ in range(4))]
