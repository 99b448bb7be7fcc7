"""Loops: the state is journaled at every turn, and turns that are over leave the journal, so that it stays short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from ...exceptions import LoopLimit
from ..flow.effects import Decisions, Persist, Raised, persist_end
from ..flow.flow import Flow
from ..flow.scopes import enter, revisit
from ..journal.journal import Entry
from ..journal.states import EntryStatus, Kind
from ..names import fit_path
from ..payloads.codec import decode, encode, first_of, items_of
from .compensation import undo_losers_in
from .turns import TURN, Kept, journaled_turns, turn_path

QUIET_MAX = timedelta(seconds=1)
"""How long a loop makes turns that commit nothing: a commit keeps its place, and hears what is asked of the run."""

LOST_MAX = 20
"""Turns whose losers are left to be undone at the end of the attempt: an endless loop may never come to that."""

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
    flow.claimed.claim_indexes(path)
    entry = flow.find(path, Kind.LOOP)
    if flow.is_looking:
        yield from _come_by_turns(flow, path, turn)
    else:
        # All turns, also those to come: what each of them came to need not be kept. A replay that looks for what there
        # is to undo has to say which steps it came to.
        flow.seen.add(f"{path}[")
        if flow.redoing.is_due_in(f"{path}["):
            yield from _come_by_turns(flow, path, turn)
    entry = entry or _begun(flow, path, state)
    if entry.status == EntryStatus.OPEN:
        if flow.is_looking:
            entry = yield from _look_on(flow, path, turn, entry, max_iterations)
        else:
            entry = yield from _go_on(flow, path, turn, entry, history, max_iterations)
    if entry.status == EntryStatus.FAILED:
        raise LoopLimit(path, decode(cast(str, entry.error)))
    return decode(cast(str, entry.value))


def _check(path: str, turn: Any, history: Any, most: Any) -> None:
    if not callable(turn):
        raise TypeError(f"Loop {path!r} takes a function of ctx and state, not {turn!r}.")
    for what, number, least in (("history", history, 0), ("max_iterations", most, 0)):
        if not (number is None and what == "max_iterations") and (type(number) is not int or number < least):
            raise TypeError(f"{what} of loop {path!r} must be an integer of at least {least}, not {number!r}.")


def _begun(flow: Flow, path: str, state: Any) -> Entry:
    entry = Entry(path, Kind.LOOP, EntryStatus.OPEN, value=_state(flow, path, 0, state))
    flow.require_way()
    flow.record(entry)
    return entry


def _state(flow: Flow, path: str, number: int, state: Any, since: int = 0) -> str:
    return flow.encode([number, state, since] if since else [number, state], f"state of loop {path!r}")


def position(value: str) -> tuple[int, Any, int]:
    """The number of the turn that comes next, its state, and from which turn on ``max_iterations`` counts."""
    number, state, *since = decode(value)
    return number, state, since[0] if since else 0


def present_turn(value: str) -> int:
    """The number of the turn that comes next, whatever its state is."""
    return cast(int, first_of(value))


def limited_anew(value: str) -> str:
    """The ``value`` of a loop that may take ``max_iterations`` turns from here on."""
    number, state, *_ = items_of(value)
    return f"[{number},{state},{number}]"


def rewound(loop: Entry, number: int, beginning: Entry | None) -> str | None:
    """The value of a loop that goes on with turn ``number``, whose own entry is ``beginning``; None where nobody knows
    any more in what state."""
    if beginning is not None:
        return beginning.value
    is_there = loop.status != EntryStatus.SUCCEEDED and present_turn(cast(str, loop.value)) == number
    return loop.value if is_there else None


def _go_on(flow: Flow, path: str, turn: Turn, entry: Entry, history: int, most: int | None) -> Decisions[Entry]:
    number, state, since = position(cast(str, entry.value))
    kept = journaled_turns(flow, path, number)
    quiet_since: datetime | None = None
    while most is None or number - since < most:
        fit_path(turn_path(path, number) + TURN)
        if not flow.journal.under(f"{turn_path(path, number)}/"):
            # Its code need not come to a call that would ask.
            flow.require_live()
        performed = yield from enter(flow, turn_path(path, number), _with_state(turn, state))
        if isinstance(performed, Raised):
            raise _raisable(path, performed.error)
        inside = flow.journal.under(f"{turn_path(path, number)}/")
        kept.take(flow, number)
        if number not in kept.free or (inside and history):
            # With the state that it had: a replay has to come by it again, should the run fail, and a fork may begin
            # in it.
            beginning = Entry(turn_path(path, number) + TURN, Kind.LOOP, EntryStatus.SUCCEEDED, value=entry.value)
            flow.record(beginning)
        number += 1
        if isinstance(performed.value, Break):
            value = _value(flow, path, performed.value)
            if _tells_of(value, inside):
                # Should the run fail for that and be resumed, it goes on in this turn.
                last = turn_path(path, number - 1) + TURN
                flow.record(Entry(last, Kind.LOOP, EntryStatus.SUCCEEDED, value=entry.value))
                kept.hold(number - 1)
            kept.prune(flow, 0)
            return (yield from _end(flow, Entry(path, Kind.LOOP, EntryStatus.SUCCEEDED, value=value)))
        state = _next_state(path, performed.value)
        # Not worth a commit of its own: the turn is journaled, and would come to this state again.
        is_quiet = path in flow.pending.entries
        entry = Entry(path, Kind.LOOP, EntryStatus.OPEN, value=_state(flow, path, number, state, since))
        flow.record(entry)
        if not is_quiet:
            quiet_since = None
        elif quiet_since is None:
            quiet_since = flow.journal.now()
        elif flow.journal.now() - quiet_since >= QUIET_MAX:
            yield Persist()
        state = decode(cast(str, entry.value))[1]
        if len(kept.lost) > LOST_MAX:
            yield from _undo_losers(flow, path, turn, kept)
        kept.prune(flow, history)
    return (yield from _end(flow, replace(entry, status=EntryStatus.FAILED, error=encode(most))))


def _value(flow: Flow, path: str, broken: Break) -> str:
    return flow.encode(broken.value, f"value of loop {path!r}")


def _tells_of(value: str, inside: Sequence[Entry]) -> bool:
    """Whether the encoded ``value`` has the failure of one of these entries, as an ``Outcome`` has."""
    return any(entry.status == EntryStatus.FAILED and encode(entry.path) in value for entry in inside)


def _end(flow: Flow, entry: Entry) -> Decisions[Entry]:
    flow.record(entry)
    yield persist_end(entry)
    return entry


def _with_state(turn: Turn, state: Any) -> Callable[[Any], Any]:
    return lambda ctx: turn(ctx, state)


def _raisable(path: str, error: BaseException) -> BaseException:
    """A generator cannot raise StopIteration: Python would make another error of it, which does not say where from."""
    if not isinstance(error, StopIteration):
        return error
    told = RuntimeError(f"A turn of loop {path!r} raised StopIteration: {error}")
    told.__cause__ = error
    return told


def _next_state(path: str, returned: Any) -> Any:
    if returned is None:
        return None
    if isinstance(returned, Continue):
        return returned.state
    raise TypeError(f"A turn of loop {path!r} must return Continue, Break or None, not {returned!r}.")


def _come_by_turns(flow: Flow, path: str, turn: Turn) -> Decisions[None]:
    """Come by the turns that are over and in the journal: what they did may have to be undone, or done again."""
    for entry in flow.journal.under(f"{path}["):
        its_path = entry.path.removesuffix(TURN)
        if its_path != entry.path and "/" not in its_path[len(path) :]:
            yield from revisit(flow, its_path, _as_begun(turn, entry))


def _look_on(flow: Flow, path: str, turn: Turn, entry: Entry, most: int | None) -> Decisions[Entry]:
    """``_go_on`` for a line that only looks: the present turn, and what the loop comes to with it. Where the loop
    raises, be it for what that turn returned, the code may have caught that, and gone on."""
    number, state, since = position(cast(str, entry.value))
    while most is None or number - since < most:
        fit_path(turn_path(path, number) + TURN)
        if not flow.journal.under(f"{turn_path(path, number)}/"):
            flow.require_way()
            if entry.error is not None:
                # It had come to its limit here, before it was given as many turns again.
                return replace(entry, status=EntryStatus.FAILED)
        performed = yield from enter(flow, turn_path(path, number), _with_state(turn, state))
        if isinstance(performed, Raised):
            raise _raisable(path, performed.error)
        number += 1
        if isinstance(performed.value, Break):
            entry = replace(entry, status=EntryStatus.SUCCEEDED, value=_value(flow, path, performed.value))
            return (yield from _end(flow, entry))
        entry = replace(entry, value=_state(flow, path, number, _next_state(path, performed.value), since))
        flow.record(entry)
        state = decode(cast(str, entry.value))[1]
    return (yield from _end(flow, replace(entry, status=EntryStatus.FAILED, error=encode(most))))


def _undo_losers(flow: Flow, path: str, turn: Turn, kept: Kept) -> Decisions[None]:
    """Undo what losers of races in turns that are over have done: else an endless loop would keep all these turns."""
    scopes = [turn_path(path, number) for number in kept.lost]
    begun = {scope: cast(Entry, flow.journal.find(scope + TURN)) for scope in scopes}
    yield from undo_losers_in(flow, {scope: _as_begun(turn, beginning) for scope, beginning in begun.items()})
    kept.give_lost()


def _as_begun(turn: Turn, beginning: Entry) -> Callable[[Any], Any]:
    """The code of the turn whose own entry is ``beginning``, with the state that it had."""
    return _with_state(turn, decode(cast(str, beginning.value))[1])
