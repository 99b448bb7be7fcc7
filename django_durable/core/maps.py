"""Map: the same work for many items, side by side. Each result is journaled as it comes, under its item's index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, cast

from ..exceptions import JoinError
from .children import MakeRun, ended
from .codec import decode, encode
from .effects import Decisions, Persist, Raised
from .flow import Flow
from .joins import described
from .journal import Entry
from .names import fit_path
from .outcomes import Blocked
from .scopes import Branch, Branches, revisit_if_stopped
from .states import TERMINAL, BlockReason, EntryStatus, Kind
from .steps import step

SIDE_BY_SIDE = 16
"""Steps at a time where ``max_parallel`` says nothing: threads of sync workflows come from one bounded pool."""

CHUNK = 500
"""Children that one commit starts or notes."""


def map_steps(
    flow: Flow, path: str, fn: Callable[[Any], Any], items: Sequence[Any], max_parallel: int | None
) -> Decisions[list[Any]]:
    """``fn(item)`` as a step for each item; the results in the order of ``items``. JoinError where any failed."""
    branches = [
        Branch(index, _item_path(path, index), _as_step(path, index, fn, item)) for index, item in enumerate(items)
    ]
    entry = _pinned(flow, path, len(items), max_parallel)
    if entry.status == EntryStatus.OPEN:
        yield from revisit_if_stopped(flow, branches)
        errors: dict[Any, Any] = {}
        group = Branches(flow, branches, f"map:{path}", max_parallel or SIDE_BY_SIDE)
        while (branch := (yield from group.next())) is not None:
            if isinstance(branch.performed, Raised):
                errors[branch.name] = described(branch.performed.error)
        entry = yield from _decide(flow, entry, dict(sorted(errors.items())))
    return _results(flow, entry, len(items))


def _as_step(path: str, index: int, fn: Callable[[Any], Any], item: Any) -> Callable[[Any], Any]:
    return lambda ctx: ctx._drive(step(ctx._flow, _item_path(path, index), fn, (item,)))


def map_children(flow: Flow, path: str, makes: Sequence[MakeRun], max_parallel: int | None) -> Decisions[list[Any]]:
    """A child for each of ``makes``, at most ``max_parallel`` at a time; their values. JoinError where any failed.

    The parent waits without a slot, and is woken once, when the last of those that were started has ended.
    """
    entry = _pinned(flow, path, len(makes), max_parallel)
    while entry.status in (EntryStatus.OPEN, EntryStatus.WAITING):
        noted, started, _, again = _progress(entry)
        under_way = _under_way(flow, entry)
        if entry.status == EntryStatus.WAITING:
            yield from _note(flow, entry, under_way)
            noted, under_way = min([*again, started]), []
        if noted == len(makes):
            entry = yield from _decide(flow, entry, _failures(flow, path, len(makes)))
            break
        flow.require_live()
        room = None if max_parallel is None else max_parallel - len(under_way)
        due = [*again, *range(started, len(makes))][:room]
        while due:
            some, due = due[:CHUNK], due[CHUNK:]
            flow.pending.children += [makes[index](_item_path(path, index)) for index in some]
            again = again[len(some) :]
            started = max(started, some[-1] + 1)
            status = EntryStatus.OPEN if due else EntryStatus.WAITING
            entry = replace(entry, status=status, value=_told(noted, started, len(makes), again))
            flow.record(entry)
            if due:
                yield Persist()
        flow.suspend(entry)
    return _results(flow, entry, len(makes))


def _under_way(flow: Flow, entry: Entry) -> list[int]:
    """The items whose children were started, and of which the journal does not say how they ended."""
    noted, started, count, again = _progress(entry)
    left = set(range(noted, started)).difference(again)
    known = _items(flow, entry.path, count) if left else []
    return [index for index in sorted(left) if known[index] is None]


def _note(flow: Flow, entry: Entry, under_way: Sequence[int]) -> Decisions[None]:
    """Journal how the children that are under way have ended; suspend while one of them has not."""
    flow.require_live()
    states = {index: flow.journal.inbox.child(_item_path(entry.path, index)) for index in under_way}
    if any(state is None or state.status not in TERMINAL for state in states.values()):
        flow.suspend(entry)
    for index, state in states.items():
        assert state is not None  # noqa: S101  (looked at above)
        child = Entry(_item_path(entry.path, index), Kind.CHILD, EntryStatus.WAITING, awaits=str(state.run_id))
        flow.record(ended(child, state))
        if (index + 1) % CHUNK == 0:
            yield Persist()


def _failures(flow: Flow, path: str, count: int) -> dict[Any, Any]:
    errors = {}
    for index, entry in enumerate(_items(flow, path, count)):
        if entry is not None and entry.status == EntryStatus.FAILED:
            status, error = decode(cast(str, entry.error))
            errors[index] = {**error, "run": entry.awaits, "status": status, "culprits": [entry.path]}
    return errors


# --- both ------------------------------------------------------------------------------------


def _item_path(path: str, index: int) -> str:
    return f"{path}[{index}]"


def _pinned(flow: Flow, path: str, count: int, max_parallel: Any) -> Entry:
    """The map's entry, which says for how many items it was begun: another number is not the same work."""
    if max_parallel is not None and (type(max_parallel) is not int or max_parallel < 1):
        raise TypeError(f"max_parallel of {path!r} must be an integer of at least 1, not {max_parallel!r}.")
    flow.claim_indexes(path)
    fit_path(_item_path(path, count))
    flow.seen.add(f"{path}[")
    entry = flow.find(path, Kind.MAP)
    if entry is None:
        flow.require_live()
        entry = Entry(path, Kind.MAP, EntryStatus.OPEN, value=_told(0, 0, count))
        flow.record(entry)
    pinned = _progress(entry)[2]
    if pinned != count:
        text = f"{path!r} was begun with {pinned} items, but the code now gives it {count}."
        flow.end(Blocked(BlockReason.DIVERGED, text))
    return entry


