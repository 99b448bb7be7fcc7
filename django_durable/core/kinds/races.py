"""Race: the first branch that succeeds wins, and stays the winner; what the others have done is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ...exceptions import PayloadError, RaceError
from ..flow.abandoning import abandon
from ..flow.branches import Branch, Branches, look_through, revisit_all, revisit_if_stopped
from ..flow.effects import Decisions, Persist, Raised
from ..flow.flow import Flow
from ..flow.parts import absorb
from ..flow.scopes import Body, enter, revisit
from ..journal.journal import Entry
from ..journal.losers import winner_of
from ..journal.outcomes import Stopped
from ..journal.states import EntryStatus, Kind
from ..payloads.briefly import encode_failures
from ..payloads.codec import decode, encode
from .branching import branches_of, names_of, require_same
from .checkpoints import take_marks
from .error_data import described


def race(flow: Flow, path: str, bodies: Mapping[str, Body]) -> Decisions[tuple[str, Any]]:
    """Name and value of the first branch that succeeded. Raises RaceError where every one failed, and where the value
    of the first cannot be stored."""
    branches = branches_of(path, bodies)
    if not branches:
        raise TypeError(f"Race {path!r} takes at least one branch: of none, none can be the first.")
    entry = flow.find(path, Kind.RACE)
    if entry is not None and entry.value is not None:
        _require_same(flow, path, entry, branches)
    if (entry is None or entry.status == EntryStatus.OPEN) and flow.is_looking:
        entry = yield from _look_for_winner(flow, path, branches)
    elif entry is None or entry.status == EntryStatus.OPEN:
        entry = yield from _run(flow, path, branches, entry)
    elif entry.status == EntryStatus.FAILED:
        yield from revisit_all(flow, branches)
    elif _is_to_win_again(entry):
        entry = yield from _win_again(flow, path, branches, entry)
    else:
        yield from _come_by(flow, branches, winner_of(entry))
    if entry.status == EntryStatus.FAILED:
        raise RaceError(path, decode(cast(str, entry.error)))
    winner, value = decode(cast(str, entry.value))
    return winner, value


def _require_same(flow: Flow, path: str, entry: Entry, branches: list[Branch]) -> None:
    """A race that was decided goes on with its winner; the others may have come and gone."""
    if entry.status != EntryStatus.SUCCEEDED:
        require_same(flow, path, decode(cast(str, entry.value)), branches)
    elif (winner := winner_of(entry)) is not None and winner not in {branch.name for branch in branches}:
        require_same(flow, path, [winner], branches)


def _come_by(flow: Flow, branches: list[Branch], winner: str | None) -> Decisions[None]:
    for branch in branches:
        # A loser has nothing to say any more, but to whoever looks for what there is to undo.
        if branch.name == winner or flow.is_looking:
            yield from revisit(flow, branch.path, branch.body)
        else:
            flow.seen.add(f"{branch.path}/")


def _is_to_win_again(entry: Entry) -> bool:
    """Whether what the winner had returned was made of a failure that is to be tried again: the journal keeps its name,
    and no result (``core.reopening``)."""
    return entry.status == EntryStatus.SUCCEEDED and entry.value == encode([winner_of(entry)])


def _win_again(flow: Flow, path: str, branches: list[Branch], entry: Entry) -> Decisions[Entry]:
    """The losers stay what they are, and what they did stays undone: they would not have waited so long."""
    winner = next(branch for branch in branches if branch.name == winner_of(entry))
    losers = [branch for branch in branches if branch is not winner]
    if flow.is_looking:
        yield from revisit_all(flow, losers)
        yield from look_through(flow, path, [winner], least=1)
        performed = winner.performed
    else:
        flow.seen.update(f"{branch.path}/" for branch in losers)
        performed = yield from enter(flow, winner.path, winner.body)
    if isinstance(performed, Raised):
        return (yield from _fail(flow, path, branches, {winner.name: described(performed.error)}))
    try:
        value = flow.encode([winner.name, performed.value], f"result of {path!r}")
    except PayloadError as error:
        return (yield from _fail(flow, path, branches, {winner.name: described(error)}))
    entry = replace(entry, value=value)
    flow.record(entry)
    yield Persist()
    return entry


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
        if isinstance(branch.performed, Raised):
            failed.append(branch)
            errors[branch.name] = described(branch.performed.error)
            continue
        try:
            won = _won(flow, path, branch.name, branch.performed.value)
        except PayloadError as error:
            yield from _call_off(flow, group)
            return (yield from _fail(flow, path, branches, {branch.name: described(error)}))
        yield from group.stop()
        flow.record(won)
        take_marks(flow, f"{branch.path}/")
        for parked in group.waiting:
            absorb(flow, parked.part)
        _leave_behind(flow, [*failed, *group.waiting], group.running)
        yield Persist()
        return won
    return (yield from _fail(flow, path, branches, {branch.name: errors[branch.name] for branch in branches}))


def _look_for_winner(flow: Flow, path: str, branches: list[Branch]) -> Decisions[Entry]:
    """What the code of an open race comes to. A line that only looks asks for it where that was known once."""
    ended = yield from look_through(flow, path, branches, least=1)
    errors: dict[str, Any] = {}
    for branch in ended:
        if isinstance(branch.performed, Raised):
            errors[branch.name] = described(branch.performed.error)
            continue
        try:
            won = _won(flow, path, branch.name, branch.performed.value)
        except PayloadError as error:
            return (yield from _fail(flow, path, branches, {branch.name: described(error)}))
        flow.record(won)
        return won
    if len(ended) < len(branches):
        # One of the others may win yet.
        flow.end(Stopped())
    return (yield from _fail(flow, path, branches, errors))


def _won(flow: Flow, path: str, winner: str, value: Any) -> Entry:
    text = flow.encode([winner, value], f"result of {path!r}")
    return Entry(path, Kind.RACE, EntryStatus.SUCCEEDED, value=text)


def _call_off(flow: Flow, group: Branches) -> Decisions[None]:
    """There is a winner, and what it returned cannot be stored: a replay could not give it. Nobody wins after it."""
    others = [*group.running, *group.waiting]
    yield from group.stop()
    yield from group.take_over()
    for branch in others:
        flow.seen.add(f"{branch.path}/")
        abandon(flow, branch.path)


def _fail(flow: Flow, path: str, branches: list[Branch], errors: dict[str, Any]) -> Decisions[Entry]:
    entry = Entry(path, Kind.RACE, EntryStatus.FAILED, value=names_of(branches), error=encode_failures(errors))
    flow.record(entry)
    take_marks(flow, f"{path}/")
    yield Persist()
    return entry


def _leave_behind(flow: Flow, over: Sequence[Branch], running: Sequence[Branch]) -> None:
    """The losers wait for nothing any more. That what they have done is to be undone the journal says from now on."""
    for branch in (*over, *running):
        flow.seen.add(f"{branch.path}/")
        abandon(flow, branch.path)
    for branch in running:
        flow.losers.add(branch.path, branch.part)
