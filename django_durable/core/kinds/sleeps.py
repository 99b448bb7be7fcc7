"""Sleeps: the first deadline stands, whatever is replayed, and no sleep ends early by the database's clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import Any

from ..flow.flow import Flow
from ..journal.journal import Entry
from ..journal.states import EntryStatus, Kind


def seconds_of(duration: timedelta | float, what: str) -> float:
    """``duration`` in seconds. Raises TypeError for what is no timedelta or number, ValueError beyond a century."""
    seconds: Any = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:
        raise TypeError(f"{what} takes a timedelta or seconds, not {duration!r}.")
    if abs(seconds) > MAX_SECONDS:
        raise ValueError(f"{what} of {str(duration)[:50]} is beyond what a date can hold.")
    return float(seconds)


MAX_SECONDS = 100 * 365 * 86400.0


def sleep(flow: Flow, path: str, duration: timedelta | float) -> None:
    """Wait ``duration`` (a timedelta or seconds) from the moment it is first reached."""
    seconds = seconds_of(duration, "sleep")
    _wait(flow, path, lambda: Entry(path, Kind.SLEEP, EntryStatus.WAITING, wake_after=max(seconds, 0.0)))


def sleep_until(flow: Flow, path: str, when: datetime) -> None:
    """Wait until ``when``, an aware datetime; one that has passed returns at once."""
    instant = instant_of(when, "sleep_until")
    _wait(flow, path, lambda: Entry(path, Kind.SLEEP, EntryStatus.WAITING, wake_at=instant))


def instant_of(when: datetime, what: str) -> datetime:
    """``when`` in UTC. Raises TypeError for anything but an aware datetime, ValueError at the calendar's ends."""
    given: Any = when
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise TypeError(f"{what} takes an aware datetime, not {when!r}.")
    # The calendar's first and last year: a change of zone overflows there, here or in the database's driver.
    if not MINYEAR < given.year < MAXYEAR:
        raise ValueError(f"{what}: {when} is at the end of the calendar, where databases cannot give it back.")
    return given.astimezone(UTC)


def _wait(flow: Flow, path: str, begin: Callable[[], Entry]) -> None:
    entry = flow.find(path, Kind.SLEEP)
    if flow.is_looking and (entry is None or entry.status != EntryStatus.SUCCEEDED):
        flow.require_way()
        return
    if entry is None:
        flow.require_live()
        entry = begin()
        flow.record(entry)
    if entry.status == EntryStatus.SUCCEEDED:
        return
    if entry.wake_after == 0 or (entry.wake_at is not None and flow.journal.now() >= entry.wake_at):
        # Not worth a commit of its own: that the time has passed stays true.
        flow.record(replace(entry, status=EntryStatus.SUCCEEDED))
        return
    flow.suspend(entry)
