"""Map: the same work for many items, side by side. Each result is journaled as it comes, under its item's index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from ...exceptions import JoinError, PayloadUndecodable
from ..flow.branches import Branch, Branches, look_through, revisit_if_stopped
from ..flow.effects import Decisions, Persist, Raised, persist_end
from ..flow.flow import Flow
from ..journal.digests import digests_of
from ..journal.fan_out import Progress, item_entries, item_path, living, low_water, low_water_mark, under_way
from ..journal.inbox import ChildState
from ..journal.journal import Entry
from ..journal.outcomes import Blocked
from ..journal.states import BlockReason, EntryStatus, Kind
from ..names import fit_path
from ..payloads.briefly import encode_failures, in_brief
from ..payloads.codec import decode, encode
from .children import MakeRun, ended
from .error_data import described
from .steps import step

SIDE_BY_SIDE = 16
"""Steps at a time where ``max_parallel`` says nothing: threads of sync workflows come from one bounded pool."""

CHUNK = 500
"""Children that one commit starts or notes."""

ERROR_MAX = 2000
"""Bytes that a map journals of the error of one child."""


def map_steps(
    flow: Flow, path: str, fn: Callable[[Any], Any], items: Sequence[Any], max_parallel: int | None
) -> Decisions[list[Any]]:
    """``fn(item)`` as a step for each item; the results in the order of ``items``. JoinError where any failed."""
    branches = [
        Branch(index, item_path(path, index), _as_step(path, index, fn, item)) for index, item in enumerate(items)
    ]
    entry = _found(flow, path, items, max_parallel) or _begun(flow, path, items)
    if entry.status == EntryStatus.OPEN:
        if flow.is_looking:
            yield from look_through(flow, path, branches, least=len(branches))
        else:
            yield from _run(flow, path, branches, max_parallel)
        failed = ((branch.name, branch.performed) for branch in branches)
        errors = {index: described(how.error) for index, how in failed if isinstance(how, Raised)}
        entry = yield from _decide(flow, entry, errors)
    return _results(flow, entry, len(items))


def _run(flow: Flow, path: str, branches: Sequence[Branch], max_parallel: int | None) -> Decisions[None]:
    yield from revisit_if_stopped(flow, branches)
    group = Branches(flow, branches, f"map:{path}", max_parallel or SIDE_BY_SIDE)
    while (yield from group.next()) is not None:
        pass


def _as_step(path: str, index: int, fn: Callable[[Any], Any], item: Any) -> Callable[[Any], Any]:
    return lambda ctx: ctx._drive(step(ctx._flow, item_path(path, index), fn, (item,)))


def map_children(
    flow: Flow, path: str, items: Sequence[Any], makes: Sequence[MakeRun], max_parallel: int | None
) -> Decisions[list[Any]]:
    """A child for each item, at most ``max_parallel`` at a time; their values. JoinError where any failed.

    ``makes`` has what makes each child, and raises where its input is wrong: before the first one is started. The
    parent waits without a slot. It is woken when the last of those that were started has ended, and before that when it
    is worth to start others in the places of those that have.
    """
    entry = _found(flow, path, items, max_parallel)
    if entry is None or entry.status in (EntryStatus.OPEN, EntryStatus.WAITING):
        if entry is None or not Progress.of(entry.value).started:
            makes = _made(path, makes)
        flow.require_live()
        entry = entry or _begun(flow, path, items)
        alive = yield from _note(flow, entry)
        if alive or Progress.of(entry.value).left:
            entry = yield from _start(flow, entry, makes, alive, max_parallel)
            flow.suspend(entry)
        entry = yield from _decide(flow, entry, _failures(flow, path, len(makes)))
    return _results(flow, entry, len(makes))


def _made(path: str, makes: Sequence[MakeRun]) -> list[MakeRun]:
    """All children, made: one wrong input is found before others have begun to work, and again by no replay."""
    made: list[MakeRun] = []
    for index, make in enumerate(makes):
        try:
            run = make(item_path(path, index))
        except Exception as error:
            error.add_note(f"Input of item {index} of map {path!r}.")
            raise
        made.append(lambda _, run=run: run)  # type: ignore[misc]
    return made


def _note(flow: Flow, entry: Entry) -> Decisions[int]:
    """Journal how children that are under way have ended; how many of them are left."""
    indexes = under_way(flow.journal, entry)
    alive = living(flow.journal, entry.path, indexes)
    for number, index in enumerate(sorted(set(indexes).difference(alive)), 1):
        path = item_path(entry.path, index)
        state = cast(ChildState, flow.journal.inbox.child(path))
        # No call comes to these entries: who looks for one makes room for no child.
        flow.bounds.make_room_for_child(flow.journal)
        flow.record(_in_brief(ended(Entry(path, Kind.CHILD, EntryStatus.WAITING, awaits=str(state.run_id)), state)))
        if number % CHUNK == 0:
            yield Persist()
    return len(alive)


def _in_brief(entry: Entry) -> Entry:
    """The child has its error whole, and its parent has those of thousands."""
    if entry.error is None or len(entry.error) <= ERROR_MAX:
        return entry
    status, error = decode(entry.error)
    # What made the child fail is found in its own journal; here it would be as long as that has entries.
    error.pop("culprits", None)
    return replace(entry, error=encode([status, in_brief(error, ERROR_MAX)]))


def _start(
    flow: Flow, entry: Entry, makes: Sequence[MakeRun], alive: int, max_parallel: int | None
) -> Decisions[Entry]:
    """Start as many of those that are left as there is room for beside the ones that are alive; what to wait for."""
    progress, before = Progress.of(entry.value), entry
    due = progress.left if max_parallel is None else progress.left[: max(0, max_parallel - alive)]
    mark = low_water_mark(max_parallel, len(progress.left) - len(due), len(makes))
    if alive and mark > low_water(entry):
        # Durable before the run suspends: a child that ends meanwhile and knows the lower mark only leaves the parent
        # to its siblings, and the suspension may not see that it has ended.
        entry = replace(entry, awaits=str(mark))
        flow.record(entry)
        yield Persist()
    while due:
        some, due = due[:CHUNK], due[CHUNK:]
        flow.pending.start(makes[index](item_path(entry.path, index)) for index in some)
        progress = progress.after(some)
        entry = replace(entry, status=EntryStatus.OPEN, value=progress.value, awaits=str(mark or ""))
        if due:
            flow.record(entry)
            yield Persist()
    entry = replace(entry, status=EntryStatus.WAITING, awaits=str(mark or ""))
    if entry != before:
        flow.record(entry)
    return entry


def _failures(flow: Flow, path: str, count: int) -> dict[Any, Any]:
    errors = {}
    for index, entry in enumerate(item_entries(flow.journal, path, count)):
        if entry is not None and entry.status == EntryStatus.FAILED:
            status, error = decode(cast(str, entry.error))
            errors[index] = {**error, "run": entry.awaits, "status": status, "culprits": [entry.path]}
    return errors


# --- both ------------------------------------------------------------------------------------


def _found(flow: Flow, path: str, items: Sequence[Any], max_parallel: Any) -> Entry | None:
    """The map's entry, which says with what items it was begun: with others it is not the same work."""
    if max_parallel is not None and (type(max_parallel) is not int or max_parallel < 1):
        raise TypeError(f"max_parallel of {path!r} must be an integer of at least 1, not {max_parallel!r}.")
    flow.claimed.claim_indexes(path)
    fit_path(item_path(path, len(items)))
    flow.seen.add(f"{path}[")
    entry = flow.find(path, Kind.MAP)
    if entry is not None and (text := Progress.of(entry.value).difference(path, items)):
        flow.end(Blocked(BlockReason.DIVERGED, text))
    return entry


def _begun(flow: Flow, path: str, items: Sequence[Any]) -> Entry:
    flow.require_way()
    progress = Progress(len(items), digests=digests_of(items))
    entry = Entry(path, Kind.MAP, EntryStatus.OPEN, value=progress.value)
    flow.record(entry)
    return entry


def _decide(flow: Flow, entry: Entry, errors: dict[Any, Any]) -> Decisions[Entry]:
    status = EntryStatus.FAILED if errors else EntryStatus.SUCCEEDED
    entry = replace(entry, status=status, error=encode_failures(errors) if errors else None)
    flow.record(entry)
    yield persist_end(entry)
    return entry


def _results(flow: Flow, entry: Entry, count: int) -> list[Any]:
    if entry.status == EntryStatus.FAILED:
        raise JoinError(entry.path, decode(cast(str, entry.error)))
    results = []
    for index, item in enumerate(item_entries(flow.journal, entry.path, count)):
        if item is None:
            raise PayloadUndecodable(f"item {index} of map {entry.path!r} is not in the journal")
        results.append(decode(cast(str, item.value)))
    return results
