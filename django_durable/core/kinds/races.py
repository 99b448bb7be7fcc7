"""Race: the first branch that succeeds wins, and stays the winner; what the others have done is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...exceptions import PayloadError, RaceError
from ..flow.abandoning import abandon
from ..flow.branches import Branch, Branches, revisit_all, revisit_if_stopped
from ..flow.effects import Decisions, Persist, Raised
from ..flow.flow import Flow
from ..flow.parts import absorb
from ..flow.scopes import Body, revisit
from ..flow.undoing import Loser
from ..journal.journal import Entry
from ..journal.states import EntryStatus, Kind
from ..payloads.codec import decode, encode
from ..payloads.failures import describe
from .compensation import owes
from .joins import branches_of, described, names_of, require_same


def race(flow: Flow, path: str, bodies: Mapping[str, Body]) -> Decisions[tuple[str, Any]]:
    """Name and value of the first branch that succeeded. Raises RaceError where every one failed."""
    branches = branches_of(path, bodies)
    entry = flow.find(path, Kind.RACE)
    if entry is not None and entry.value is not None:
        _require_same(flow, path, entry, branches)
    if entry is None or entry.status == EntryStatus.OPEN:
        entry = yield from _run(flow, path, branches, entry)
    elif entry.status == EntryStatus.FAILED:
        yield from revisit_all(flow, branches)
    else:
        yield from _come_by(flow, branches, decode(cast(str, entry.value))[0])
    if entry.status == EntryStatus.FAILED:
        raise RaceError(path, decode(cast(str, entry.error)))
    winner, value = decode(cast(str, entry.value))
    return winner, value


def _require_same(flow: Flow, path: str, entry: Entry, branches: list[Branch]) -> None:
    """A race that was decided goes on with its winner; the others may have come and gone."""
    journaled = decode(cast(str, entry.value))
    if entry.status != EntryStatus.SUCCEEDED or journaled[0] not in {branch.name for branch in branches}:
        require_same(flow, path, journaled[:1] if entry.status == EntryStatus.SUCCEEDED else journaled, branches)


def _come_by(flow: Flow, branches: list[Branch], winner: str) -> Decisions[None]:
    for branch in branches:
        if branch.name == winner:
            yield from revisit(flow, branch.path, branch.body)
        else:
            flow.seen.add(f"{branch.path}/")
            if owes(flow, branch.path):
                flow.losers.append(Loser(branch.path, branch.body))


def _run(flow: Flow, path: str, branches: list[Branch], entry: Entry | None) -> Decisions[Entry]:
    yield from revisit_if_stopped(flow, branches)
    flow.require_live()
    if entry is None:
        entry = Entry(path, Kind.RACE, EntryStatus.OPEN, value=names_of(branches))
        flow.record(entry)
    failed: list[Branch] = []
    errors: dict[str, Any] = {}
    group = Branches(flow, branches, f"race:{path}")
    while (branch := (yield from group.next())) is not None:
        won, error = _win(flow, path, branch)
        if won is not None:
            yield from group.stop()
            flow.record(won)
            for parked in group.waiting:
                absorb(flow, parked.part)
            _leave_behind(flow, [*failed, *group.waiting], group.running)
            yield Persist()
            return won
        failed.append(branch)
        errors[branch.name] = error
    told = encode({branch.name: errors[branch.name] for branch in branches})
    entry = Entry(path, Kind.RACE, EntryStatus.FAILED, value=names_of(branches), error=told)
    flow.record(entry)
    yield Persist()
    return entry


def _win(flow: Flow, path: str, branch: Branch) -> tuple[Entry | None, dict[str, Any]]:
    """The entry that makes ``branch`` the winner, or its error."""
    if isinstance(branch.performed, Raised):
        return None, described(branch.performed.error)
    try:
        value = flow.encode([branch.name, branch.performed.value], f"result of {path!r}")
    except PayloadError as error:
        return None, describe(error)
    return Entry(path, Kind.RACE, EntryStatus.SUCCEEDED, value=value), {}


def _leave_behind(flow: Flow, over: Sequence[Branch], running: Sequence[Branch]) -> None:
    """The losers wait for nothing any more, and what they have done is to be undone."""
    for branch in (*over, *running):
        flow.seen.add(f"{branch.path}/")
        abandon(flow, branch.path)
        flow.losers.append(Loser(branch.path, branch.body, branch.part if branch in running else None))
