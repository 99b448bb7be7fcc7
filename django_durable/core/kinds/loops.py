"""Loops: the state is journaled at every turn, and turns that are over leave the journal, so that it stays short."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

from ...exceptions import LoopLimit
from ..flow.effects import Decisions, Persist, Raised
from ..flow.flow import Flow
from ..flow.parts import has_loser_running
from ..flow.scopes import enter, revisit
from ..journal.journal import Entry
from ..journal.paths import above
from ..journal.states import EntryStatus, Kind
from ..names import fit_path
from ..payloads.codec import decode, encode
from .compensation import owes

QUIET_MAX = timedelta(seconds=1)
"""How long a loop makes turns that commit nothing: a commit keeps its place, and hears what is asked of the run."""

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
    flow.claimed.claim_indexes(path)
    if not flow.is_stopped:
        # All turns, also those to come: what each of them came to need not be kept. A replay that looks for what there
        # is to undo has to say which steps it came to.
        flow.seen.add(f"{path}[")
    entry = flow.find(path, Kind.LOOP)
    if entry is None:
        flow.require_live()
        entry = Entry(path, Kind.LOOP, EntryStatus.OPEN, value=_state(flow, path, 0, state))
        flow.record(entry)
    if flow.is_stopped or flow.redoing.is_due_in(f"{path}["):
        yield from _come_by_turns(flow, path, turn)
    if entry.status == EntryStatus.OPEN:
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


def _state(flow: Flow, path: str, number: int, state: Any, since: int = 0) -> str:
    return flow.encode([number, state, since] if since else [number, state], f"state of loop {path!r}")


def position(value: str) -> tuple[int, Any, int]:
    """The number of the turn that comes next, its state, and from which turn on ``max_iterations`` counts."""
    number, state, *since = decode(value)
    return number, state, since[0] if since else 0


def limited_anew(value: str) -> str:
    """The ``value`` of a loop that may take ``max_iterations`` turns from here on."""
    number, state, _ = position(value)
    return encode([number, state, number])


def rewound(loop: Entry, number: int, beginning: Entry | None) -> str | None:
    """The value of a loop that goes on with turn ``number``, whose own entry is ``beginning``; None where nobody knows
    any more in what state."""
    if beginning is not None:
        return beginning.value
    is_there = loop.status != EntryStatus.SUCCEEDED and position(cast(str, loop.value))[0] == number
    return loop.value if is_there else None


def _go_on(flow: Flow, path: str, turn: Turn, entry: Entry, history: int, most: int | None) -> Decisions[Entry]:
    number, state, since = position(cast(str, entry.value))
    kept = _journaled_turns(flow, path, number)
    quiet_since: datetime | None = None
    while most is None or number - since < most:
        fit_path(_turn_path(path, number) + TURN)
        if not flow.journal.under(f"{_turn_path(path, number)}/"):
            # Its code need not come to a call that would ask.
            flow.require_live()
        performed = yield from enter(flow, _turn_path(path, number), _with_state(turn, state))
        if isinstance(performed, Raised):
            raise _raisable(path, performed.error)
        inside = flow.journal.under(f"{_turn_path(path, number)}/")
        kept.take(flow, number)
        if number not in kept.free or (inside and history):
            # With the state that it had: a replay has to come by it again, should the run fail, and a fork may begin
            # in it.
            beginning = Entry(_turn_path(path, number) + TURN, Kind.LOOP, EntryStatus.SUCCEEDED, value=entry.value)
            flow.record(beginning)
        number += 1
        if isinstance(performed.value, Break):
            value = flow.encode(performed.value.value, f"value of loop {path!r}")
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
        kept.prune(flow, history)
    return (yield from _end(flow, replace(entry, status=EntryStatus.FAILED, error=encode(most))))


def _end(flow: Flow, entry: Entry) -> Decisions[Entry]:
    flow.record(entry)
    yield Persist()
    return entry


def _turn_path(path: str, number: int) -> str:
    return f"{path}[{number}]"


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


# --- what stays in the journal ---------------------------------------------------------------


@dataclass(slots=True)
class Kept:
    """The turns of the loop at ``path`` that are over and in the journal; oldest first."""

    path: str
    free: list[int] = field(default_factory=list)
    """Those that nobody needs but people, and a fork that begins there."""
    bound: list[int] = field(default_factory=list)
    """Those of which something may have to be undone."""
    held: list[int] = field(default_factory=list)
    """Those in which the loser of a race is running still: what it does may have to be undone."""

    def take(self, flow: Flow, number: int) -> None:
        turn_path = _turn_path(self.path, number)
        if has_loser_running(flow, turn_path):
            insort(self.held, number)
        else:
            insort(self.bound if owes(flow, turn_path) else self.free, number)

    def prune(self, flow: Flow, history: int) -> None:
        """Drop what is journaled of turns that nobody needs, all but the ``history`` latest ones."""
        held, self.held = self.held, []
        for number in held:
            self.take(flow, number)
        # A point of no return holds for all that was before it: where the oldest is bound still, so are the others.
        while self.bound and not owes(flow, _turn_path(self.path, self.bound[0])):
            insort(self.free, self.bound.pop(0))
        while len(self.free) > history:
            _forget(flow, _turn_path(self.path, self.free.pop(0)))


def _journaled_turns(flow: Flow, path: str, present: int) -> Kept:
    """The turns before the present one that a prune has left in the journal."""
    entries = flow.journal.under(f"{path}[")
    places = {entry.path[len(path) + 1 :].partition("]")[0] for entry in entries}
    kept = Kept(path)
    for place in places:
        # A call of the loop's name with a key is no turn.
        if place.isdecimal() and int(place) < present:
            kept.take(flow, int(place))
    return kept


def forget_turns(flow: Flow, paths: Iterable[str]) -> None:
    """Prune the turns of loops that are over in which these ``paths`` lie, and nothing is to be undone any more."""
    for turn_path in dict.fromkeys(_turn_that_is_over(flow, path) for path in paths):
        if turn_path is not None and not (owes(flow, turn_path) or has_loser_running(flow, turn_path)):
            _forget(flow, turn_path)


def _turn_that_is_over(flow: Flow, path: str) -> str | None:
    for scope in above(path):
        entry = flow.journal.find(scope)
        if entry is not None and entry.kind == Kind.LOOP and entry.status != EntryStatus.OPEN:
            return path[: path.index("]", len(scope)) + 1]
    return None


def _forget(flow: Flow, turn_path: str) -> None:
    inside = flow.journal.under(f"{turn_path}/")
    if inside:
        paths = {turn_path + TURN, *(entry.path for entry in inside)}
        flow.pending.forget(paths)
        flow.journal.forget(paths)


def _come_by_turns(flow: Flow, path: str, turn: Turn) -> Decisions[None]:
    """Come by the turns that are over and in the journal: what they did may have to be undone, or done again."""
    for entry in flow.journal.under(f"{path}["):
        turn_path = entry.path.removesuffix(TURN)
        if turn_path != entry.path and "/" not in turn_path[len(path) :]:
            yield from revisit(flow, turn_path, _with_state(turn, decode(cast(str, entry.value))[1]))
