"""Events: what the outside sends to a run, taken in the order it was sent, each by one wait."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from ..exceptions import EventTimeout
from .codec import decode, encode
from .effects import Decisions, Persist
from .flow import Flow
from .journal import Entry, SentEvent
from .names import check_name
from .sleeps import seconds_of
from .states import EntryStatus, Kind

MISSING: Any = object()


@dataclass(slots=True, frozen=True)
class Event:
    """An event as the workflow sees it; ``sent_at`` is the database's time at ``send_event``."""

    name: str
    payload: Any
    sent_at: datetime


def wait_for_event(
    flow: Flow, path: str, event: str, timeout: timedelta | float | None, default: Any
) -> Decisions[Any]:
    """The next event ``event`` that no wait has taken; at the time-out ``default``, or EventTimeout."""
    check_name("event", event)
    entry = flow.find(path, Kind.EVENT)
    if entry is not None and entry.status == EntryStatus.SUCCEEDED:
        return _event(entry)
    if entry is not None and entry.status == EntryStatus.FAILED:
        return _timed_out(path, event, default)
    flow.require_live()
    sent = flow.journal.inbox.take_event([event])
    if sent is not None:
        entry = _taken(path, sent)
        flow.pending.consumed[sent.id] = path
        flow.record(entry)
        yield Persist()
        return _event(entry)
    if entry is None:
        seconds = None if timeout is None else max(seconds_of(timeout, "timeout"), 0.0)
        entry = Entry(path, Kind.EVENT, EntryStatus.WAITING, wake_after=seconds, awaits=event)
        flow.record(entry)
    # A new wait suspends even with a time-out of 0: an event that came after the claim is seen only by the next one.
    if entry.wake_at is not None and flow.journal.now() >= entry.wake_at:
        flow.record(replace(entry, status=EntryStatus.FAILED))
        yield Persist()
        return _timed_out(path, event, default)
    flow.suspend(entry)


def _taken(path: str, sent: SentEvent) -> Entry:
    value = encode([sent.name, sent.sent_at])
    # The payload is text already: it goes into the entry as it is, so that it cannot change on the way.
    return Entry(path, Kind.EVENT, EntryStatus.SUCCEEDED, value=f"{value[:-1]},{sent.payload}]", awaits=sent.name)


def _event(entry: Entry) -> Event:
    name, sent_at, payload = decode(cast(str, entry.value))
    return Event(name, payload, sent_at)


def _timed_out(path: str, event: str, default: Any) -> Any:
    if default is MISSING:
        raise EventTimeout(path, event)
    return default