def _progress(entry: Entry) -> tuple[int, int, int, list[int]]:
    """Up to which item the ends were noted, up to which they were started, how many there are, and which of those that
    were started are to be started anew."""
    noted, started, count, *again = decode(cast(str, entry.value))
    return noted, started, count, again[0] if again else []


def _told(noted: int, started: int, count: int, again: Sequence[int] = ()) -> str:
    return encode([noted, started, count, list(again)] if again else [noted, started, count])


def started_anew(value: str, items: Collection[int]) -> str:
    """The ``value`` of a map whose children at ``items`` have been forgotten, so that it starts others for them."""
    noted, started, count, *again = decode(value)
    todo = sorted({*items, *(again[0] if again else ())})
    return _told(min(noted, *todo), started, count, todo)


def with_only(value: str, kept: Sequence[int]) -> str:
    """The ``value`` of a map that knows how the items ``kept`` have ended, and starts all others."""
    started = max(kept, default=-1) + 1
    again = [index for index in range(started) if index not in kept]
    return _told(min([*again, started]), started, decode(value)[2], again)


def _decide(flow: Flow, entry: Entry, errors: dict[Any, Any]) -> Decisions[Entry]:
    status = EntryStatus.FAILED if errors else EntryStatus.SUCCEEDED
    entry = replace(entry, status=status, error=encode(errors) if errors else None)
    flow.record(entry)
    yield Persist()
    return entry


def _results(flow: Flow, entry: Entry, count: int) -> list[Any]:
    if entry.status == EntryStatus.FAILED:
        raise JoinError(entry.path, decode(cast(str, entry.error)))
    return [decode(cast(str, item.value)) for item in _items(flow, entry.path, count) if item is not None]


def _items(flow: Flow, path: str, count: int) -> list[Entry | None]:
    journaled = {entry.path: entry for entry in flow.journal.under(f"{path}[")}
    return [journaled.get(_item_path(path, index)) for index in range(count)]
