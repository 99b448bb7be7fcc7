"""What others have sent to a run: events, and how its children stand."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID


@dataclass(slots=True, frozen=True)
class SentEvent:
    """An event that waits in the database to be taken."""

    id: int
    name: str
    payload: str
    sent_at: datetime


@dataclass(slots=True, frozen=True)
class ChildState:
    """How a child run stands: ``status``, and its encoded output or error once it has ended."""

    run_id: UUID
    status: str
    output: str | None = None
    error: str | None = None


class Inbox(Protocol):
    """What others have made durable for this run, as far as this process has heard."""

    def take_event(self, names: Collection[str]) -> SentEvent | None:
        """The oldest event under one of these names that nobody has taken; it is taken with this call."""

    def has_event(self, names: Collection[str]) -> bool:
        """Whether ``take_event`` would find one."""

    def child(self, path: str) -> ChildState | None:
        """The child run that was started at ``path``."""

    def refresh(self, events: Iterable[SentEvent], children: dict[str, ChildState]) -> None:
        """Take in what there is now. An event that was taken before is not there again."""


class MemoryInbox:
    """An inbox in lists and dicts: loaded from rows at a claim, or filled by a test."""

    def __init__(
        self, events: Iterable[SentEvent] | None = None, children: dict[str, ChildState] | None = None
    ) -> None:
        self._events = list(events or [])
        self._children = children or {}
        self._taken: set[int] = set()
        self._mutex = threading.Lock()

    def take_event(self, names: Collection[str]) -> SentEvent | None:
        with self._mutex:
            for position, event in enumerate(self._events):
                if event.name in names:
                    self._taken.add(event.id)
                    return self._events.pop(position)
        return None

    def has_event(self, names: Collection[str]) -> bool:
        with self._mutex:
            return any(event.name in names for event in self._events)

    def child(self, path: str) -> ChildState | None:
        return self._children.get(path)

    def refresh(self, events: Iterable[SentEvent], children: dict[str, ChildState]) -> None:
        with self._mutex:
            known = {event.id for event in self._events}
            fresh = [event for event in events if event.id not in known and event.id not in self._taken]
            self._events = sorted([*self._events, *fresh], key=lambda event: event.id)
        self._children = {**self._children, **children}
