"""Where a fork begins: what of a journal lies before a step, and how the scopes around it stood then.

Sequence numbers say what came before: an entry gets its own when it is first journaled, in every branch. A scope of
which something comes later was open at that moment, and is open again; a loop goes back to the turn that it was in.
What a branch that lost its race has still journaled after that says nothing of the race, or of the scopes around it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import cast
from uuid import UUID

from ..exceptions import CannotFork
from .flow.undoing import UNDO
from .journal.fan_out import with_only
from .journal.journal import Entry
from .journal.losers import is_lost, races_lost
from .journal.marks import branch_at_stake, made_to_stand
from .journal.paths import above, scopes_of
from .journal.states import EntryStatus, Kind
from .kinds.loops import present_turn, rewound
from .kinds.turns import TURN

SCOPES = (Kind.JOIN, Kind.RACE, Kind.MAP, Kind.BLOCK, Kind.LOOP)
SETTLED = (EntryStatus.SUCCEEDED, EntryStatus.FAILED)

_OURS = re.compile("%[a-z]")
"""In paths of entries that are no call's. What people choose is escaped with digits."""


def cut(run_id: UUID, entries: Iterable[Entry], from_step: str) -> list[Entry]:
    """The journal that a run begins with which has done all that came before ``from_step`` and nothing else.

    Waits that were open begin anew, and so do the attempts of steps. What was undone is to be done again. Raises
    CannotFork for what the run never came to, and for a loop whose state at that moment is gone.
    """
    journal = {entry.path: entry for entry in sorted(entries, key=lambda entry: entry.seq)}
    begins = _beginning(run_id, journal, from_step)
    before = {path: entry for path, entry in journal.items() if entry.seq < begins and _stays(entry)}
    later = {path for path, entry in journal.items() if path not in before and entry.kind != Kind.UNDO}
    later -= {path for path in later if journal[path].seq < begins and _was_left_behind(before, path)}
    for path, inside in _cut_through(before, later, from_step).items():
        before[path] = _reopened(run_id, from_step, journal, before, path, inside)
    for path, entry in list(before.items()):
        if entry.kind == Kind.MAP and entry.status not in SETTLED:
            before[path] = _without_children(before, entry)
    for path in _free_again(journal, before) & before.keys():
        before[path] = replace(before[path], undo=True)
    return [*_to_be_done_again(journal, before).values()]


def _stays(entry: Entry) -> bool:
    return entry.status in SETTLED or entry.kind in SCOPES or (entry.kind == Kind.UNDO and _is_marker(entry))


def _is_marker(undo: Entry) -> bool:
    return undo.status == EntryStatus.OPEN


# --- where -----------------------------------------------------------------------------------


def _beginning(run_id: UUID, journal: Mapping[str, Entry], from_step: str) -> float:
    """The sequence number of the first entry that is not taken over."""
    if from_step in journal and not _OURS.search(from_step):
        return journal[from_step].seq
    within = [entry.seq for path, entry in journal.items() if from_step and f"{from_step}/" in scopes_of(path)]
    if within:
        return min(within)
    raise CannotFork(run_id, from_step, _why_unknown(journal, from_step), _close(journal, from_step))


def _why_unknown(journal: Mapping[str, Entry], from_step: str) -> str:
    for path in above(from_step):
        turn = from_step[len(path) + 1 :].partition("]")[0]
        entry = journal.get(path)
        if entry is not None and entry.kind == Kind.LOOP and turn.isdecimal() and _is_over(entry, int(turn)):
            return f"turn {turn} of loop {path!r} has left the journal, which keeps the last turns (history=…) only."
    return "it never came there."


def _is_over(loop: Entry, turn: int) -> bool:
    return loop.status == EntryStatus.SUCCEEDED or turn < present_turn(cast(str, loop.value))


def _close(journal: Iterable[str], from_step: str) -> list[str]:
    paths = [path for path in journal if not _OURS.search(path)]
    deeper = [path for path in paths if path.endswith(f"/{from_step}")]
    return list(dict.fromkeys([*deeper, *get_close_matches(from_step, paths)]))[:3]


# --- scopes that were open ---------------------------------------------------------------------


def _was_left_behind(before: Mapping[str, Entry], path: str) -> bool:
    """Whether what was begun and never done lies in a scope that is over: in a branch that lost its race, say."""
    return any(scope in before and before[scope].status in SETTLED for scope in above(path))


