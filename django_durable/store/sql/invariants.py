"""What must never be seen in the tables: one query for each invariant, which returns who breaks it and how.

Each looks at a window of ids (``after`` < id ≤ ``until``) and returns at most ``limit`` rows of id and text. A query
is one statement, so it sees one snapshot: what a commit changes together it sees together.
"""

from __future__ import annotations

from ..dialects import Dialect
from .waits import LOW_WATER, has_room, is_item

TERMINAL = "('succeeded', 'failed', 'cancelled')"


def window_end(table: str) -> str:
    """The id that closes a window of ``beyond`` + 1 rows after ``after``; no row where there are fewer."""
    return f"SELECT id FROM {table} WHERE id > %(after)s ORDER BY id LIMIT 1 OFFSET %(beyond)s"


def _in_window(column: str) -> str:
    return f"{column} > %(after)s AND {column} <= %(until)s"


def _any(rows: str) -> str:
    # Not EXISTS: PostgreSQL may answer that from a hash of the whole other table, anew for each window.
    return f"({rows} LIMIT 1) IS NOT NULL"


def _none(rows: str) -> str:
    return f"({rows} LIMIT 1) IS NULL"


def lease(d: Dialect) -> str:
    """I1: running <=> lease_token, leased_by and lease_expires_at are set; else all three are null."""
    missing = "r.lease_token IS NULL OR r.leased_by IS NULL OR r.lease_expires_at IS NULL"
    present = "r.lease_token IS NOT NULL OR r.leased_by IS NOT NULL OR r.lease_expires_at IS NOT NULL"
    return f"""
        SELECT r.id, CASE WHEN r.status = 'running' THEN 'running without a whole lease'
            ELSE r.status || ' with a lease' END
        FROM django_durable_run r
        WHERE {_in_window("r.id")} AND (r.status = 'running' AND ({missing}) OR r.status <> 'running' AND ({present}))
        ORDER BY r.id LIMIT %(limit)s"""


def ending(d: Dialect) -> str:
    """I2: terminal <=> finished_at; succeeded has an output and no error, failed an error and no output."""
    payload = "SELECT 1 FROM django_durable_payload p WHERE p.run_id = r.id AND p.kind = '{}'"
    output, error = payload.format("output"), payload.format("error")
    return f"""
        SELECT id, problem FROM (
            SELECT r.id AS id, CASE
                WHEN r.status IN {TERMINAL} AND r.finished_at IS NULL THEN r.status || ' without finished_at'
                WHEN r.status NOT IN {TERMINAL} AND r.finished_at IS NOT NULL THEN r.status || ' with finished_at'
                WHEN r.status = 'succeeded' AND {_none(output)} THEN 'succeeded without an output'
                WHEN r.status = 'succeeded' AND {_any(error)} THEN 'succeeded with an error'
                WHEN r.status = 'failed' AND {_none(error)} THEN 'failed without an error'
                WHEN r.status = 'failed' AND {_any(output)} THEN 'failed with an output'
                END AS problem
            FROM django_durable_run r WHERE {_in_window("r.id")}) AS looked_at
        WHERE problem IS NOT NULL ORDER BY id LIMIT %(limit)s"""


def sequence(d: Dialect) -> str:
    """I6: the journal's sequence strictly grows in a run: it begins above zero and no number comes twice."""
    return f"""
        SELECT j.run_id, 'journal number ' || j.seq || CASE WHEN count(*) > 1
            THEN ' stands ' || count(*) || ' times' ELSE ' is not above zero' END
        FROM django_durable_journalentry j WHERE {_in_window("j.run_id")}
        GROUP BY j.run_id, j.seq HAVING count(*) > 1 OR j.seq < 1
        ORDER BY j.run_id, j.seq LIMIT %(limit)s"""


def paths(d: Dialect) -> str:
    """I8, first half: (run, path) is unique in the journal."""
    return f"""
        SELECT j.run_id, count(*) || ' journal entries at ' || j.path
        FROM django_durable_journalentry j WHERE {_in_window("j.run_id")}
        GROUP BY j.run_id, j.path HAVING count(*) > 1
        ORDER BY j.run_id, j.path LIMIT %(limit)s"""


def keys(d: Dialect) -> str:
    """I13: one unexpired idempotency key of a workflow -> one run, which exists, and is of that workflow."""
    older = f"""SELECT 1 FROM django_durable_idempotencykey o
        WHERE o.workflow = k.workflow AND o.key_hash = k.key_hash AND o.id < k.id AND o.expires_at > {d.now}"""
    run = "SELECT 1 FROM django_durable_run r WHERE r.id = k.run_id"
    # A key of a renamed workflow is taken under its old names too, beside the one that the run has.
    own = """SELECT 1 FROM django_durable_idempotencykey a
        WHERE a.workflow = r.workflow AND a.key_hash = k.key_hash AND a.run_id = k.run_id"""
    other = f"{run} AND r.workflow <> k.workflow AND {_none(own)}"
    return f"""
        SELECT run_id, problem FROM (
            SELECT k.id, k.run_id, CASE
                WHEN {_any(older)} THEN 'a second run for one idempotency key of ' || k.workflow
                WHEN {_none(run)} THEN 'no run, but an idempotency key of ' || k.workflow || ' names it'
                WHEN {_any(other)} THEN 'not a run of ' || k.workflow || ', whose idempotency key names it'
                END AS problem
            FROM django_durable_idempotencykey k
            WHERE {_in_window("k.id")} AND k.expires_at > {d.now}) AS looked_at
        WHERE problem IS NOT NULL ORDER BY id LIMIT %(limit)s"""


