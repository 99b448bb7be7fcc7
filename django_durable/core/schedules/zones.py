"""Between local and real time: where clocks jump, and which instant a local time stands for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

SECOND = timedelta(seconds=1)
_STRIDE = timedelta(days=1)
"""Of the search for a change of the clock. No two changes of any zone are nearer than four days to each other."""


def load_zone(key: str) -> ZoneInfo:
    """The zone of that IANA key. Raises ``ValueError`` for an unknown one."""
    try:
        return ZoneInfo(key)
    except (KeyError, ValueError, TypeError, OSError) as error:  # OSError: the key is a directory of the data
        raise ValueError(f"unknown time zone {str(key)[:80]!r}") from error


def wall(instant: datetime, zone: ZoneInfo) -> datetime:
    """What the clocks show at an instant: naive."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    """Local time minus UTC at an instant."""
    return instant.astimezone(zone).replace(tzinfo=UTC, fold=0) - instant


def first_instant(local: datetime, zone: ZoneInfo) -> datetime:
    """When the clocks first show ``local``, or where they jump over it, the first instant after the jump."""
    early = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall(early, zone) == local:
        return early
    # In a gap: read with the offsets of both sides of it, the local time lies on either side of the jump.
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return first_change(before, early, zone) or early


def furthest_wall(instant: datetime, zone: ZoneInfo) -> datetime:
    """The latest local time that the clocks have shown by ``instant``: ahead of the present one in a repeated hour."""
    local = instant.astimezone(zone)
    now = local.replace(tzinfo=None, fold=0)
    if local.fold == 0:
        return now
    first_pass = now.replace(tzinfo=zone).astimezone(UTC)
    change = first_change(first_pass, instant, zone) or instant
    return change.replace(tzinfo=None) + offset(first_pass, zone) - SECOND


def first_change(start: datetime, end: datetime, zone: ZoneInfo) -> datetime | None:
    """The first instant after ``start``, up to ``end``, that has another offset than ``start``; on a whole second."""
    known = offset(start, zone)
    low = start
    while low < end:
        high = min(low + _STRIDE, end)
        if offset(high, zone) != known:
            return _bisect(low, high, known, zone)
        low = high
    return None


def _bisect(low: datetime, high: datetime, known: timedelta, zone: ZoneInfo) -> datetime:
    while high - low > SECOND:
        middle = low + (high - low) // 2
        if offset(middle, zone) == known:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)
