"""Events: what the outside sends to a run, taken in the order it was sent, each by one wait, answered at most once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, cast
from uuid import UUID

from ...exceptions import ContextMisuse, EventTimeout
from ..flow.effects import LAST, Decisions, Persist
from ..flow.executing import executing_flow
from ..flow.flow import Flow
from ..journal.inbox import SentEvent
from ..journal.journal import Entry
from ..journal.outcomes import Blocked
from ..journal.states import BlockReason, EntryStatus, Kind
from ..names import check_name, fit_path, keyed_path
from ..payloads.codec import decode, encode
from ..payloads.tags import register_tag
from .sleeps import seconds_of

MISSING: Any = object()

ANSWER = "%answer"
"""In the paths of answers. Escaped names never hold a bare "%"."""
ANSWER_MAX = 40
"""Characters that may tell in such a path which event was answered; of a longer place there is a hash."""
EVENT = "%event["
"""In the places of events that were taken by a wait for several."""


@dataclass(slots=True, frozen=True)
class Event:
    """An event as the workflow sees it; ``sent_at`` is the database's time at ``send_event``.

    A value that can be stored: a branch may return it, and it may be answered then too.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"arbitrary_types_allowed": True}
    """For who annotates an input with it: pydantic cannot look into the answer."""

    name: str
    payload: Any
    sent_at: datetime
    _answer: Answer | None = field(default=None, repr=False, compare=False, kw_only=True)

    def complete(self, response: Any = None) -> None:
        """Answer the event: its sender reads ``response``. Goes with the run's next durable write, and does not wait.

        Once: the same response again changes nothing, another one raises ContextMisuse. Raises PayloadError.
        """
        if self._answer is None:
            raise ContextMisuse(f"Event {self.name!r} was not taken by a run: there is nobody to answer.")
        self._answer.give(self, response)


class Answer:
    """What the run ``run_id`` says to one event that it took at ``place``. The first response that is journaled stands.

    ``flow`` is where the event came from; None where that was no code of a run.
    """

    def __init__(self, flow: Flow | None, run_id: UUID, place: str) -> None:
        self._flow = flow
        self.run_id = run_id
        self.place = place

    def give(self, event: Event, response: Any) -> None:
        flow = executing_flow() or self._flow
        if flow is None:
            raise ContextMisuse(f"Event {event.name!r} is answered by the code of its run, and by nobody else.")
        if flow.run.run_id != self.run_id and not _has_taken(flow, self.place, event):
            raise ContextMisuse(f"Event {event.name!r} was taken by another run: that one answers it.")
        flow.require_open(f"{event.name}.complete")
        text = flow.encode(response, f"response to event {event.name!r}")
        # In the scope that answers, not in that of the wait: a replay that passes by the one is not to miss it there.
        path = _answer_path(flow.scope, self.place)
        is_again = flow.claimed.count(path) > 1
        with flow.answered.mutex:
            given = flow.answered.response(self.place) if is_again else flow.answered.elsewhere(self.place, path)
            if given not in (None, text):
                raise ContextMisuse(f"Event {event.name!r} was answered already, with another response.")
            if given is None:
                self._record(flow, path, text)

    def _record(self, flow: Flow, path: str, text: str) -> None:
        # A replay may come to another response: as with the value of a step, what is journaled stands.
        if flow.find(path, Kind.VALUE) is None:
            flow.require_way()
            if flow.is_looking:
                return
            flow.record(Entry(path, Kind.VALUE, EntryStatus.SUCCEEDED, value=text, awaits=self.place))
            flow.pending.answer({self.place: text})
        flow.answered.take(self.place, path, text)


def _answer_path(scope: str, place: str) -> str:
    """By the event, and not by how many were answered before: changed code may answer others, and in another order."""
    name = place.removeprefix(scope) if place.startswith(scope) else f"/{place}"
    # With what is escaped in it a long one may not fit behind the scope.
    short = name if len(name) <= ANSWER_MAX else hashlib.sha256(name.encode()).hexdigest()[:32]
    return keyed_path(f"{scope}{ANSWER}", short)


def _has_taken(flow: Flow, place: str, event: Event) -> bool:
    """Whether the run has this event from the run that it was forked from."""
    entry = flow.journal.find(place.partition(EVENT)[0])
    if entry is None or entry.kind != Kind.EVENT or entry.value is None:
        return False
    taken = decode(entry.value)
    return any(one[:2] == [event.name, event.sent_at] for one in ([taken] if _is_one(taken) else taken))


def _event_to_data(event: Event) -> dict[str, Any]:
    data = {"name": event.name, "payload": event.payload, "sent_at": event.sent_at}
    answer = event._answer
    return data if answer is None else {**data, "run_id": answer.run_id, "place": answer.place}


def _event_from(data: dict[str, Any]) -> Event:
    if not isinstance(data["name"], str) or not isinstance(data["sent_at"], datetime):
        raise TypeError("a name and a time expected")
    event = Event(data["name"], data["payload"], data["sent_at"])
    if "place" not in data:
        return event
    if not isinstance(data["place"], str) or not isinstance(data["run_id"], UUID):
        raise TypeError("a place and a run expected")
    # To be answered by the code that reads it: it may be the result of a branch, or the state of a loop.
    return replace(event, _answer=Answer(executing_flow(), data["run_id"], data["place"]))


register_tag("taken_event", Event, _event_to_data, _event_from)


# --- one -------------------------------------------------------------------------------------


