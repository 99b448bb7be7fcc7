"""Waits that nobody is at any more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..journal.journal import WAITS
from ..journal.states import EntryStatus, Kind
from .flow import Flow


def abandon(flow: Flow, path: str, *, anew: bool = False) -> None:
    """Close the waits in the scope ``path``, and cancel the children that were waited for there.

    ``anew``: those too that were closed before: a line that was still running may have written them as open after that.
    """
    for entry in flow.journal.under(f"{path}/"):
        if entry.kind == Kind.UNDO:
            # What undoes it goes on.
            continue
        is_again = anew and entry.status == EntryStatus.ABANDONED
        # A map is open while it starts its children.
        if entry.is_wait or is_again or (entry.kind == Kind.MAP and entry.status == EntryStatus.OPEN):
            if entry.kind in (Kind.CHILD, Kind.MAP):
                flow.pending.leave([entry.path])
            flow.record(replace(entry, status=EntryStatus.ABANDONED))


def leave_waits(flow: Flow, paths: Collection[str] = ()) -> None:
    """The run comes to a rest and waits at ``paths``: whatever else was waited for once, nobody is there now."""
    for entry in flow.journal.of(EntryStatus.WAITING):
        if entry.path not in paths:
            flow.record(replace(entry, status=EntryStatus.ABANDONED))


def leave_all(flow: Flow) -> None:
    """The run has succeeded, and nobody will come back to what was waited for, or was to be tried again. One that fails
    or is cancelled keeps its waits: there it goes on when it is resumed."""
    for entry in flow.journal.of(*WAITS):
        flow.record(replace(entry, status=EntryStatus.ABANDONED))
