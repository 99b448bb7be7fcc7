"""Dates and times as data: exact to the microsecond, the fold, and the time zone with its key."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from .refusals import Refusal

__all__ = [
    "date",
    "datetime",
    "datetime_from",
    "moment_to_data",
    "time",
    "time_from",
    "timedelta",
    "timedelta_from",
    "timedelta_to_data",
]

M = TypeVar("M", datetime, time)
_MINUTE = timedelta(minutes=1)
_MICROSECOND = timedelta(microseconds=1)


def moment_to_data(value: datetime | time) -> str | list[Any]:
    """ISO text, where it says all; else the naive text, the fold and the zone."""
    zone = value.tzinfo
    if value.fold == 0 and (zone is None or _is_told_by_iso(zone)):
        return value.isoformat()
    return [value.replace(tzinfo=None).isoformat(), value.fold, _zone_to_data(zone)]


def _is_told_by_iso(zone: tzinfo) -> bool:
    # fromisoformat drops an offset of less than a second.
    return type(zone) is timezone and _given_name(zone) is None and not zone.utcoffset(None) % _MINUTE


def datetime_from(data: Any) -> datetime:
    if type(data) is str:
        return datetime.fromisoformat(data)
    text, fold, zone = data
    return _naive(datetime.fromisoformat(text)).replace(fold=fold, tzinfo=_zone_from(zone))


def time_from(data: Any) -> time:
    if type(data) is str:
        return time.fromisoformat(data)
    text, fold, zone = data
    return _naive(time.fromisoformat(text)).replace(fold=fold, tzinfo=_zone_from(zone))


def _naive(moment: M) -> M:
    if moment.tzinfo is not None:
        raise ValueError("has two time zones")
    return moment


def timedelta_to_data(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def timedelta_from(data: Any) -> timedelta:
    days, seconds, microseconds = data
    if not type(days) is type(seconds) is type(microseconds) is int:
        raise TypeError("three ints expected")
    return timedelta(days, seconds, microseconds)


# --- zones -----------------------------------------------------------------------------------


def _zone_to_data(zone: tzinfo | None) -> str | list[Any] | None:
    if zone is None:
        return None
    if type(zone) is timezone:
        return [zone.utcoffset(None) // _MICROSECOND, _given_name(zone)]
    if type(zone) is ZoneInfo and zone.key is not None:
        if zone is not ZoneInfo(zone.key):
            zone.__reduce__()  # raises for a zone that was read from a file of one's own
        return zone.key
    name = f"{type(zone).__module__}.{type(zone).__qualname__}"
    raise Refusal(f"its time zone, a {name}, cannot be stored; use zoneinfo.ZoneInfo(key) or datetime.timezone")


def _zone_from(data: Any) -> tzinfo | None:
    if data is None:
        return None
    if type(data) is str:
        return ZoneInfo(data)
    microseconds, name = data
    if type(microseconds) is not int:
        raise TypeError("an offset in microseconds expected")
    offset = timedelta(microseconds=microseconds)
    return timezone(offset) if name is None else timezone(offset, name)


def _given_name(zone: timezone) -> str | None:
    arguments: tuple[Any, ...] = zone.__getinitargs__()  # type: ignore[attr-defined]
    return arguments[1] if len(arguments) > 1 else None
