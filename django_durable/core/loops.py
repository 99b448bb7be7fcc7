"""Loops: the state is journaled at every turn, and turns that are over leave the journal, so that it stays short."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ..exceptions import LoopLimit
from .codec import decode, encode
from .effects import Decisions, Persist, Raised
from .flow import Flow
from .journal import Entry
from .scopes import enter, revisit
from .states import EntryStatus, Kind

TURN = "%turn"
"""Ends the path of a turn's own entry. Escaped names never hold a bare "%"."""

Turn = Callable[[Any, Any], Any]
"""The user's code of a turn: called with ``ctx`` and the state."""


@dataclass(slots=True, frozen=True)
class Continue:
    """What a turn returns to go on, with the state of the next one."""

    state: Any = None


@dataclass(slots=True, frozen=True)
class Break:
    """What a turn returns to end the loop, with the loop's value."""

    value: Any = None


def loop(flow: Flow, path: str, turn: Turn, state: Any, history: int, max_iterations: int | None) -> Decisions[Any]:
    """The value of the first turn that breaks. Raises LoopLimit after ``max_iterations`` turns, and what a turn raises.

    ``history``: how many turns before the present one stay in the journal.
    """
    _check(path, turn, history, max_iterations)
    entry = flow.find(path, Kind.LOOP)
    if entry is None:
        flow.require_live()
        entry = Entry(path, Kind.LOOP, EntryStatus.OPEN, value=_state(flow, path, 0, state))
        flow.record(entry)
    if flow.is_stopped:
        yield from _undoable_turns(flow, path, turn)
    if entry.status == EntryStatus.OPEN:
        entry = yield from _go_on(flow, path, turn, entry, history, max_iterations)
    flow.seen.add(f"{path}[")
    if entry.status == EntryStatus.FAILED:
        raise LoopLimit(path, decode(cast(str, entry.error)))
    return decode(cast(str, entry.value))


def _check(path: str, turn: Any, history: Any, most: Any) -> None:
    if not callable(turn):
        raise TypeError(f"Loop {path!r} takes a function of ctx and state, not {turn!r}.")
    for what, number, least in (("history", history, 0), ("max_iterations", most, 0)):
        if not (number is None and what == "max_iterations") and (type(number) is not int or number < least):
            raise TypeError(f"{what} of loop {path!r} must be an integer of at least {least}, not {number!r}.")


def _state(flow: Flow, path: str, number: int, state: Any) -> str:
    return flow.encode([number, state], f"state of loop {path!r}")


def _go_on(flow: Flow, path: str, turn: Turn, entry: Entry, history: int, most: int | None) -> Decisions[Entry]:
    number, state = decode(cast(str, entry.value))
    kept = _journaled_turns(flow, path, number)
    while most is None or number < most:
        performed = yield from enter(flow, _turn_path(path, number), _with_state(turn, state))
        if isinstance(performed, Raised):
            raise performed.error
        if _may_be_undone(flow, path, number):
            # A replay has to come by it again, should the run fail: with the state that it had.
            beginning = Entry(_turn_path(path, number) + TURN, Kind.LOOP, EntryStatus.SUCCEEDED, value=entry.value)
            flow.record(beginning)
        else:
            kept.append(number)
        number += 1
        if isinstance(performed.value, Break):
            value = flow.encode(performed.value.value, f"value of loop {path!r}")
            _prune(flow, path, kept, 0)
            return (yield from _end(flow, Entry(path, Kind.LOOP, EntryStatus.SUCCEEDED, value=value)))
        state = _next_state(path, performed.value)
        # Not worth a commit of its own: the turn is journaled, and would come to this state again.
        entry = Entry(path, Kind.LOOP, EntryStatus.OPEN, value=_state(flow, path, number, state))
        flow.record(entry)
        state = decode(cast(str, entry.value))[1]
        _prune(flow, path, kept, history)
    return (yield from _end(flow, Entry(path, Kind.LOOP, EntryStatus.FAILED, error=encode(most))))


def _end(flow: Flow, entry: Entry) -> Decisions[Entry]:
    flow.record(entry)
    yield Persist()
    return entry


def _turn_path(path: str, number: int) -> str:
    return f"{path}[{number}]"


def _with_state(turn: Turn, state: Any) -> Callable[[Any], Any]:
    return lambda ctx: turn(ctx, state)


def _next_state(path: str, returned: Any) -> Any:
    if returned is None:
        return None
    if isinstance(returned, Continue):
        return returned.state
    raise TypeError(f"A turn of loop {path!r} must return Continue, Break or None, not {returned!r}.")


# --- what stays in the journal ---------------------------------------------------------------


def _journaled_turns(flow: Flow, path: str, present: int) -> deque[int]:
    """The turns before the present one that a prune has left in the journal, those aside that may be undone."""
    entries = flow.journal.under(f"{path}[")
    numbers = {int(entry.path[len(path) + 1 :].partition("]")[0]) for entry in entries}
    return deque(number for number in sorted(numbers) if number < present and not _may_be_undone(flow, path, number))


def _may_be_undone(flow: Flow, path: str, number: int) -> bool:
    return any(entry.undo for entry in flow.journal.under(f"{_turn_path(path, number)}/"))


def _prune(flow: Flow, path: str, kept: deque[int], history: int) -> None:
    while len(kept) > history:
        paths = {entry.path for entry in flow.journal.under(f"{_turn_path(path, kept.popleft())}/")}
        flow.pending.forget(paths)
        flow.journal.forget(paths)
        flow.seen -= paths


def _undoable_turns(flow: Flow, path: str, turn: Turn) -> Decisions[None]:
    """Come by the turns that are over and stay in the journal because what they did may have to be undone."""
    for entry in flow.journal.under(f"{path}["):
        turn_path = entry.path.removesuffix(TURN)
        if turn_path != entry.path and "/" not in turn_path[len(path) :]:
            yield from revisit(flow, turn_path, _with_state(turn, decode(cast(str, entry.value))[1]))
