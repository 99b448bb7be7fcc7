"""Race: the first branch that succeeds wins, and stays the winner; what the others have done is undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..exceptions import PayloadError, RaceError
from .codec import decode, encode
from .compensation import owes
from .effects import Decisions, Persist, Raised
from .failures import describe
from .flow import Flow
from .joins import branches_of, described, names_of, require_same
from .journal import Entry
from .names import make_path
from .paths import above
from .scopes import Body, Branch, Branches, revisit, revisit_all, revisit_if_stopped
from .states import EntryStatus, Kind
from .undoing import Loser


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
            _leave_behind(flow, failed, group.unfinished)
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


def _leave_behind(flow: Flow, failed: list[Branch], unfinished: list[tuple[Branch, bool]]) -> None:
    """The losers wait for nothing any more, and what they have done is to be undone."""
    for branch, is_running in [*((branch, False) for branch in failed), *unfinished]:
        flow.seen.add(f"{branch.path}/")
        flow.abandon(branch.path)
        flow.losers.append(Loser(branch.path, branch.body, branch.part if is_running else None))


def is_lost(path: str, won: Mapping[str, str]) -> bool:
    """Whether ``path`` lies in a branch that lost one of these races; ``won`` has their winners by the races' paths."""
    return any(race in won and not path.startswith(make_path(f"{race}/", won[race]) + "/") for race in above(path))
