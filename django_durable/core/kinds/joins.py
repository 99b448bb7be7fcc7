"""Join: all branches side by side, and all of them to their ends, whatever becomes of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...exceptions import JoinError, PayloadError
from ..flow.branches import Branch, Branches, look_through, revisit_all, revisit_if_stopped
from ..flow.effects import Decisions, Raised, persist_end
from ..flow.flow import Flow
from ..flow.scopes import Body
from ..journal.journal import Entry
from ..journal.states import EntryStatus, Kind
from ..payloads.briefly import encode_failures
from ..payloads.codec import decode, encode
from .branching import branches_of, names_of, require_same
from .error_data import described


def join(flow: Flow, path: str, bodies: Mapping[str, Body]) -> Decisions[dict[str, Any]]:
    """What each branch returned, by its name. Raises JoinError once all have ended, where any failed."""
    branches = branches_of(path, bodies)
    entry = flow.find(path, Kind.JOIN)
    if entry is not None and entry.value is not None:
        require_same(flow, path, decode(entry.value), branches)
    if entry is None or entry.status == EntryStatus.OPEN:
        entry = yield from _run(flow, path, branches, entry)
    else:
        yield from revisit_all(flow, branches)
    if entry.status == EntryStatus.FAILED:
        raise JoinError(path, decode(cast(str, entry.error)))
    return cast(dict[str, Any], decode(cast(str, entry.value)))


def _run(flow: Flow, path: str, branches: list[Branch], entry: Entry | None) -> Decisions[Entry]:
    if flow.is_looking:
        yield from look_through(flow, path, branches, least=len(branches))
    else:
        yield from _run_all(flow, path, branches, entry)
    values: dict[str, Any] = {}
    errors: dict[str, Any] = {}
    for branch in branches:
        if isinstance(branch.performed, Raised):
            errors[branch.name] = described(branch.performed.error)
        else:
            values[branch.name] = branch.performed.value
    entry = _decided(flow, path, branches, values, errors)
    flow.record(entry)
    yield persist_end(entry)
    return entry


def _run_all(flow: Flow, path: str, branches: list[Branch], entry: Entry | None) -> Decisions[None]:
    yield from revisit_if_stopped(flow, branches)
    flow.require_live()
    if entry is None:
        flow.record(Entry(path, Kind.JOIN, EntryStatus.OPEN, value=names_of(branches)))
    group = Branches(flow, branches, f"join:{path}")
    while (yield from group.next()) is not None:
        pass


def _decided(flow: Flow, path: str, branches: list[Branch], values: dict[str, Any], errors: dict[str, Any]) -> Entry:
    if not errors:
        try:
            value = flow.encode({branch.name: values[branch.name] for branch in branches}, f"results of {path!r}")
            return Entry(path, Kind.JOIN, EntryStatus.SUCCEEDED, value=value)
        except PayloadError as error:
            errors = _refused(flow, branches, values) or {_largest(values): described(error)}
    told = encode_failures({branch.name: errors[branch.name] for branch in branches if branch.name in errors})
    return Entry(path, Kind.JOIN, EntryStatus.FAILED, value=names_of(branches), error=told)


def _refused(flow: Flow, branches: Sequence[Branch], values: Mapping[str, Any]) -> dict[str, Any]:
    """The branches whose results cannot be stored: they have failed with that, as a step would."""
    errors = {}
    for branch in branches:
        try:
            encode(values[branch.name], limit=flow.run.max_payload_bytes, root=f"result of {branch.path!r}")
        except PayloadError as error:
            errors[branch.name] = described(error)
    return errors


def _largest(values: Mapping[str, Any]) -> str:
    """Where all can be stored, and are only together too large."""
    return max(values, key=lambda name: len(encode(values[name])))