def _cut_through(before: Mapping[str, Entry], later: Collection[str], from_step: str) -> dict[str, list[str]]:
    """The scopes that were open, and what of each came later."""
    lost_by = {path: [] if _is_at(path, from_step) else [*races_lost(path, before.get)] for path in later}
    found: dict[str, list[str]] = {}
    # Until no other race turns out to be open: it is run again with its losers, and what these did counts as well.
    while len(more := _open_scopes(before, lost_by, found)) > len(found):
        found = more
    return more


def _open_scopes(
    before: Mapping[str, Entry], lost_by: Mapping[str, Sequence[str]], known: Collection[str]
) -> dict[str, list[str]]:
    """A loser's own scopes were open for what it did later; the race that it lost was not, nor was what is around that,
    where it is not ``known`` to have been for others."""
    found: dict[str, list[str]] = {}
    for path, races in lost_by.items():
        outside = max((len(race) for race in races if race not in known), default=-1)
        for scope in above(path):
            if len(scope) > outside and scope in before and before[scope].kind in SCOPES:
                found.setdefault(scope, []).append(path)
    return found


def _is_at(path: str, from_step: str) -> bool:
    return path == from_step or f"{from_step}/" in scopes_of(path)


def _reopened(
    run_id: UUID,
    from_step: str,
    journal: Mapping[str, Entry],
    before: Mapping[str, Entry],
    path: str,
    inside: Collection[str],
) -> Entry:
    entry = replace(before[path], status=EntryStatus.OPEN, error=None, wake_at=None)
    match entry.kind:
        case Kind.MAP:
            return _without_children(before, entry)
        case Kind.LOOP:
            turn = min(_numbers(path, inside), default=0)
            value = _state(journal, before, path, turn, is_around=from_step.startswith(f"{path}["))
            if value is None:
                reason = f"its journal does not say any more what the state of turn {turn} of loop {path!r} was."
                raise CannotFork(run_id, from_step, reason)
            return replace(entry, value=value)
        case _:
            return replace(entry, value=None)


def _without_children(before: Mapping[str, Entry], map_: Entry) -> Entry:
    """A map that was under way, of which the fork has those items that came to an end: children belong to their run."""
    value = with_only(cast(str, map_.value), _numbers(map_.path, before))
    status = map_.status if map_.status == EntryStatus.ABANDONED else EntryStatus.OPEN
    return replace(map_, status=status, value=value)


def _numbers(path: str, paths: Iterable[str]) -> list[int]:
    """Of the turns or items of the scope ``path`` that these paths lie in."""
    places = {one[len(path) + 1 :].partition("]")[0] for one in paths if one.startswith(f"{path}[")}
    return sorted(int(place) for place in places if place.isdecimal())


def _state(
    journal: Mapping[str, Entry], before: Mapping[str, Entry], path: str, turn: int, *, is_around: bool
) -> str | None:
    """The value of the loop at the beginning of ``turn``; None where that cannot be known."""
    if turn and not is_around and turn - 1 not in _numbers(path, before):
        # Turns of another branch: some that have left the journal may have come later too.
        return None
    beginning = journal.get(f"{path}[{turn}]{TURN}")
    return rewound(journal[path], turn, beginning)


# --- points of no return -----------------------------------------------------------------------


def _free_again(journal: Mapping[str, Entry], before: Mapping[str, Entry]) -> set[str]:
    """The steps that stood because of a mark that came later, or one in a branch of a race that is open again."""
    holding: list[Entry] = []
    others: list[Entry] = []
    for mark in (entry for entry in journal.values() if entry.kind == Kind.MARK):
        holds = mark.path in before and not (branch_at_stake(mark.path, before.get) or is_lost(mark.path, before.get))
        (holding if holds else others).append(mark)
    return made_to_stand(others) - made_to_stand(holding)


# --- what was undone ---------------------------------------------------------------------------


def _to_be_done_again(journal: Mapping[str, Entry], before: dict[str, Entry]) -> dict[str, Entry]:
    """Steps that were undone later are open to be done again, where a replay comes by them, and keep what they had
    returned until then; those of branches that lost a race stay undone."""
    for path, step in list(before.items()):
        undo = journal.get(path + UNDO)
        if undo is None or undo.path in before or undo.status != EntryStatus.SUCCEEDED:
            continue
        if is_lost(path, before.get):
            before[undo.path] = undo
        else:
            before[path] = replace(step, status=EntryStatus.RETRYING, attempts=0, undo=False)
            before[undo.path] = replace(undo, status=EntryStatus.OPEN, attempts=0, value=None)
    return before
