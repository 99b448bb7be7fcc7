"""Journal entries, what one commit carries, and the journal as the flow sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from ..clock import utcnow
from ..limits import Meeting
from .inbox import ChildState, Inbox, MemoryInbox, SentEvent
from .log import Log
from .outcomes import Outcome
from .paths import scopes_of
from .states import EntryStatus, Kind

WAITS = (EntryStatus.WAITING, EntryStatus.RETRYING)

TIMED_OUT = "null"
"""The ``error`` of an entry that failed without one, since its time was up, once it is open again."""


@dataclass(slots=True)
class Entry:
    """One journal row. ``value`` and ``error`` are encoded text; ``wake_after`` is seconds from the commit on.

    One that is not over has them of the attempt before this one, or of the time before a resume opened it again.

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
    undo: bool = False
    """Whether a compensation was given: it has to be found again, should the run fail."""
    seconds: float | None = None
    """How long the last attempt of a step took; kept to date its beginning by the database's clock."""
    max_attempts: int | None = None
    """Of a step that has failed just now, to be told and not stored: how many its policy gives it."""
    is_new: bool = field(default=False, compare=False)
    """Whether its journal had none at this path: it is inserted, unless a commit that was never answered was made."""

    @property
    def is_wait(self) -> bool:
        return self.status in WAITS

    @property
    def is_anew(self) -> bool:
        """Whether a resume has opened it, and nothing was done for it since."""
        return self.status == EntryStatus.RETRYING and self.attempts == 0


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
    limit_key: str | None = None
    meeting: Meeting | None = None
    """What its start does that meets another run of its ``limit_key``; None: nothing."""
    tags: tuple[str, ...] = ()


