"""Retention: finished trees of runs, expired keys, processes and fires of the past.

Nothing asks for an index on ``finished_at``. Ids are UUIDv7: what was finished long ago was created before that,
so its id lies below a bound that the clock gives, and a walk along the primary key finds it.
"""

from __future__ import annotations

from ..dialects import Dialect
from .endings import TERMINAL

KEEP = {"workflow": "text", "seconds": "double precision"}
MEMBER = {"id": "uuid", "seconds": "double precision"}
BELONGINGS = ("journalentry", "payload", "event", "tag", "audit", "claimrecord", "logline")


def now(d: Dialect) -> str:
    return f"SELECT {d.now}"


def window_end() -> str:
    """The id that closes a window of ``beyond`` + 1 runs after ``after``; no row where there are fewer."""
    return (
        "SELECT id FROM django_durable_run WHERE id > %(after)s AND id < %(bound)s "
        "ORDER BY id LIMIT 1 OFFSET %(beyond)s"
    )


def find_roots(d: Dialect) -> str:
    """What is over and old in a window and begins a tree: by birth, detached, or because its parent is gone.

    A run that an idempotency key still stands for stays: who uses the key again is promised to find it. Only such
    roots have keys, and none gets one later.
    """
    seconds = "coalesce(k.seconds, %(default_seconds)s)"
    return f"""
        SELECT r.id, {seconds} FROM django_durable_run r
        LEFT JOIN {d.recordset("keep", "k", KEEP)} ON k.workflow = r.workflow
        WHERE r.id > %(after)s AND r.id <= %(until)s AND {_is_old(d, seconds)}
            AND (r.parent_id IS NULL OR r.detached
                OR (SELECT p.id FROM django_durable_run p WHERE p.id = r.parent_id) IS NULL)
            AND NOT EXISTS (
                SELECT 1 FROM django_durable_idempotencykey k WHERE k.run_id = r.id AND k.expires_at > {d.now})
        ORDER BY r.id LIMIT %(limit)s"""


def _is_old(d: Dialect, seconds: str) -> str:
    return f"r.status IN {TERMINAL} AND r.finished_at <= {d.later(f'-({seconds})')}"


def find_trees(d: Dialect) -> str:
    """Every attached member of the trees, the deepest first in each, with whether it is over and old itself.

    ``seconds`` is how long it is kept: as its root, or for the period in which a rate counts it where that is longer.
    """
    seconds = "(CASE WHEN p.seconds > t.as_root THEN p.seconds ELSE t.as_root END)"
    return f"""
        WITH RECURSIVE tree (root, id, as_root, seconds, depth, is_old) AS (
            SELECT i.id, i.id, i.seconds, i.seconds, 0, 1 FROM {d.recordset("roots", "i", MEMBER)}
            UNION ALL
            SELECT t.root, r.id, t.as_root, {seconds}, t.depth + 1, CASE WHEN {_is_old(d, seconds)} THEN 1 ELSE 0 END
            FROM tree t JOIN django_durable_run r ON r.parent_id = t.id AND NOT r.detached
            LEFT JOIN {d.recordset("periods", "p", KEEP)} ON p.workflow = r.workflow)
        SELECT root, id, seconds, is_old FROM tree ORDER BY root, depth DESC, id"""


def lock_members(d: Dialect) -> str:
    """Lock what is still over and old: an operator may have resumed one since we looked, or be about to."""
    return f"""
        SELECT r.id FROM django_durable_run r JOIN {d.recordset("members", "i", MEMBER)} ON i.id = r.id
        WHERE {_is_old(d, "i.seconds")} ORDER BY r.id {d.lock_deleted}"""


def lock_kept(d: Dialect) -> str:
    """Runs that are not deleted while this transaction lasts. Everything else may happen to them."""
    return f"SELECT id FROM django_durable_run WHERE id {d.among('ids')} ORDER BY id {d.lock_kept}"


def delete_belongings(d: Dialect, table: str) -> str:
    return f"DELETE FROM django_durable_{table} WHERE run_id {d.among('ids')}"


def delete_runs(d: Dialect) -> str:
    return f"DELETE FROM django_durable_run WHERE id {d.among('ids')}"


# --- what is no run --------------------------------------------------------------------------


def find_keys(d: Dialect) -> str:
    """Expired keys; each is deleted by id under its lock, so one that is being taken over is left alone."""
    return f"""
        SELECT id FROM django_durable_idempotencykey WHERE expires_at <= {d.now}
        ORDER BY expires_at LIMIT %(limit)s"""


def find_workers(d: Dialect) -> str:
    """Processes that stopped, or were last heard of, ``seconds`` ago and that hold no lease any more."""
    return f"""
        SELECT w.id FROM django_durable_worker w
        WHERE coalesce(w.stopped_at, w.heartbeat_at) <= {d.later("-(%(seconds)s)")}
            AND NOT EXISTS (
                SELECT 1 FROM django_durable_run r WHERE r.status = 'running' AND r.leased_by = w.id)
        LIMIT %(limit)s"""


def find_fires(d: Dialect) -> str:
    """Fires of the past whose run is gone: what a schedule still has to know stands in the schedule itself.

    From ``behind`` on: those of runs that are kept for longer are the first, and no index tells them apart.
    """
    return f"""
        SELECT f.id FROM django_durable_fire f
        WHERE f.fired_at <= {d.later("-(%(seconds)s)")}
            AND f.id > %(behind)s AND NOT EXISTS (SELECT 1 FROM django_durable_run r WHERE r.id = f.run_id)
        ORDER BY f.id LIMIT %(limit)s"""


def find_audits(d: Dialect) -> str:
    """Of schedules: what has started runs goes when they do. Who turned a switch stays, it is asked for much later."""
    return f"""
        SELECT a.id FROM django_durable_audit a
        WHERE a.run_id IS NULL AND a.verb IN ('fire', 'backfill') AND a.at <= {d.later("-(%(seconds)s)")}
            AND a.id > %(behind)s
        ORDER BY a.id LIMIT %(limit)s"""


def locking(d: Dialect, find: str) -> str:
    return f"{find} {d.lock}"


def counting(find: str) -> str:
    return f"SELECT count(*) FROM ({find}) AS found"


def delete_by_id(d: Dialect, table: str) -> str:
    return f"DELETE FROM django_durable_{table} WHERE id {d.among('ids')}"
