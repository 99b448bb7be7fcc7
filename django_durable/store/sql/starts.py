"""Runs come into being."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from ..dialects import Dialect
from ..statements import Typed, typed

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


SAME = ("id", "workflow", "queue", "priority", "max_attempts", "parent_id", "limit_key")
"""Those of ``NEW_RUN`` that are columns as they are."""
FALSE = "false"


def insert_runs(d: Dialect, source: str) -> str:
    """One row a run of ``source``. Queued, or scheduled where its time has not come by the database's clock."""
    begins = f"coalesce(n.run_at, {d.later('n.run_after')})"
    values = {
        **{name: f"n.{name}" for name in SAME},
        **{name: f"coalesce(n.{name}, {usual})" for name, usual in _usual("n.id").items()},
        **_by_time(d, begins),
        "timeout": "n.deadline_after",
        "deadline_at": d.least("n.deadline_at", _ends(d, begins, "n.deadline_after")),
        **_new(d),
    }
    return f"INSERT INTO django_durable_run ({', '.join(values)}) SELECT {', '.join(values.values())} FROM {source}"


def insert_run(d: Dialect, given: Collection[str]) -> str:
    """One run. Its columns are the parameters ``given``, each of the same name; the others are NULL, or as most runs
    have them. For a single run half the cost of a source. What is not given is not named either, and what the column
    tells the type of has no other: PostgreSQL reads and plans each word."""
    typed = {name: d.typed(name, NEW_RUN[name]) for name in given}
    usual = _usual("%(id)s")
    begins = _begins(d, typed)
    values = {
        **usual,
        **{name: f"%({name})s" for name in given if name in SAME or name in usual},
        **({"status": "'queued'", "queued_at": d.now} if begins is None else _by_time(d, begins)),
        **_deadline(d, begins, typed),
        **_new(d),
    }
    return f"INSERT INTO django_durable_run ({', '.join(values)}) VALUES ({', '.join(values.values())})"


def _usual(run_id: str) -> dict[str, str]:
    """What stands where a start says nothing."""
    return {"parent_path": "''", "root_id": run_id, "detached": FALSE}


def _new(d: Dialect) -> dict[str, str]:
    """What every new run has."""
    return {
        "phase": "'forward'",
        "attempt": "1",
        "claims": "0",
        "crashes": "0",
        "suspect": FALSE,
        "block_reason": "''",
        "fingerprint": "''",
        "waiting_on": "''",
        "created_at": d.now,
    }


def _begins(d: Dialect, typed: dict[str, str]) -> str | None:
    """None: at once."""
    if "run_at" in typed:
        return typed["run_at"]
    return d.later(typed["run_after"]) if "run_after" in typed else None


def _by_time(d: Dialect, begins: str) -> dict[str, str]:
    """Scheduled where it ``begins`` later, else queued."""
    return {
        "status": _if_later(d, begins, "'scheduled'", "'queued'"),
        "queued_at": _if_later(d, begins, "NULL", d.now),
        "wake_at": _if_later(d, begins, begins, "NULL"),
    }


def _deadline(d: Dialect, begins: str | None, typed: dict[str, str]) -> dict[str, str]:
    """Its own time, that of its parent, or what ends first."""
    own, inherited = typed.get("deadline_after"), typed.get("deadline_at")
    if own is None:
        return {} if inherited is None else {"deadline_at": inherited}
    ends = _ends(d, begins, own)
    return {"timeout": own, "deadline_at": ends if inherited is None else d.least(inherited, ends)}


def _ends(d: Dialect, begins: str | None, seconds: str) -> str:
    # A run that starts later has its whole time from then on.
    return d.after(d.now if begins is None else f"({_if_later(d, begins, begins, d.now)})", seconds)


def _if_later(d: Dialect, begins: str, later: str, now: str) -> str:
    return f"CASE WHEN {begins} > {d.now} THEN {later} ELSE {now} END"


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


def insert_inputs(source: str) -> str:
    return f"INSERT INTO django_durable_payload (run_id, kind, data) SELECT n.id, 'input', n.input FROM {source}"


def insert_input() -> str:
    return "INSERT INTO django_durable_payload (run_id, kind, data) VALUES (%(id)s, 'input', %(input)s)"


def insert_tags(d: Dialect) -> str:
    source = d.recordset("tags", "t", NEW_TAG)
    return f"INSERT INTO django_durable_tag (run_id, name) SELECT t.run_id, t.name FROM {source}"


def start_run(d: Dialect, given: Collection[str]) -> list[Typed]:
    """The statements that insert one run, as ``insert_run`` says, with its input: one where the database can."""
    return _start_run(d, tuple(given), d.now)


@lru_cache(maxsize=64)
def _start_run(d: Dialect, given: tuple[str, ...], now: str) -> list[Typed]:
    """``now``: that of ``d``, which tests move."""
    return _both(d, insert_run(d, given), insert_input())


def start_runs(d: Dialect) -> list[Typed]:
    """Likewise of several: the parameter ``runs`` has a row for each."""
    source = d.recordset("runs", "n", NEW_RUN)
    return _both(d, insert_runs(d, source), insert_inputs(source))


def _both(d: Dialect, runs: str, inputs: str) -> list[Typed]:
    # No constraint ties the two, so the order in which the parts run does not matter.
    statements = [f"WITH started AS ({runs}) {inputs}"] if d.has_writing_ctes else [runs, inputs]
    return [typed(statement) for statement in statements]
