"""Retention: whole trees of runs whose every member is over and old, in short transactions.

A tree is a run with its attached descendants; a detached child begins a tree of its own, else a workflow that starts
its successor for ever would keep every predecessor. A tree with a live or a young member is kept whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple, cast
from uuid import UUID

from ..conf import durable_settings
from ..core import registry
from . import tallying
from .database import Database, as_json
from .sql import limits
from .sql import pruning as sql

FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)
DAY = 86_400.0
WINDOW = 20
"""How many runs are looked at for each that may be deleted: a call is bounded also where nothing is due."""
COUNT_MOST = 1_000_000
TALLIED = 2 * DAY
"""How long there are statistics of a minute. Their rows are small, and many in an hour: more of them go at a time."""


@dataclass(slots=True, frozen=True)
class Retention:
    """How long what is over is kept, in seconds: ``default``, and by name for workflows that say otherwise.

    Children are kept as their roots are; ``periods`` are those, by name, for which a rate counts them in any case.
    """

    default: float
    by_workflow: Mapping[str, float]
    periods: Mapping[str, float] = field(default_factory=dict)

    @property
    def shortest(self) -> float:
        return min([self.default, *self.by_workflow.values()])


def retention(options: Mapping[str, timedelta | float | None], *, default: float | None = None) -> Retention:
    """The retention in force. ``options`` holds each workflow's option by name, ``default`` (seconds) goes before
    ``RETENTION_DAYS``. What a rate still counts is kept."""
    seconds = durable_settings().RETENTION_DAYS * DAY if default is None else default
    own = {
        name: given.total_seconds() if isinstance(given, timedelta) else float(given)
        for name, given in options.items()
        if given is not None
    }
    periods = {name: float(bounds.rate.seconds) for name, bounds in registry.limits().items() if bounds.rate}
    own |= {name: max(own.get(name, seconds), period) for name, period in periods.items()}
    return Retention(seconds, own, periods)


OTHERS = {
    "idempotencykey": sql.find_keys,
    "worker": sql.find_workers,
    "fire": sql.find_fires,
    "audit": sql.find_audits,
    "limit": limits.find_idle,
}
"""What is no run, by its table: how to find what may go."""
FOR_A_DAY = ("worker", "limit")
Others = Mapping[str, object]
"""Some of these tables, and the row behind which to look, for those statements that begin at one."""


@dataclass(slots=True, frozen=True)
class Place:
    """Where a walk goes on: with the runs after this one, and with ``others``.

    A look for one of these may read its whole table, and a walk has thousands of steps. So the first looks for each,
    and the next ones for those of which there were as many as a step may delete; the last one once more for fires.
    """

    run: UUID = FIRST
    others: Others = field(default_factory=lambda: dict.fromkeys(OTHERS, 0))


@dataclass(slots=True)
class Pruned:
    """What one call deleted (or would have). ``after`` is where the next goes on; None: the walk is at its end."""

    runs: int = 0
    idempotency_keys: int = 0
    workers: int = 0
    fires: int = 0
    after: Place | None = None

    def add(self, other: Pruned) -> None:
        self.runs += other.runs
        self.idempotency_keys += other.idempotency_keys
        self.workers += other.workers
        self.fires += other.fires
        self.after = other.after


class _Member(NamedTuple):
    root: UUID
    id: UUID
    seconds: float
    is_old: bool


def prune(
    db: Database, limit: int, keep: Retention | None = None, *, after: Place | None = None, dry_run: bool = False
) -> Pruned:
    """Delete up to ``limit`` runs, and as many rows of each other kind: one bounded step of a walk along the ids.

    Start without ``after`` and hand back ``Pruned.after`` until it is None. Any number of processes may do it at
    once: rows that somebody holds are left for the next walk.
    """
    keep, place = keep or retention({}), after or Place()
    runs, upto = _prune_runs(db, limit, keep, place.run, dry_run)
    others = dict(place.others)
    if upto is None and place.run != LAST and not dry_run:
        # Those of the runs that this walk has deleted.
        others.setdefault("fire", 0)
    counts, more = _prune_others(db, limit, keep, others, dry_run)
    if not dry_run:
        tallying.prune(db, limit * WINDOW, TALLIED)
    goes_on = Place(upto or LAST, more) if upto or more else None
    return Pruned(runs, counts["idempotencykey"], counts["worker"], counts["fire"], goes_on)


def _prune_runs(db: Database, limit: int, keep: Retention, after: UUID, dry_run: bool) -> tuple[int, UUID | None]:
    roots, upto = _find_roots(db, limit, keep, after)
    trees = _find_trees(db, roots, keep)
    chosen, left_at = _fit(trees, limit)
    if dry_run:
        return sum(map(len, trees)), upto
    deleted = _delete(db, chosen)
    if left_at is None:
        return deleted, upto
    # A tree that is larger than the limit loses its leaves first; the next call finds it again by its root. Where
    # nothing could be deleted, somebody holds it: the walk goes on behind it.
    return deleted, UUID(int=left_at.int - 1) if deleted else left_at


def _find_roots(db: Database, limit: int, keep: Retention, after: UUID) -> tuple[dict[UUID, float], UUID | None]:
    """Roots of the next window with their retention, and the id up to which they are all of them."""
    d = db.dialect
    now = cast(datetime, d.read_instant(db.rows(sql.now(d))[0][0]))
    bound = id_at(now - timedelta(seconds=keep.shortest))
    end = db.rows(sql.window_end(), after=d.key(after), bound=d.key(bound), beyond=limit * WINDOW - 1)
    until = d.read_key(end[0][0]) if end else bound
    rows = db.rows(
        sql.find_roots(d),
        after=d.key(after),
        until=d.key(until),
        default_seconds=float(keep.default),
        keep=_by_workflow(keep.by_workflow),
        limit=limit,
    )
    roots = {d.read_key(row[0]): float(row[1]) for row in rows}
    if len(roots) == limit:
        return roots, max(roots)
    return roots, until if end else None


def _by_workflow(seconds: Mapping[str, float]) -> str:
    return as_json([{"workflow": name, "seconds": value} for name, value in seconds.items()])


def id_at(moment: datetime) -> UUID:
    """The least UUIDv7 of that millisecond: every run created earlier has a smaller id."""
    milliseconds = max(int(moment.timestamp() * 1000), 0)
    return UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62))


def _find_trees(db: Database, roots: Mapping[UUID, float], keep: Retention) -> list[list[_Member]]:
    """The trees of these roots that are over and old from top to bottom; leaves first."""
    if not roots:
        return []
    d = db.dialect
    given = as_json([{"id": d.key(root), "seconds": seconds} for root, seconds in roots.items()])
    members = [
        _Member(d.read_key(row[0]), d.read_key(row[1]), row[2], bool(row[3]))
        for row in db.rows(sql.find_trees(d), roots=given, periods=_by_workflow(keep.periods))
    ]
    trees = [list(tree) for _, tree in groupby(members, key=lambda member: member.root)]
    return [tree for tree in trees if all(member.is_old for member in tree)]


def _fit(trees: Sequence[list[_Member]], limit: int) -> tuple[list[list[_Member]], UUID | None]:
    """As many whole trees as fit, at least the leaves of the first; and the root where the rest begins."""
    chosen: list[list[_Member]] = []
    room = limit
    for tree in trees:
        if len(tree) > room:
            return chosen or [tree[:limit]], tree[0].root
        chosen.append(tree)
        room -= len(tree)
    return chosen, None


def _delete(db: Database, trees: Sequence[list[_Member]]) -> int:
    if not trees:
        return 0
    d = db.dialect
    members = as_json([{"id": d.key(member.id), "seconds": member.seconds} for tree in trees for member in tree])
    with db.transaction():
        locked = {d.read_key(row[0]) for row in db.rows(sql.lock_members(d), members=members)}
        whole = (tree for tree in trees if all(member.id in locked for member in tree))
        ids = [member.id for tree in whole for member in tree]
        _delete_runs(db, ids)
    return len(ids)


def _delete_runs(db: Database, ids: Sequence[UUID]) -> None:
    if ids:
        d = db.dialect
        for table in sql.BELONGINGS:
            db.rows(sql.delete_belongings(d, table), ids=d.list(ids))
        db.rows(sql.delete_runs(d), ids=d.list(ids))


def _prune_others(
    db: Database, limit: int, keep: Retention, others: Others, dry_run: bool
) -> tuple[Counter[str], Others]:
    """How many rows of each table have gone, and of which there may be more. A dry run counts them all at once."""
    counts, more = Counter[str](), dict[str, object]()
    for table, behind in others.items():
        find, seconds = OTHERS[table](db.dialect), DAY if table in FOR_A_DAY else keep.default
        if dry_run:
            counts[table] = db.rows(sql.counting(find), limit=COUNT_MOST, seconds=seconds, behind=behind)[0][0]
            continue
        ids = _delete_found(db, table, find, limit=limit, seconds=seconds, behind=behind)
        counts[table] = len(ids)
        if len(ids) == limit:
            more[table] = ids[-1]
    return counts, more


def _delete_found(db: Database, table: str, find: str, **parameters: object) -> list[object]:
    d = db.dialect
    with db.transaction():
        ids = [row[0] for row in db.rows(sql.locking(d, find), **parameters)]
        if ids:
            db.rows(sql.delete_by_id(d, table), ids=d.list(ids))
    return ids
