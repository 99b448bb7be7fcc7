"""Children: runs that a run starts, in the same commit as the journal entry that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, cast, runtime_checkable
from uuid import UUID

from ...exceptions import ChildFailed
from ..flow.effects import Decisions, Persist, persist_end
from ..flow.flow import Flow
from ..flow.run_info import RunInfo
from ..journal.inbox import ChildState
from ..journal.journal import Entry, NewRun
from ..journal.states import TERMINAL, EntryStatus, Kind, Status
from ..payloads.codec import decode, encode

MakeRun = Callable[[str], NewRun]
"""Builds the child for the path that starts it."""


@runtime_checkable
class Startable(Protocol):
    """A workflow (or ``workflow.using(...)``) as a parent starts it."""

    @property
    def child_key(self) -> object: ...

    def new_child(self, parent: RunInfo, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewRun: ...


def start_child(flow: Flow, path: str, make: MakeRun) -> Decisions[UUID]:
    """Start a child and go on; its id."""
    entry = flow.find(path, Kind.CHILD)
    if entry is None:
        entry = Entry(path, Kind.CHILD, EntryStatus.SUCCEEDED, value=encode(_start(flow, path, make)))
        flow.record(entry)
        yield Persist()
    return cast(UUID, decode(cast(str, entry.value)))


def run_child(flow: Flow, path: str, make: MakeRun) -> Decisions[Any]:
    """Start a child, wait for it without holding anything, and return its value or raise ChildFailed."""
    entry = flow.find(path, Kind.CHILD)
    if entry is None:
        entry = Entry(path, Kind.CHILD, EntryStatus.WAITING, awaits=str(_start(flow, path, make)))
        flow.record(entry)
        flow.suspend(entry)
    if entry.status == EntryStatus.WAITING:
        flow.require_live()
        state = flow.journal.inbox.child(path)
        if state is None or state.status not in TERMINAL:
            flow.suspend(entry)
        entry = ended(entry, state)
        flow.record(entry)
        yield persist_end(entry)
    if entry.status == EntryStatus.FAILED:
        status, error = decode(cast(str, entry.error))
        raise ChildFailed(path, UUID(entry.awaits), status, error)
    return decode(cast(str, entry.value))


def _start(flow: Flow, path: str, make: MakeRun) -> UUID:
    if flow.is_looking:
        # Raises where the input is wrong: the code may have gone on from there.
        make(path)
    flow.require_live()
    child = make(path)
    flow.pending.start([child])
    return child.id


def ended(entry: Entry, state: ChildState) -> Entry:
    """``entry`` once its child has come to ``state``, which is terminal."""
    if state.status == Status.SUCCEEDED:
        return replace(entry, status=EntryStatus.SUCCEEDED, value=state.output, error=None)
    error = decode(state.error) if state.error else {"type": "RunCancelled", "message": "the child was cancelled"}
    return replace(entry, status=EntryStatus.FAILED, error=encode([str(state.status), error]))
