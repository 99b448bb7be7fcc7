"""Journal entries, what one commit carries, and the journal as the flow sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from .clock import utcnow
from .outcomes import Outcome
from .states import EntryStatus, Kind


@dataclass(slots=True)
class Entry:
    """One journal row. ``value`` and ``error`` are encoded text; ``wake_after`` is seconds from the commit on.

    ``wake_at`` is the database's time. A new wait only knows how long it lasts (``wake_after``): the
    statement that stores it turns that into an instant of the database's clock.
    """

    path: str
    kind: Kind
    status: EntryStatus
    seq: int = 0
    attempts: int = 0
    value: str | None = None
    error: str | None = None
    started_at: datetime | None = None
    wake_at: datetime | None = None
    wake_after: float | None = None
    awaits: str = ""
    seconds: float | None = None
    """How long the last attempt of a step took; kept to date its beginning by the database's clock."""


@dataclass(slots=True, frozen=True)
class SentEvent:
    """An event that waits in the database to be taken."""

    id: int
    name: str
    payload: str
    sent_at: datetime


@dataclass(slots=True)
class NewRun:
    """A run about to be inserted: the columns that its starter decides. ``run_after`` seconds or an instant."""

    id: UUID
    workflow: str
    input: str
    queue: str = "default"
    priority: int = 0
    max_attempts: int | None = None
    run_at: datetime | None = None
    run_after: float | None = None
    deadline_at: datetime | None = None
    deadline_after: float | None = None
    parent_id: UUID | None = None
    parent_path: str = ""
    root_id: UUID | None = None
    detached: bool = False
    tags: tuple[str, ...] = ()


@dataclass(slots=True)
class Write:
    """What one commit makes durable for one run. Entries are by path: a later one replaces an earlier one."""

    entries: dict[str, Entry] = field(default_factory=dict)
    children: list[NewRun] = field(default_factory=list)
    consumed: dict[int, str] = field(default_factory=dict)
    progress: str | None = None
    outcome: Outcome | None = None

    def __bool__(self) -> bool:
        return bool(self.entries or self.children or self.consumed or self.progress or self.outcome)


@dataclass(slots=True, frozen=True)
class ChildState:
    """How a child run stands: ``status``, and its encoded output or error once it has ended."""

    run_id: UUID
    status: str
    output: str | None = None
    error: str | None = None


class Journal(Protocol):
    """What is durable of one run. Reading is from memory: the claim loaded it; writing is the driver's work."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever journaled: there is nothing to replay."""

    def find(self, path: str) -> Entry | None:
        """The entry at ``path``, or None."""

    def add(self, entry: Entry) -> None:
        """Take up an entry that is about to be written; gives it the next ``seq`` if it is new."""

    def take_event(self, name: str) -> SentEvent | None:
        """The oldest event under ``name`` that nobody has taken; it is taken with this call."""

    def child(self, path: str) -> ChildState | None:
        """The child run that was started at ``path``."""

    def now(self) -> datetime:
        """The database's time, never ahead of it."""


class MemoryJournal:
    """A journal in dicts: loaded from rows at a claim, or filled by a test."""

    def __init__(
        self,
        entries: dict[str, Entry] | None = None,
        events: list[SentEvent] | None = None,
        children: dict[str, ChildState] | None = None,
        now: Callable[[], datetime] = utcnow,
    ) -> None:
        self.entries = entries if entries is not None else {}
        self._events = events or []
        self._children = children or {}
        self._now = now
        self._seq = max((entry.seq for entry in self.entries.values()), default=0)

    @property
    def is_empty(self) -> bool:
        return not self.entries

    def find(self, path: str) -> Entry | None:
        return self.entries.get(path)

    def add(self, entry: Entry) -> None:
        known = self.entries.get(entry.path)
        if known is not None:
            entry.seq = known.seq
        else:
            self._seq += 1
            entry.seq = self._seq
        self.entries[entry.path] = entry

    def take_event(self, name: str) -> SentEvent | None:
        for position, event in enumerate(self._events):
            if event.name == name:
                return self._events.pop(position)
        return None

    def child(self, path: str) -> ChildState | None:
        return self._children.get(path)

    def now(self) -> datetime:
        return self._now()
