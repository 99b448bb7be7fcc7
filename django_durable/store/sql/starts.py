"""Runs come into being."""

from __future__ import annotations

from ..dialects import Dialect

NEW_RUN = {
    "id": "uuid",
    "workflow": "text",
    "queue": "text",
    "priority": "smallint",
    "max_attempts": "smallint",
    "run_at": "timestamptz",
    "run_after": "double precision",
    "deadline_at": "timestamptz",
    "deadline_after": "double precision",
    "parent_id": "uuid",
    "parent_path": "text",
    "root_id": "uuid",
    "detached": "boolean",
    "limit_key": "text",
    "input": "text",
}
NEW_TAG = {"run_id": "uuid", "name": "text"}


def insert_runs(d: Dialect, source: str) -> str:
    """One row a run. Queued, or scheduled where its time has not come by the database's clock."""
    begins = f"coalesce(n.run_at, {d.later('n.run_after')})"
    is_later = f"{begins} > {d.now}"
    # A run that starts later has its whole time from then on.
    start = f"(CASE WHEN {is_later} THEN {begins} ELSE {d.now} END)"
    deadline = d.least("n.deadline_at", d.after(start, "n.deadline_after"))
    return f"""
        INSERT INTO django_durable_run (
            id, workflow, queue, priority, max_attempts, status, phase, attempt, claims, crashes, suspect,
            block_reason, fingerprint, waiting_on, created_at, queued_at, wake_at, deadline_at, timeout,
            parent_id, parent_path, root_id, detached, limit_key)
        SELECT n.id, n.workflow, n.queue, n.priority, n.max_attempts,
            CASE WHEN {is_later} THEN 'scheduled' ELSE 'queued' END, 'forward', 1, 0, 0, {FALSE},
            '', '', '', {d.now}, CASE WHEN {is_later} THEN NULL ELSE {d.now} END,
            CASE WHEN {is_later} THEN {begins} END, {deadline}, n.deadline_after,
            n.parent_id, n.parent_path, n.root_id, n.detached, n.limit_key
        FROM {source}
        """


def lock_starts(d: Dialect) -> str:
    """Make or lock a row for each of ``keys``, in their order: whoever does the same waits for our transaction."""
    # One statement, because a row that is pruned between an INSERT and a SELECT … FOR UPDATE would lock nothing.
    return f"""
        INSERT INTO django_durable_limit (key, admitted_at)
        SELECT k.name, {d.now} FROM {d.names("keys", "k")} WHERE 1 = 1 ORDER BY k.name
        ON CONFLICT (key) DO UPDATE SET admitted_at = excluded.admitted_at"""


def put_off(d: Dialect) -> str:
    """The run ``found``, which was scheduled, begins when this one would, and with its options. No row: it is scheduled
    no more, since a worker took it up meanwhile, or somebody cancelled it."""
    return f"""
        UPDATE django_durable_run AS r
        SET wake_at = {d.later("n.run_after")}, queue = n.queue, priority = n.priority,
            max_attempts = n.max_attempts, timeout = n.deadline_after,
            deadline_at = {d.after(d.later("n.run_after"), "n.deadline_after")}
        FROM {d.record("n", NEW_RUN)}
        WHERE r.id = %(found)s AND r.status = 'scheduled'
        RETURNING {d.updated}.id"""


FALSE = "(1 = 0)"


def insert_inputs(source: str) -> str:
    return f"INSERT INTO django_durable_payload (run_id, kind, data) SELECT n.id, 'input', n.input FROM {source}"


def insert_tags(d: Dialect) -> str:
    source = d.recordset("tags", "t", NEW_TAG)
    return f"INSERT INTO django_durable_tag (run_id, name) SELECT t.run_id, t.name FROM {source}"


def start_runs(d: Dialect, *, is_single: bool) -> list[str]:
    """The statements that insert runs with their inputs: one where the database can.

    ``is_single``: the run's columns are the parameters themselves; else parameter ``runs`` has a row for each.
    """
    source = d.record("n", NEW_RUN) if is_single else d.recordset("runs", "n", NEW_RUN)
    if d.has_writing_ctes:
        # No constraint ties the two, so the order in which the parts run does not matter.
        return [f"WITH started AS ({insert_runs(d, source)}) {insert_inputs(source)}"]
    return [insert_runs(d, source), insert_inputs(source)]
