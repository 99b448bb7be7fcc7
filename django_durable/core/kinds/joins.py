"""Join: all branches side by side, and all of them to their ends, whatever becomes of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from ...exceptions import JoinError, PayloadError
from ..flow.branches import Branch, Branches, revisit_all, revisit_if_stopped
from ..flow.effects import Decisions, Persist, Raised
from ..flow.flow import Flow
from ..flow.scopes import Body
from ..journal.culprits import culprits_of
from ..journal.journal import Entry
from ..journal.outcomes import Blocked
from ..journal.states import BlockReason, EntryStatus, Kind
from ..names import make_path
from ..payloads.briefly import encode_failures
from ..payloads.codec import decode, encode
from ..payloads.failures import describe
from .reasons import reason_of


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


def branches_of(path: str, bodies: Mapping[str, Body]) -> list[Branch]:
    """A branch for each body, in the scope that its name makes. Raises TypeError, InvalidName."""
    given: Any = bodies
    if not isinstance(given, Mapping):
        raise TypeError(f"{path!r} takes a dict of branches, name → function of ctx, not {bodies!r}.")
    for name, body in bodies.items():
        if not callable(body):
            raise TypeError(f"Branch {name!r} of {path!r} must be a function that takes ctx, not {body!r}.")
    return [Branch(name, make_path(f"{path}/", name), body) for name, body in bodies.items()]


def require_same(flow: Flow, path: str, journaled: Collection[str], branches: Sequence[Branch]) -> None:
    """End as diverged where the branches go by other names than those that were journaled, in whatever order."""
    names = {branch.name for branch in branches}
    if names != set(journaled):
        text = f"{path!r} was begun with the branches {_listed(journaled)}, but the code now gives it {_listed(names)}."
        flow.end(Blocked(BlockReason.DIVERGED, text))


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def names_of(branches: Sequence[Branch]) -> str:
    """What the journal keeps of the branches, until there is a result to keep."""
    return encode([branch.name for branch in branches])


def _run(flow: Flow, path: str, branches: list[Branch], entry: Entry | None) -> Decisions[Entry]:
    yield from revisit_if_stopped(flow, branches)
    flow.require_live()
    if entry is None:
        entry = Entry(path, Kind.JOIN, EntryStatus.OPEN, value=names_of(branches))
        flow.record(entry)
    values: dict[str, Any] = {}
    errors: dict[str, Any] = {}
    group = Branches(flow, branches, f"join:{path}")
    while (branch := (yield from group.next())) is not None:
        if isinstance(branch.performed, Raised):
            errors[branch.name] = described(branch.performed.error)
        else:
            values[branch.name] = branch.performed.value
    entry = _decided(flow, path, branches, values, errors)
    flow.record(entry)
    yield Persist()
    return entry


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


def described(error: BaseException) -> dict[str, Any]:
    """A branch's error as data; ``culprits`` are the paths whose failure an operator's resume would try again."""
    told = {**describe(error), "reason": reason_of(error)}
    if culprits := culprits_of(error):
        told["culprits"] = culprits
    return told
