"""Code that changes under live runs: which version a run goes by, and what the code no longer has."""

from __future__ import annotations

from typing import cast

from ..flow.flow import Flow
from ..journal.journal import Entry
from ..journal.states import EntryStatus, Kind
from ..names import check_name
from ..payloads.codec import decode, encode


def version(flow: Flow, path: str, latest: int) -> int:
    """``latest`` for a run that comes here first, 1 for one that was past this point before the gate was there.

    Pinned when it is first asked, so that a run never changes its mind; journaled with the next durable write.
    """
    if type(latest) is not int or latest < 1:
        raise TypeError(f"version {path!r} takes an integer of at least 1, not {latest!r}.")
    entry = flow.find(path, Kind.GATE)
    if entry is None:
        flow.require_way()
        number = 1 if flow.unvisited(flow.scope) else latest
        entry = Entry(path, Kind.GATE, EntryStatus.SUCCEEDED, value=encode(number))
        flow.record(entry)
    return cast(int, decode(cast(str, entry.value)))


def removed(flow: Flow, name: str, kind: str) -> None:
    """The code had an entry of this ``kind`` at ``name``, under whatever keys, and has it no more."""
    check_name("name", name)
    path = flow.claim(name)
    if kind not in tuple(Kind):
        raise ValueError(f"removed({name!r}) takes one of {', '.join(Kind)}, not {kind!r}.")
    if flow.journal.find(path) is not None:
        flow.find(path, Kind(kind))
    flow.seen |= {path, f"{path}/", f"{path}["}
