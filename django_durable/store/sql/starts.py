"""Runs come into being."""

from __future__ import annotations

from collections.abc import Callable, Collection

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
    """One row a run of ``source``. Queued, or scheduled where its time has not come by the database's clock."""
    begins = f"coalesce(n.run_at, {d.later('n.run_after')})"
    values = _values(d, "n.{}".format, begins, f"{begins} > {d.now}")
    return f"INSERT INTO django_durable_run ({', '.join(values)}) SELECT {', '.join(values.values())} FROM {source}"


def insert_run(d: Dialect, given: Collection[str]) -> str:
    """One run. Its columns are the parameters ``given``, each of the same name; what is not given is NULL: for a single
    run half the cost of a source, and what is not asked costs nothing."""

    def column(name: str) -> str:
        return d.typed(name, NEW_RUN[name]) if name in given else "NULL"

    at, after = "run_at" in given, "run_after" in given
    begins = column("run_at") if at else d.later(column("run_after")) if after else None
    values = _values(d, column, begins or "NULL", f"{begins} > {d.now}" if begins else None)
    return f"INSERT INTO django_durable_run ({', '.join(values)}) VALUES ({', '.join(values.values())})"


def _values(d: Dialect, column: Callable[[str], str], begins: str, is_later: str | None) -> dict[str, str]:
    """The columns of a new run and their values. ``is_later``: whether it ``begins`` later; None: it does not."""

    def by_time(later: str, now: str) -> str:
        return now if is_later is None else f"CASE WHEN {is_later} THEN {later} ELSE {now} END"

    # A run that starts later has its whole time from then on.
    ends = d.after(f"({by_time(begins, d.now)})", column("deadline_after"))
    return {
        "id": column("id"),
        "workflow": column("workflow"),
        "queue": column("queue"),
        "priority": column("priority"),
        "max_attempts": column("max_attempts"),
        "status": by_time("'scheduled'", "'queued'"),
        "phase": "'forward'",
        "attempt": "1",
        "claims": "0",
        "crashes": "0",
        "suspect": FALSE,
        "block_reason": "''",
        "fingerprint": "''",
        "waiting_on": "''",
        "created_at": d.now,
        "queued_at": by_time("NULL", d.now),
        "wake_at": by_time(begins, "NULL"),
        "deadline_at": d.least(column("deadline_at"), ends),
        "timeout": column("deadline_after"),
        "parent_id": column("parent_id"),
        "parent_path": f"coalesce({column('parent_path')}, '')",
        "root_id": f"coalesce({column('root_id')}, {column('id')})",
        "detached": f"coalesce({column('detached')}, {FALSE})",
        "limit_key": column("limit_key"),
    }


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


def insert_input() -> str:
    return "INSERT INTO django_durable_payload (run_id, kind, data) VALUES (%(id)s, 'input', %(input)s)"


def insert_tags(d: Dialect) -> str:
    source = d.recordset("tags", "t", NEW_TAG)
    return f"INSERT INTO django_durable_tag (run_id, name) SELECT t.run_id, t.name FROM {source}"


def start_run(d: Dialect, given: Collection[str]) -> list[str]:
    """The statements that insert one run, as ``insert_run`` says, with its input: one where the database can."""
    return _both(d, insert_run(d, given), insert_input())


def start_runs(d: Dialect) -> list[str]:
    """Likewise of several: the parameter ``runs`` has a row for each."""
    source = d.recordset("runs", "n", NEW_RUN)
    return _both(d, insert_runs(d, source), insert_inputs(source))


def _both(d: Dialect, runs: str, inputs: str) -> list[str]:
    # No constraint ties the two, so the order in which the parts run does not matter.
    return [f"WITH started AS ({runs}) {inputs}"] if d.has_writing_ctes else [runs, inputs]