def parents(d: Dialect) -> str:
    """I18, first half: the parent of a live, attached child exists (retention keeps such trees whole)."""
    parent = "SELECT 1 FROM django_durable_run p WHERE p.id = r.parent_id"
    return f"""
        SELECT r.id, r.status || ', and its parent does not exist' FROM django_durable_run r
        WHERE {_in_window("r.id")} AND r.parent_id IS NOT NULL AND NOT r.detached AND r.status NOT IN {TERMINAL}
            AND {_none(parent)}
        ORDER BY r.id LIMIT %(limit)s"""


def cancelled_parents(d: Dialect) -> str:
    """I18, second half: a parent that ended cancelled a sweep ago has no live, attached child that was not asked to
    stop, unless a person has resumed it since."""
    settled = d.later("-(%(settled)s)")
    parent = f"""SELECT 1 FROM django_durable_run p
        WHERE p.id = r.parent_id AND p.status = 'cancelled' AND p.finished_at <= {settled}"""
    resumed = "SELECT 1 FROM django_durable_audit a WHERE a.run_id = r.id AND a.verb = 'resume'"
    return f"""
        SELECT r.id, r.status || ', although its parent was cancelled' FROM django_durable_run r
        WHERE {_in_window("r.id")} AND r.parent_id IS NOT NULL AND NOT r.detached AND r.status NOT IN {TERMINAL}
            AND r.cancel_requested_at IS NULL AND {_any(parent)} AND {_none(resumed)}
        ORDER BY r.id LIMIT %(limit)s"""


def waits(d: Dialect) -> str:
    """I22: a waiting run has something that will wake it, and nothing that should have woken it a sweep ago.

    The entries that are ``waiting`` are what it waits for, all of them, and it has one, or one that is ``retrying``,
    unless it waits for its next attempt as a whole. A run that is over may keep such entries: a cancellation or the
    deadline found it there, and resumed it goes on there.
    """
    entry = "SELECT 1 FROM django_durable_journalentry j WHERE j.run_id = r.id AND j.status"
    waiting = f"{entry} = 'waiting' AND j.kind ="
    children = "SELECT 1 FROM django_durable_run c WHERE c.parent_id = j.run_id AND"
    child, item = f"{children} c.parent_path = j.path", f"{children} {is_item(d, 'c.parent_path', 'j.path')}"
    settled = d.later("-(%(settled)s)")
    came = f"""SELECT 1 FROM django_durable_event e WHERE e.run_id = j.run_id AND {d.is_line_of("e.name", "j.awaits")}
        AND e.consumed_at IS NULL AND e.sent_at <= {settled}"""
    going_on = f"(c.status NOT IN {TERMINAL} OR c.finished_at > {settled})"
    is_over = f"{_any(child)} AND {_none(f'{child} AND {going_on}')}"
    # How many are alive the index on live children tells; only where they are few enough are all of them looked at.
    few = f"(SELECT count(*) FROM ({item} AND {going_on}) AS going_on) <= {LOW_WATER}"
    are_few = f"{has_room(d)} AND {_any(item)} AND {few}"
    can_wake = " OR ".join(
        (
            "r.wake_at IS NOT NULL",
            _any(f"{waiting} 'event'"),
            _any(f"{waiting} 'child' AND {_any(child)}"),
            _any(f"{waiting} 'map' AND {_any(item)}"),
        )
    )
    return f"""
        SELECT id, problem FROM (
            SELECT r.id AS id, CASE
                WHEN r.cancel_requested_at <= {settled} THEN 'waiting although it is to be cancelled'
                WHEN {_any(f"{waiting} 'event' AND {_any(came)}")} THEN 'waiting although its event has come'
                WHEN {_any(f"{waiting} 'child' AND {is_over}")} THEN 'waiting although its child is over'
                WHEN {_any(f"{waiting} 'map' AND {are_few}")}
                    THEN 'waiting although enough children of its map are over'
                WHEN NOT ({can_wake}) THEN 'waiting for nothing that could wake it'
                WHEN r.waiting_on <> 'retry:run' AND {_none(f"{entry} IN ('waiting', 'retrying')")}
                    THEN 'waiting, and its journal does not say what for'
                END AS problem
            FROM django_durable_run r
            WHERE {_in_window("r.id")} AND r.status = 'waiting' AND coalesce(r.queued_at, r.created_at) <= {settled}
            ) AS looked_at
        WHERE problem IS NOT NULL ORDER BY id LIMIT %(limit)s"""


def _ownerless(table: str) -> str:
    return f"""
        SELECT DISTINCT b.run_id, 'rows in {table}, and no such run' FROM {table} b
        WHERE {_in_window("b.run_id")} AND {_none("SELECT 1 FROM django_durable_run r WHERE r.id = b.run_id")}"""


def orphans(d: Dialect) -> str:
    """Rows that belong to runs which do not exist: retention takes them along with the run."""
    tables = ("journalentry", "payload", "event", "tag", "audit", "claimrecord", "logline")
    found = " UNION ALL ".join(_ownerless(f"django_durable_{table}") for table in tables)
    return f"{found} ORDER BY 1, 2 LIMIT %(limit)s"
