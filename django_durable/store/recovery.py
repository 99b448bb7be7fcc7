"""What keeps runs moving whoever dies: wake, promote, reap, release, and the sweep for wakes that were never sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ..core import clock
from ..core.flow.lease import Lease
from ..core.journal.fan_out import map_of
from ..core.journal.states import TERMINAL, Status
from ..queues.ready import Ready
from .database import Database, PrivateDatabase, Row, as_json
from .dialects import Dialect
from .fencing import claim_rows
from .locking import brief_lock
from .sql import leases, waits

Child = tuple[UUID, str]
"""Parent and path."""
ALIVE = 0.8
"""Who was heard of within so much of a lease lives. Not within all of it: a beat renews the leases, and tells of its
process a moment later. Of one that dies then the leases would lapse while it seems to live, and nobody be suspected.
Far more than the third of a lease after which the system checks want a beat, so whoever beats in time is within it."""


class Taken(NamedTuple):
    """A run whose lease was taken away; ``status`` is queued, or paused where that was asked for, or after too many
    crashes blocked, or cancelled where it had been asked to stop. ``woken``: its parent, where that waited for that;
    one of several of a map tells of it."""

    ready: Ready
    status: str
    suspect: bool
    workflow: str
    woken: Sequence[Ready] = ()


class Asked(NamedTuple):
    """What somebody wants of a run that is being worked on."""

    cancel: bool = False
    pause: bool = False


def _ready(db: Database, rows: Sequence[Row], *, are_under_way: bool = False) -> list[Ready]:
    return [Ready(db.dialect.read_key(row[0]), row[1], row[2], is_under_way=are_under_way) for row in rows]


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


def wake_parent(db: Database, parent_id: UUID, path: str) -> list[Ready]:
    """As ``wake``, for the parent of a child at ``path`` that is over, after the commit of that. Raises RunLocked.

    Where that has not fulfilled the wait of a map, the parent is left alone, and its row is not even locked: ten
    thousand children would each write to it. No wake is lost: of the commits that leave few enough alive one is
    visible first, and whoever made that one looks after it and sees so few. Two that end together may both come to
    that: then the parent's lock decides, and the second finds it awake. A path that is no map's may look like an
    item's (of a call with a key): such children are waited for one by one, and none is left to another.
    """
    return [] if _is_left_alone(db, parent_id, path) else wake(db, parent_id)


def try_wake_parent(db: Database, parent_id: UUID, path: str) -> list[Ready] | None:
    """As ``wake_parent``, but None at once where somebody holds the parent's row: the caller must come back to it."""
    return [] if _is_left_alone(db, parent_id, path) else try_wake(db, parent_id)


def _is_left_alone(db: Database, parent_id: UUID, path: str) -> bool:
    of_map = map_of(path)
    return bool(of_map and db.rows(waits.is_left_alone(db.dialect), id=db.dialect.key(parent_id), map=of_map))


def one_for_each_wait(children: Iterable[tuple[UUID | None, str]]) -> list[Child]:
    """Of children that are over (parent and path), as many as are worth to wake their parents for: one of each map."""
    firsts: dict[Child, Child] = {}
    for parent_id, path in children:
        if parent_id is not None:
            firsts.setdefault((parent_id, map_of(path) or path), (parent_id, path))
    return list(firsts.values())


def wake_parents(db: Database, children: Iterable[tuple[UUID | None, str]]) -> list[Ready]:
    """Wake the parents (if any) of runs that are over, after the commit of that. ``children``: parent and path.

    Here nobody waits for a row that somebody holds: the sweep comes back to it.
    """
    return [ready for one in one_for_each_wait(children) for ready in try_wake_parent(db, *one) or []]


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


def renew_missed(db: PrivateDatabase, held: Iterable[Lease], *, lease: float) -> None:
    """Renew those of the leases that the last heartbeat missed: for who is about to commit, and holds no row yet.

    A commit of several statements, to a database that is far away, holds its rows for most of the time, and each beat
    may find them held. Tried once for each beat: somebody else may hold a row for minutes, and that must not cost each
    commit a round trip.
    """
    missed = [(one, one.ends) for one in held if one.missed_beat]
    if not missed:
        return
    for one, _ in missed:
        one.missed_beat = False
    ends = clock.monotonic() + lease
    try:
        renewed = renew(db, [one for one, _ in missed], lease=lease)
    except BaseException:
        for one, _ in missed:
            one.missed_beat = True
        raise
    for one, known in missed:
        # Not what was over before the answer came: somebody may have dropped a result because of that.
        if one.token in renewed and not one.is_over:
            one.renew(ends, known)


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
    d = db.dialect
    given = {"limit": limit, "silence": ALIVE * lease, "max_crashes": max_crashes, **parameters}
    if d.has_writing_ctes:
        rows = db.rows(statement, **given)
    elif not db.rows(leases.is_any_held()):
        # Not worth the one write lock, which an idle worker would take with each look.
        return []
    else:
        # Together: a claim in between would be older than the loss of the one before it.
        with db.transaction():
            rows = db.rows(statement, **given)
            if rows:
                db.rows(leases.lose_claims(d), taken=as_json([_claim_of(d, row) for row in rows]))
    ended = {row[0]: _place(db, row) for row in rows if row[3] in TERMINAL and row[6] is not None}
    woken = {place: try_wake_parent(db, *place) or [] for place in one_for_each_wait(ended.values())}
    return [_taken(db, row, woken.pop(ended[row[0]], []) if row[0] in ended else []) for row in rows]


def _claim_of(d: Dialect, row: Row) -> dict[str, Any]:
    started_by = None if row[9] is None else d.key(d.read_key(row[9]))
    started_at = d.instant(d.read_instant(row[10]))
    return {"id": d.key(d.read_key(row[0])), "claims": row[8], "started_by": started_by, "started_at": started_at}


def _place(db: Database, row: Row) -> Child:
    return db.dialect.read_key(row[6]), row[7]


def _taken(db: Database, row: Row, woken: Sequence[Ready]) -> Taken:
    status, suspect, workflow = row[3:6]
    [ready] = _ready(db, [row], are_under_way=True)
    return Taken(ready, status, bool(suspect), workflow, woken)


def release_worker(db: Database, worker_id: UUID) -> list[Ready]:
    """Hand back unharmed what a process held that drained and is dead now. Raises RunLocked where somebody holds one of
    the rows for long: then nothing has been handed back."""
    with brief_lock(db, []):
        rows = db.rows(leases.release_worker(db.dialect), worker=db.dialect.key(worker_id))
    return _ready(db, rows, are_under_way=True)


def startable(taken: Sequence[Taken]) -> list[Ready]:
    """Those that any worker may start next: suspects wait for a process of their own, blocked ones for a person; and
    the parents that were woken."""
    freed = [run.ready for run in taken if run.status == Status.QUEUED and not run.suspect]
    return freed + [ready for run in taken for ready in run.woken]
