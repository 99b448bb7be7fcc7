"""Polls: a function that is called until it has something, one journal entry however often that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, cast

from ...exceptions import PayloadError, PollTimeout
from ..flow.effects import LAST, Decisions, Perform, Performed, Persist, Raised, Returned
from ..flow.flow import Flow
from ..flow.notes import note_attempt
from ..journal.journal import Entry
from ..journal.states import EntryStatus, Kind
from ..payloads.codec import decode, encode, is_plain
from ..retries import Retry
from .sleeps import seconds_of
from .steps import after_error, check_retry, failure


class Pending(Enum):
    """The type of PENDING, for annotations: type checkers can tell it from what else a function returns."""

    PENDING = "PENDING"

    def __repr__(self) -> str:
        return self.name


PENDING: Final = Pending.PENDING
"""What a polled function returns as long as there is nothing yet."""

Every = timedelta | float | Callable[[int], timedelta | float]
"""How long to wait between two polls; a function is given the number of polls so far."""


def poll(
    flow: Flow,
    path: str,
    fn: Callable[[], Any],
    every: Every,
    timeout: timedelta | float | None,
    retry: Retry | None,
) -> Decisions[Any]:
    """The first thing other than PENDING that ``fn()`` returned. Raises PollTimeout, StepFailed.

    While it waits, the entry's value is the number of polls and the deadline, and ``attempts`` counts those of the
    poll that is due: an endless one outgrows no column.
    """
    check_retry(retry)
    pause, patience = _checked(path, fn, every, timeout)
    entry = flow.find(path, Kind.POLL)
    if entry is not None:
        if entry.status == EntryStatus.SUCCEEDED:
            return decode(cast(str, entry.value))
        if entry.status == EntryStatus.FAILED:
            raise _error(entry)
        if flow.is_looking:
            # Raises where it cannot tell: the code may have gone on from there.
            pause(_state(entry)[0] + 1)
        if entry.wake_at is not None and flow.journal.now() < entry.wake_at:
            flow.suspend(entry)
    elif flow.is_looking:
        pause(1)
    attempt = entry.attempts + 1 if entry else 1
    polls, deadline = _state(entry) if entry else (0, _deadline(flow, patience))
    while True:
        flow.require_live()
        performed = cast(Performed, (yield Perform(path, fn, (), attempt)))
        entry, error = _decided(flow, path, performed, attempt, retry or flow.step_retry)
        if entry.status == EntryStatus.SUCCEEDED:
            flow.record(entry)
            yield LAST
            value = cast(Returned, performed).value
            return value if is_plain(value) else decode(cast(str, entry.value))
        if entry.status == EntryStatus.WAITING:
            polls += 1
            entry.wake_after = pause(polls)
        entry = _within(flow, entry, polls, deadline)
        flow.record(entry)
        if entry.status == EntryStatus.RETRYING and error is not None:
            note_attempt(flow, entry, error, polls)
        if entry.status != EntryStatus.FAILED and entry.wake_after:
            flow.suspend(entry)
        yield Persist()
        if entry.status == EntryStatus.FAILED:
            raise _error(entry) from error
        attempt += 1


def _checked(path: str, fn: Any, every: Every, timeout: timedelta | float | None) -> tuple[Any, float | None]:
    """The pause after so many polls in seconds, and the time-out in seconds. Raises TypeError, ValueError."""
    if not callable(fn):
        raise TypeError(f"poll {path!r} takes a function, not {fn!r}.")

    def pause(polls: int) -> float:
        seconds = seconds_of(every(polls) if callable(every) else every, "every")
        if seconds <= 0:
            # It would come round again at once, as fast as the database can.
            raise ValueError(f"every of poll {path!r} must be more than 0 seconds, not {seconds:g}.")
        return seconds

    if not callable(every):
        pause(0)
    return pause, None if timeout is None else seconds_of(timeout, "timeout")


def _deadline(flow: Flow, patience: float | None) -> datetime | None:
    return None if patience is None else flow.journal.now() + timedelta(seconds=patience)


def _state(entry: Entry) -> tuple[int, datetime | None]:
    polls, deadline = decode(cast(str, entry.value))
    return polls, deadline


def _decided(
    flow: Flow, path: str, performed: Performed, attempt: int, retry: Retry
) -> tuple[Entry, BaseException | None]:
    """What one call makes of the entry: succeeded, waiting (PENDING), retrying or failed; and the error."""
    if isinstance(performed, Returned):
        if performed.value is PENDING:
            return Entry(path, Kind.POLL, EntryStatus.WAITING, seconds=performed.seconds), None
        try:
            value = flow.encode(performed.value, f"result of poll {path!r}")
        except PayloadError as error:
            performed = Raised(error, performed.seconds)
        else:
            seconds = performed.seconds
            return Entry(path, Kind.POLL, EntryStatus.SUCCEEDED, attempts=attempt, value=value, seconds=seconds), None
    return after_error(flow, path, Kind.POLL, attempt, performed, retry), performed.error


def _within(flow: Flow, entry: Entry, polls: int, deadline: datetime | None) -> Entry:
    """``entry``, which is not waited for beyond the deadline: then comes a last call, and after that the time-out."""
    entry = replace(entry, value=encode([polls, deadline]))
    if deadline is None or entry.status == EntryStatus.FAILED:
        return entry
    left = (deadline - flow.journal.now()).total_seconds()
    if left <= 0:
        return replace(entry, status=EntryStatus.FAILED, error=None, wake_after=None)
    return replace(entry, wake_after=min(cast(float, entry.wake_after), left))


def _error(entry: Entry) -> Exception:
    return PollTimeout(entry.path, _state(entry)[0]) if entry.error is None else failure(entry)
