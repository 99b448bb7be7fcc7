"""Points of no return."""

from __future__ import annotations

from .effects import Decisions, Persist
from .flow import Flow
from .journal import Entry
from .states import EntryStatus, Kind


def checkpoint(flow: Flow, path: str) -> Decisions[None]:
    """Nothing that was done before is undone from here on: by this line and by those around it."""
    if flow.find(path, Kind.MARK) is None:
        flow.require_live()
        flow.record(Entry(path, Kind.MARK, EntryStatus.SUCCEEDED))
        yield Persist()
    flow.forget_undos()
