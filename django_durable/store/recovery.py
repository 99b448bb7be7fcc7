"""What keeps runs moving whoever dies: wake, promote, reap, release, and the sweep for wakes that were never sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from ..core.lease import Lease
from ..core.states import TERMINAL, Status
from ..queues.ready import Ready
from .committing import claim_rows
from .database import Database, Row, as_json
from .locking import brief_lock
from .sql import leases, waits


class Taken(NamedTuple):
    """A run whose lease was taken away; ``status`` is queued, or paused where that was asked for, or after too many
    crashes blocked, or cancelled where it had been asked to stop. ``woken``: its parent, where that waited for that."""

    ready: Ready
    status: str
    suspect: bool
    workflow: str
    woken: Sequence[Ready] = ()


class Asked(NamedTuple):
    """What somebody wants of a run that is being worked on."""

    cancel: bool = False
    pause: bool = False


def _ready(db: Database, rows: Iterable[Row]) -> list[Ready]:
    return [Ready(db.dialect.read_key(row[0]), row[1], row[2]) for row in rows]


def wake(db: Database, run_id: UUID) -> list[Ready]:
    """Queue the run if it waits for something that has happened: after the commit of what happened.

    Two statements in a transaction of their own. The first waits for the row, the second starts when the row is
    ours: the suspension that held it is then seen (models: wake.pml, variants WAKE=1, 4 and 5 lose the wake-up).
    Raises RunLocked where somebody holds the row for long: then the sweep wakes the run.
    """
    return _wake(db, run_id, skips=False) or []


def try_wake(db: Database, run_id: UUID) -> list[Ready] | None:
    """As ``wake``, but None at once where somebody holds the row: the caller must come back to it."""
    return _wake(db, run_id, skips=True)


def _wake(db: Database, run_id: UUID, *, skips: bool) -> list[Ready] | None:
    d = db.dialect
    with brief_lock(db, [run_id]):
        if not db.rows(waits.lock_run(d, skips=skips), id=d.key(run_id)) and skips:
            return None
        return _ready(db, db.rows(waits.wake(d), id=d.key(run_id)))


def try_wake_parent(db: Database, parent_id: UUID, path: str) -> list[Ready] | None:
    """As ``try_wake``, for the parent of a child at ``path`` that is over, after the commit of that.

    Where a sibling of the same map lives, the parent is left alone, and its row is not even locked: ten thousand
    children would each write to it. No wake is lost: of all their commits one is visible last, and whoever made that
    one looks after it and sees no other alive. Two that end together may both come to that: then the parent's lock
    decides, and the second finds it awake. A path that is no map's may look like an item's (of a call with a key):
    such children are waited for one by one, and none is left to another.
    """
    of_map, is_item, _ = path.rpartition("[")
    if is_item and db.rows(waits.live_sibling(db.dialect), id=db.dialect.key(parent_id), map=of_map):
        return []
    return try_wake(db, parent_id)


def wake_parents(db: Database, parents: Iterable[UUID | None]) -> list[Ready]:
    """Wake the parents (if any) of runs that are over, after the commit of that.

    Here nobody waits for a row that somebody holds: the sweep comes back to it.
    """
    known = [parent_id for parent_id in dict.fromkeys(parents) if parent_id is not None]
    return [ready for parent_id in known for ready in try_wake(db, parent_id) or []]


def promote(db: Database, limit: int) -> list[Ready]:
    """Due → queued, up to ``limit``."""
    return _ready(db, db.rows(waits.promote(db.dialect), limit=limit))


def sweep(db: Database, limit: int) -> list[Ready]:
    """Wake runs whose reason to go on has come while whoever should have woken them died.

    A row that somebody holds is left for the next sweep: this one must not wait for an open web transaction.
    """
    found = db.rows(waits.find_overslept(db.dialect), limit=limit)
    return [ready for row in found for ready in try_wake(db, db.dialect.read_key(row[0])) or []]


def renew(db: Database, held: Sequence[Lease], *, lease: float) -> dict[UUID, Asked]:
    """Extend our leases by ``lease`` seconds from now: the tokens renewed, each with what is asked of its run."""
    rows = db.rows(leases.renew(db.dialect), claims=claim_rows(db.dialect, held), lease=float(lease))
    return {
        db.dialect.read_key(token): Asked(cancelled_at is not None, cancelled_at is None and paused_at is not None)
        for token, cancelled_at, paused_at in rows
    }


def find_lapsed(db: Database, limit: int) -> dict[UUID, UUID]:
    """Runs whose lease is past its end, with its token."""
    key = db.dialect.read_key
    return {key(run_id): key(token) for run_id, token in db.rows(leases.find_lapsed(db.dialect), limit=limit)}


def reap(
    db: Database, limit: int, *, lease: float, max_crashes: int, seen: dict[UUID, UUID] | None = None
) -> list[Taken]:
    """Take lapsed leases away. ``seen`` (run and token) restricts it to those that an earlier look saw lapsed too."""
    d = db.dialect
    statement = leases.reap(d) if seen is None else leases.reap_seen(d)
    more = {} if seen is None else {"seen": as_json([{"id": d.key(i), "token": d.key(t)} for i, t in seen.items()])}
    return _take_away(db, statement, limit, lease, max_crashes, presumed_alive=True, **more)


def reap_worker(db: Database, worker_id: UUID, *, lease: float, max_crashes: int) -> list[Taken]:
    """Take away what a process held that is known to be dead."""
    statement, worker = leases.reap_worker(db.dialect), db.dialect.key(worker_id)
    return _take_away(db, statement, 100_000, lease, max_crashes, presumed_alive=False, worker=worker)


def _take_away(
    db: Database, statement: str, limit: int, lease: float, max_crashes: int, **parameters: object
) -> list[Taken]:
    rows = db.rows(statement, limit=limit, lease=float(lease), max_crashes=max_crashes, **parameters)
    return [_taken(db, row) for row in rows]


def _taken(db: Database, row: Row) -> Taken:
    status, suspect, workflow, parent_key = row[3:]
    parent_id = db.dialect.read_key(parent_key) if parent_key is not None and status in TERMINAL else None
    return Taken(_ready(db, [row])[0], status, bool(suspect), workflow, wake_parents(db, [parent_id]))


def release_worker(db: Database, worker_id: UUID) -> list[Ready]:
    """Hand back unharmed what a process held that drained and is dead now."""
    return _ready(db, db.rows(leases.release_worker(db.dialect), worker=db.dialect.key(worker_id)))


def startable(taken: Sequence[Taken]) -> list[Ready]:
    """Those that any worker may start next: suspects wait for a process of their own, blocked ones for a person; and
    the parents that were woken."""
    freed = [run.ready for run in taken if run.status == Status.QUEUED and not run.suspect]
    return freed + [ready for run in taken for ready in run.woken]
