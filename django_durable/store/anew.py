"""Room in the journals of runs that are resumed: for what ended them, and for what was undone, to be done again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import cast
from uuid import UUID

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce

from ..core.flow.undoing import UNDO
from ..core.journal.fan_out import map_of, started_anew
from ..core.journal.journal import TIMED_OUT, Entry
from ..core.journal.losers import Find, is_lost
from ..core.journal.paths import above
from ..core.journal.states import TERMINAL, EntryStatus, Kind, PayloadKind, Status
from ..core.kinds.loops import limited_anew
from ..core.names import ON_FAILURE
from ..core.payloads.codec import decode
from ..core.reopening import OutOfReach, reopened, ways_to
from ..exceptions import PayloadUndecodable
from ..models import JournalEntry, Payload, Run
from ..models.run import REPLACED
from .database import Database
from .locking import change, locked

CONTAINERS = (Kind.JOIN, Kind.RACE, Kind.MAP, Kind.BLOCK, Kind.LOOP)
Place = tuple[UUID, str]
"""Run and path."""
PLACES_MAX = 10_000
"""Places that one statement asks for."""


def make_room(db: Database, runs: Sequence[Run]) -> None:
    """So that a replay comes to what ended these runs as if for the first time, and raises every other failure as
    before. The rows of the runs are locked."""
    failed = [run.pk for run in runs if run.status == Status.FAILED]
    journal = JournalEntry.objects.using(db.alias).filter(run_id__in=[run.pk for run in runs])
    culprits = _within_reach(journal, _culprits(db, failed))
    journal.filter(status=EntryStatus.RETRYING).update(wake_at=None)
    for blamed in _at(journal.filter(status=EntryStatus.FAILED), culprits):
        _begin_anew(blamed.filter(kind__in=[Kind.POLL, Kind.EVENT]))
        blamed.filter(kind=Kind.STEP).update(status=EntryStatus.RETRYING, attempts=0, wake_at=None, finished_at=None)
    journal.filter(run_id__in=failed, path=ON_FAILURE).delete()
    _do_undone_again(journal)
    _go_in_again(journal, culprits)
    _count_turns_anew(journal, culprits)
    _begin_items_anew(journal, _forget_children(db, runs, culprits))


def _at(journal: QuerySet[JournalEntry], places: Iterable[Place]) -> Iterator[QuerySet[JournalEntry]]:
    """The entries at these places, as few statements ask for them: SQLite bounds how many conditions are joined by OR
    (one for each run, not for each place), and how many values there are."""
    some = list(places)
    for start in range(0, len(some), PLACES_MAX):
        paths: dict[UUID, list[str]] = defaultdict(list)
        for run_id, path in some[start : start + PLACES_MAX]:
            paths[run_id].append(path)
        yield journal.filter(reduce(or_, (Q(run_id=run_id, path__in=of_run) for run_id, of_run in paths.items())))


def _begin_anew(entries: QuerySet[JournalEntry]) -> None:
    """What they had come to stays: whoever looks for what there is to undo, before they are decided again, comes past
    them to what was done behind."""
    error = Coalesce("error", Value(TIMED_OUT))
    entries.update(status=EntryStatus.RETRYING, attempts=0, error=error, wake_at=None, finished_at=None)


def _culprits(db: Database, failed: Sequence[UUID]) -> set[Place]:
    """Where these runs ended, as their stored errors name it."""
    errors = Payload.objects.using(db.alias).filter(run_id__in=failed, kind=PayloadKind.ERROR)
    return {(run_id, path) for run_id, data in errors.values_list("run_id", "data") for path in _named(data)}


def _named(data: str) -> list[str]:
    try:
        error = decode(data)
    except PayloadUndecodable:
        # One such row must not keep the whole batch from going on.
        return []
    return error.get("culprits", []) if isinstance(error, dict) else []


def _do_undone_again(journal: QuerySet[JournalEntry]) -> None:
    """A step that was undone is to be done again, wherever it lies: its compensation stays, open, to say so. One that
    could not be undone stands."""
    undos = journal.filter(kind=Kind.UNDO)
    undone = set(undos.filter(status=EntryStatus.SUCCEEDED).values_list("run_id", "path"))
    undone -= _lost_races(journal, undone)
    for steps in _at(journal, [(run_id, path.removesuffix(UNDO)) for run_id, path in undone]):
        # The row stays, with its place in the order, and with its value: whoever looks for what there is to undo,
        # before the step is done again, comes past it to what could not be undone.
        steps.update(status=EntryStatus.RETRYING, attempts=0, undo=False, wake_at=None, finished_at=None)
    for again in _at(undos, undone):
        again.update(status=EntryStatus.OPEN, attempts=0, value=None, wake_at=None, finished_at=None)
    undos.exclude(status__in=[EntryStatus.OPEN, EntryStatus.SUCCEEDED]).delete()


def _lost_races(journal: QuerySet[JournalEntry], undone: Iterable[Place]) -> set[Place]:
    """Those of branches that lost: they stay undone, since the winner stays."""
    races = journal.filter(kind=Kind.RACE, status=EntryStatus.SUCCEEDED) if undone else journal.none()
    won: dict[UUID, dict[str, Entry]] = defaultdict(dict)
    for run_id, path, value in races.values_list("run_id", "path", "value"):
        won[run_id][path] = Entry(path, Kind.RACE, EntryStatus.SUCCEEDED, value=value)
    return {(run_id, path) for run_id, path in undone if is_lost(path, won[run_id].get)}


# --- scopes ----------------------------------------------------------------------------------


def _within_reach(journal: QuerySet[JournalEntry], culprits: set[Place]) -> set[Place]:
    """Those of them that the code comes to again, now that the scopes are open which had told of them as data."""
    ways = {(run_id, way) for run_id, path in culprits for way in ways_to(path)}
    known: dict[UUID, dict[str, Entry]] = defaultdict(dict)
    for scopes in _at(journal.filter(kind__in=CONTAINERS), ways):
        for run_id, path, kind, status, value in scopes.values_list("run_id", "path", "kind", "status", "value"):
            known[run_id][path] = Entry(path, Kind(kind), EntryStatus(status), value=value)
    return {place for place in culprits if _is_opened(journal, place, known[place[0]].get)}


def _is_opened(journal: QuerySet[JournalEntry], place: Place, find: Find) -> bool:
    run_id, path = place
    try:
        scopes = reopened(path, find)
    except OutOfReach:
        return False
    except PayloadUndecodable:
        # One damaged row must not keep the whole batch from going on: its run says so when it is worked on.
        return True
    for scope in scopes:
        finished = {"finished_at": None} if scope.status == EntryStatus.OPEN else {}
        journal.filter(run_id=run_id, path=scope.path).update(status=scope.status, value=scope.value, **finished)
    return True


def _go_in_again(journal: QuerySet[JournalEntry], culprits: set[Place]) -> None:
    """A scope that failed with what lies in it is gone through once more: what succeeded there is not repeated."""
    ways = {(run_id, way) for run_id, path in culprits for way in (path, *above(path))}
    for failed in _at(journal.filter(status=EntryStatus.FAILED, kind__in=CONTAINERS), ways):
        # As with ``_begin_anew``, where going through it again would not tell.
        failed.filter(kind__in=[Kind.LOOP, Kind.MAP]).update(status=EntryStatus.OPEN, finished_at=None)
        failed.update(status=EntryStatus.OPEN, error=None, finished_at=None)


def _count_turns_anew(journal: QuerySet[JournalEntry], culprits: set[Place]) -> None:
    """A loop that came to its limit may take as many turns again."""
    limited = journal.filter(kind=Kind.LOOP, status=EntryStatus.OPEN, value__isnull=False)
    loops = [row for some in _at(limited, culprits) for row in some.values_list("run_id", "path", "value")]
    for run_id, path, value in loops:
        # One damaged row must not keep the whole batch from going on: its run says so when it is worked on.
        with suppress(PayloadUndecodable):
            journal.filter(run_id=run_id, path=path).update(value=limited_anew(cast(str, value)))


# --- children --------------------------------------------------------------------------------


def _forget_children(db: Database, parents: Sequence[Run], culprits: set[Place]) -> set[Place]:
    """A replay starts each of them anew. The old one stays as it ended, at no path, so that it is not taken for the
    new one: nobody would wait for that. Where they were.

    A parent that ended before it saw its child's end (at the deadline of both, or cancelled with it) forgets it too.
    """
    ended = {run.pk: run for run in parents if run.status in TERMINAL}
    entries = JournalEntry.objects.using(db.alias).filter(run_id__in=list(ended), kind__in=[Kind.CHILD, Kind.MAP])
    asked = entries.exclude(status=EntryStatus.ABANDONED).values_list("run_id", "path", "kind", "status")
    seen = {(run_id, path): status for run_id, path, kind, status in asked if kind == Kind.CHILD}
    maps = {(run_id, path) for run_id, path, kind, status in asked if kind == Kind.MAP}
    waiting = {at for at, status in seen.items() if status == EntryStatus.WAITING}
    open_places = {at for at, status in seen.items() if status != EntryStatus.SUCCEEDED}
    if not open_places and not maps:
        return set()
    within = Q(parent_path__in={path for _, path in open_places})
    if maps:
        # Items of these and others, of which ``is_replaced`` has the say: one condition, however many maps there are.
        within |= Q(parent_path__endswith="]")
    children = Run.objects.filter(
        within, parent_id__in=list(ended), status__in=[Status.FAILED, Status.CANCELLED]
    ).exclude(pk__in=[run.pk for run in parents])

    def is_replaced(at: Place, child: Run) -> bool:
        is_unseen = at in waiting or (at not in seen and _map_at(at) in maps)
        return is_unseen or (at in open_places and (at in culprits or _went_with(ended[at[0]], child)))

    # Under their locks: one that is resumed itself, now or a moment ago, is what its parent goes on waiting for.
    replaced = [
        child
        for child in locked(db, children)
        if child.parent_id is not None and is_replaced((child.parent_id, child.parent_path), child)
    ]
    # Retention may have removed the child that failed: its parent starts another all the same.
    places = {at for at in culprits if seen.get(at) == EntryStatus.FAILED}
    places |= {(child.parent_id, child.parent_path) for child in replaced if child.parent_id is not None}
    forgotten = entries.filter(kind=Kind.CHILD)
    # What the items of a map had come to, the map itself says.
    for alone in _at(forgotten, [at for at in places if _map_at(at) not in maps]):
        # One that was begun anew and waits has come to nothing since.
        _begin_anew(alone.filter(Q(status=EntryStatus.FAILED) | Q(error__isnull=False)))
    for gone in _at(forgotten.exclude(status=EntryStatus.RETRYING), places):
        gone.delete()
    change(db, replaced, parent_path=REPLACED)
    return places


def _map_at(place: Place) -> Place:
    """Where the map is that may have this place as an item."""
    return place[0], map_of(place[1])


def _went_with(parent: Run, child: Run) -> bool:
    """Whether the child was cancelled with its parent: that ran on for a moment, and may have journaled it."""
    if parent.status != Status.CANCELLED or child.status != Status.CANCELLED:
        return False
    asked, child_asked = parent.cancel_requested_at, child.cancel_requested_at
    return asked is not None and child_asked is not None and child_asked >= asked


def _begin_items_anew(journal: QuerySet[JournalEntry], places: Iterable[Place]) -> None:
    """A map whose children were forgotten starts others for them, and for nobody else."""
    items: dict[Place, set[int]] = defaultdict(set)
    for run_id, path in places:
        index = path[len(map_of(path)) + 1 : -1]
        if index.isdecimal():
            items[_map_at((run_id, path))].add(int(index))
    unsettled = journal.filter(kind=Kind.MAP).exclude(status=EntryStatus.SUCCEEDED)
    maps = [row for some in _at(unsettled, items) for row in some.values_list("run_id", "path", "value")]
    for run_id, path, value in maps:
        journal.filter(run_id=run_id, path=path).update(
            status=EntryStatus.OPEN,
            value=started_anew(cast(str, value), items[run_id, path]),
            finished_at=None,
        )
