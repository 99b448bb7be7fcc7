"""Claims under a limit: a key never has more leased runs, or more that began of late, than its workflow's code says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from ..core import clock
from ..core.clock import DatabaseClock
from ..core.limits import Bounds
from ..queues.base import Queue
from ..queues.ready import Ready
from .claiming import Claim, Claimant, read_claims, suspected
from .database import Database, Row, as_json
from .sql import limits as sql

MOST_KEYS = 1000
"""How many keys one look asks for; where more have queued runs, looks go round."""

MOST_DUE = 1000

Limits = Mapping[str, Bounds]


@dataclass(slots=True)
class KeyWalk:
    """Goes round the keys that have queued runs. ``seen``: those of the last look. ``has_due``: there were runs that
    have to be queued first. ``ends``: some that are queued are ending, of whatever key."""

    after: str = ""
    seen: Sequence[str] = ()
    has_due: bool = False
    ends: bool = False

    def next(self, db: Database) -> list[str]:
        """The keys whose turn it is; as a rule all."""
        rows = db.rows(sql.queued_keys(db.dialect), after=self.after, limit=MOST_KEYS)
        keys = [key for key, _ in rows if key is not None]
        told = {number for key, number in rows if key is None}
        self.has_due, self.ends = 0 in told, -1 in told
        self.after = keys[-1] if len(keys) == MOST_KEYS else ""
        self.seen = keys
        return keys


def claim_limited(
    db: Database, who: Claimant, limit: int, walk: KeyWalk, *, lease: float, time: DatabaseClock, suspect: bool = False
) -> list[Claim]:
    """Claim up to ``limit`` runs that are queued or due and have a limit with room; keys take turns, of each its best
    goes first. ``suspect``: of those that may have killed their process, and no others."""
    began_after = walk.after
    keys = walk.next(db)
    if walk.has_due:
        db.rows(sql.promote_limited(db.dialect), limit=MOST_DUE)
        # The same keys again, and those that this has queued: else keys that something always comes due beside starve.
        walk.after = began_after
        keys = walk.next(db)
    claims = _claim(db, who, keys, limit, lease, time, suspect, ends=walk.ends)
    return suspected(claims) if suspect else claims


def claim_hinted(db: Database, who: Claimant, ids: Sequence[UUID], *, lease: float, time: DatabaseClock) -> list[Claim]:
    """Claim, for each of ``ids`` that is queued under a limit with room, the run of its key that is next."""
    rows = db.rows(sql.keys_of(db.dialect), ids=db.dialect.ids(ids))
    return _claim(db, who, [row[0] for row in rows], len(ids), lease, time, ends=any(row[1] for row in rows))


def hint(db: Database, queue: Queue, ready: Sequence[Ready], limits: Limits) -> None:
    """Tell the queue of ready runs; of new ones with a limit only where that has room.

    Ids that cannot start would fill the lists: each takes a worker a look, and one key's backlog hides another's runs.
    """
    limited = sorted({run.limit_key for run in ready if run.limit_key is not None})
    if limited and queue.gives_hints:
        free = [run for run in ready if run.limit_key is None]
        ready = free + admit(db, limited, limits, len(ready) - len(free))
    queue.push(ready)


def admit(db: Database, keys: Sequence[str], limits: Limits, limit: int, *, ends: bool = False) -> list[Ready]:
    """Up to ``limit`` runs of these keys that workers should hear of: as many of each as it has room for. ``ends``: of
    ``KeyWalk``; who does not know it may name others, but whoever claims these takes what is first of their keys."""
    if not keys:
        return []
    d = db.dialect
    statement = sql.admit(d, sql.ANYBODYS, ends=ends)
    rows = db.rows(statement, keys=d.list(keys), limits=_limit_rows(limits), limit=limit)
    return [Ready(d.read_key(row[0]), row[1], row[2]) for row in rows]


def seconds_to_opening(db: Database, keys: Sequence[str], limits: Limits) -> float | None:
    """Seconds until the first of ``keys`` whose rate is full may start another queued run; None: none is full."""
    if not keys or all(bounds.rate is None for bounds in limits.values()):
        return None
    d = db.dialect
    [row] = db.rows(sql.next_opening(d), keys=d.list(keys), limits=_limit_rows(limits))
    opens_at, now = (d.read_instant(value) for value in row)
    return None if opens_at is None else (opens_at - cast(datetime, now)).total_seconds()


def _claim(
    db: Database,
    who: Claimant,
    keys: Sequence[str],
    limit: int,
    lease: float,
    time: DatabaseClock,
    suspect: bool = False,
    *,
    ends: bool,
) -> list[Claim]:
    if not keys or not who.workflows:
        return []
    d = db.dialect
    mine = {"workflows": d.texts(who.workflows), "queues": d.texts(who.queues), "limit": limit}
    condition = sql.mine(d, suspect=suspect)
    room = db.rows(sql.find_room(d, condition, ends=ends), keys=d.list(keys), limits=_limit_rows(who.limits), **mine)
    if not room:
        return []
    _make_missing(db, room)
    until = clock.monotonic() + lease
    with db.transaction():
        granted = _lock(db, room)
        statement = sql.claim_granted(d, condition, ends=ends)
        rows = db.rows(statement, granted=granted, worker=d.key(who.id), lease=float(lease), **mine)
        if rows:
            # In the same order as they were locked in: their rows are ours already.
            db.rows(sql.note_admitted(d), keys=d.list({row[-1] for row in rows}))
    return read_claims(db, who, rows, until, time)


def _make_missing(db: Database, room: Sequence[Row]) -> None:
    missing = [row[0] for row in room if not row[4]]
    if missing:
        db.rows(sql.make_limits(db.dialect), keys=db.dialect.list(missing))


def _lock(db: Database, room: Sequence[Row]) -> str:
    """Lock the keys' rows; what may be claimed of those that are ours now, for ``sql.GRANTED``."""
    d = db.dialect
    ours = {key for (key,) in db.rows(sql.lock_limits(d), keys=d.list([row[0] for row in room]))}
    granted: list[dict[str, Any]] = []
    for place, (key, maximum, starts, seconds, *_) in enumerate(room):
        if key in ours:
            granted.append({"key": key, "place": place, "maximum": maximum, "starts": starts, "seconds": seconds})
    return as_json(granted)


def _limit_rows(limits: Limits) -> str:
    return as_json(
        [
            {
                "workflow": name,
                "maximum": bounds.concurrency,
                "starts": bounds.rate and bounds.rate.starts,
                "seconds": bounds.rate and bounds.rate.seconds,
            }
            for name, bounds in limits.items()
        ]
    )