def wait_for_event(
    flow: Flow, path: str, event: str, timeout: timedelta | float | None, default: Any
) -> Decisions[Any]:
    """The next event ``event`` that no wait has taken; at the time-out ``default``, or EventTimeout."""
    check_name("event", event)
    patience = _patience(timeout)
    entry = flow.find(path, Kind.EVENT)
    if entry is not None and entry.value is not None:
        return _only(flow, entry)
    if entry is not None and entry.status == EntryStatus.FAILED:
        return _timed_out(path, event, default)
    flow.require_live()
    sent = flow.journal.inbox.take_event([event])
    if sent is not None:
        entry = Entry(path, Kind.EVENT, EntryStatus.SUCCEEDED, value=_text(sent), awaits=sent.name)
        flow.pending.consume({sent.id: path})
        flow.record(entry)
        yield LAST
        return _only(flow, entry)
    entry = _waiting(flow, path, entry, [event], patience)
    # A new wait suspends even with a time-out of 0: an event that came after the claim is seen only by the next one.
    if _is_over(flow, entry):
        flow.record(replace(entry, status=EntryStatus.FAILED, error=None))
        yield Persist()
        return _timed_out(path, event, default)
    flow.suspend(entry)


def _patience(timeout: timedelta | float | None) -> float | None:
    return None if timeout is None else max(seconds_of(timeout, "timeout"), 0.0)


def _waiting(flow: Flow, path: str, entry: Entry | None, names: list[str], seconds: float | None) -> Entry:
    """The entry of a wait for these names, journaled. The first time-out stands."""
    awaits = "\n".join(names)
    if entry is None:
        entry = Entry(path, Kind.EVENT, EntryStatus.WAITING, wake_after=seconds, awaits=awaits)
        flow.record(entry)
    elif entry.awaits != awaits:
        # Changed code waits for others: an event of an old name would wake the run again and again for nothing.
        entry = replace(entry, awaits=awaits)
        flow.record(entry)
    return entry


def _is_over(flow: Flow, entry: Entry) -> bool:
    return entry.wake_at is not None and flow.journal.now() >= entry.wake_at


def _text(sent: SentEvent) -> str:
    value = encode([sent.name, sent.sent_at])
    # The payload is text already: it goes into the entry as it is, so that it cannot change on the way.
    return f"{value[:-1]},{sent.payload}]"


def _only(flow: Flow, entry: Entry) -> Event:
    value = decode(cast(str, entry.value))
    if not _is_one(value):
        _diverge(flow, entry.path, "several events", "one")
    return _event(flow, entry.path, value)


def _is_one(value: list[Any]) -> bool:
    """Whether a journaled value is that of a wait for one event, and no list of several."""
    return bool(value) and type(value[0]) is str


def _event(flow: Flow, place: str, value: list[Any]) -> Event:
    name, sent_at, payload = value
    return Event(name, payload, sent_at, _answer=Answer(flow, flow.run.run_id, place))


def _diverge(flow: Flow, path: str, found: str, asked: str) -> None:
    text = f"{path!r} is a wait for {found} in the journal, but the code now asks for {asked}."
    flow.end(Blocked(BlockReason.DIVERGED, text))


def _timed_out(path: str, event: str, default: Any) -> Any:
    if default is MISSING:
        raise EventTimeout(path, event)
    return default


# --- several ---------------------------------------------------------------------------------


def wait_for_events(
    flow: Flow, path: str, events: Iterable[str], count: int, timeout: timedelta | float | None
) -> Decisions[list[Event]]:
    """The next ``count`` events under any of the names ``events``; at the time-out those that have come until then.

    What was taken is journaled while the wait goes on: each event leaves the inbox once, with that commit.
    """
    names, patience = _checked(path, events, count), _patience(timeout)
    entry = flow.find(path, Kind.EVENT)
    if entry is not None and (entry.status == EntryStatus.FAILED or _is_one(_taken(entry))):
        _diverge(flow, path, "one event", "several")
    if entry is None or entry.status != EntryStatus.SUCCEEDED:
        flow.require_live()
        entry = _take(flow, _waiting(flow, path, entry, names, patience), names, count)
        if len(_taken(entry)) < count and not _is_over(flow, entry):
            flow.suspend(entry)
        entry = replace(entry, status=EntryStatus.SUCCEEDED, value=entry.value or "[]", error=None)
        flow.record(entry)
        yield LAST
    return [_event(flow, _place(path, number), value) for number, value in enumerate(_taken(entry))]


def _checked(path: str, events: Any, count: Any) -> list[str]:
    """The names, each once. Raises TypeError, ValueError, InvalidName."""
    if isinstance(events, str) or not isinstance(events, Iterable):
        raise TypeError(f"wait_for_events {path!r} takes the names of events in a list, not {events!r}.")
    names = list(dict.fromkeys(check_name("event", name) for name in events))
    if not names:
        raise ValueError(f"wait_for_events {path!r} takes at least one name.")
    if type(count) is not int or count < 1:
        raise TypeError(f"count of {path!r} must be an integer of at least 1, not {count!r}.")
    fit_path(_place(path, count))
    return names


def _take(flow: Flow, entry: Entry, names: list[str], count: int) -> Entry:
    """``entry`` with what the inbox has for it, up to ``count``, oldest first."""
    number = len(_taken(entry))
    before = number
    while number < count and (sent := flow.journal.inbox.take_event(names)) is not None:
        flow.pending.consume({sent.id: _place(entry.path, number)})
        value = f"{entry.value[:-1]},{_text(sent)}]" if entry.value else f"[{_text(sent)}]"
        entry = replace(entry, value=value)
        number += 1
    if number > before:
        flow.record(entry)
    return entry


def _taken(entry: Entry) -> list[Any]:
    return cast(list[Any], decode(entry.value)) if entry.value is not None else []


def _place(path: str, number: int) -> str:
    """Where a wait for several has put its event ``number``: a path of its own, that no name can make."""
    return f"{path}{EVENT}{number}]"