@dataclass(slots=True)
class Write:
    """What one commit makes durable for one run. Entries are by path: a later one replaces an earlier one.

    Every step makes one: what few of them have is made once there is something of it.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    children: list[NewRun] | tuple[()] = ()
    consumed: dict[int, str] | None = None
    """Events that were taken, by id: the paths at which they were."""
    answers: dict[str, str] | None = None
    """Encoded responses to events, by the paths at which these were taken."""
    progress: str | None = None
    notes: dict[str, str] | None = None
    """Encoded values of annotations by name; the others stay as they are."""
    log: Log | None = None
    """What was logged. None: nothing, as in most writes."""
    forgotten: Set[str] = frozenset()
    """Paths of entries that are pruned."""
    unwanted: list[str] | tuple[()] = ()
    """Paths of children (or maps of them) to be cancelled: a branch that lost a race waited there."""
    outcome: Outcome | None = None

    def __bool__(self) -> bool:
        return bool(
            self.entries
            or self.children
            or self.consumed
            or self.answers
            or self.progress
            or self.notes
            or self.log
            or self.forgotten
            or self.unwanted
            or self.outcome
        )

    def start(self, children: Iterable[NewRun]) -> None:
        self.children = self.children or []
        self.children += children

    def consume(self, events: Mapping[int, str]) -> None:
        self.consumed = self.consumed or {}
        self.consumed |= events

    def answer(self, responses: Mapping[str, str]) -> None:
        self.answers = self.answers or {}
        self.answers |= responses

    def annotate(self, notes: Mapping[str, str]) -> None:
        self.notes = self.notes or {}
        self.notes |= notes

    def leave(self, paths: Iterable[str]) -> None:
        """Have the children at ``paths`` cancelled."""
        self.unwanted = self.unwanted or []
        self.unwanted += paths

    def absorb(self, other: Write) -> None:
        """Add what another line of the same run has to write; where both wrote, the other did so later."""
        self.entries.update(other.entries)
        if other.children:
            self.start(other.children)
        if other.consumed:
            self.consume(other.consumed)
        if other.answers:
            self.answer(other.answers)
        self.progress = other.progress or self.progress
        if other.notes:
            self.annotate(other.notes)
        if other.log is not None:
            self.open_log().absorb(other.log)
        self.forgotten |= other.forgotten
        if other.unwanted:
            self.leave(other.unwanted)

    def unsay(self) -> None:
        """What a replay has said so far is stored."""
        self.progress = self.notes = None
        if self.log is not None:
            self.log = self.log.unsaid()

    def open_log(self) -> Log:
        """What was logged, to add to."""
        if self.log is None:
            self.log = Log()
        return self.log

    def forget(self, paths: Collection[str]) -> None:
        """Prune these entries, written or not."""
        for path in paths:
            self.entries.pop(path, None)
        self.forgotten |= frozenset(paths)


class Journal(Protocol):
    """What is durable of one run. Reading is from memory: the claim loaded it; writing is the driver's work."""

    inbox: Inbox

    @property
    def size(self) -> int:
        """How many entries there are; where there are none, there is nothing to replay."""

    @property
    def has_undo(self) -> bool:
        """Whether a step was given a compensation: where none was, nothing is owed."""

    def ask(self, path: str) -> Entry | None:
        """As ``find``, for code of the workflow that has come to ``path``: who listens for the way that it takes hears
        of this, and not of the core's own looks."""

    def find(self, path: str) -> Entry | None:
        """The entry at ``path``, or None."""

    def under(self, scope: str) -> list[Entry]:
        """The entries whose paths begin with ``scope``, in the order in which they were first journaled.

        ``scope`` is empty, or ends with ``/`` or ``[``. What it costs depends on what is in the scope only.
        """

    def of(self, *statuses: EntryStatus, kind: Kind | None = None) -> list[Entry]:
        """The entries with one of these statuses, in any order; those of ``kind`` only where it is given."""

    def add(self, entry: Entry) -> None:
        """Take up an entry that is about to be written; gives it the next ``seq`` if it is new."""

    def forget(self, paths: Collection[str]) -> None:
        """Drop entries that are about to be pruned."""

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
        self.inbox: Inbox = MemoryInbox(events, children)
        self._now = now
        self._seq = max(entry.seq for entry in self.entries.values()) if self.entries else 0
        self._kinds = {entry.kind for entry in self.entries.values()} if self.entries else set()
        """Those of which there is an entry, or was one: every attempt asks for some that few have."""
        self._has_undo = any(entry.undo for entry in self.entries.values()) if self.entries else False
        self._scopes: dict[str, dict[str, Entry]] | None = None
        """The entries of each scope by path; made when a scope is first asked for: most runs have none."""
        self._mutex = threading.Lock()

    @property
    def size(self) -> int:
        return len(self.entries)

    @property
    def has_undo(self) -> bool:
        return self._has_undo

    def ask(self, path: str) -> Entry | None:
        return self.entries.get(path)

    def find(self, path: str) -> Entry | None:
        return self.entries.get(path)

    def under(self, scope: str) -> list[Entry]:
        with self._mutex:
            found = list((self._by_scope().get(scope, {}) if scope else self.entries).values())
        return sorted(found, key=lambda entry: entry.seq)

    def _by_scope(self) -> dict[str, dict[str, Entry]]:
        if self._scopes is None:
            self._scopes = {}
            for entry in self.entries.values():
                _file(self._scopes, entry)
        return self._scopes

    def of(self, *statuses: EntryStatus, kind: Kind | None = None) -> list[Entry]:
        if kind is not None and kind not in self._kinds:
            return []
        with self._mutex:
            if kind is None:
                return [entry for entry in self.entries.values() if entry.status in statuses]
            return [entry for entry in self.entries.values() if entry.kind == kind and entry.status in statuses]

    def add(self, entry: Entry) -> None:
        with self._mutex:
            known = self.entries.get(entry.path)
            entry.is_new = known is None
            if known is not None:
                entry.seq = known.seq
            else:
                self._seq += 1
                entry.seq = self._seq
            self._kinds.add(entry.kind)
            self._has_undo |= entry.undo
            self.entries[entry.path] = entry
            if self._scopes is not None:
                _file(self._scopes, entry)

    def forget(self, paths: Collection[str]) -> None:
        with self._mutex:
            for path in paths:
                if self.entries.pop(path, None) is not None and self._scopes is not None:
                    _unfile(self._scopes, path)

    def now(self) -> datetime:
        return self._now()


def _file(scopes: dict[str, dict[str, Entry]], entry: Entry) -> None:
    for scope in scopes_of(entry.path):
        scopes.setdefault(scope, {})[entry.path] = entry


def _unfile(scopes: dict[str, dict[str, Entry]], path: str) -> None:
    for scope in scopes_of(path):
        scopes[scope].pop(path, None)
        if not scopes[scope]:
            # Else an endless loop leaves an empty one behind with every turn.
            del scopes[scope]
