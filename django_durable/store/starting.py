"""Runs come into being, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..conf import durable_settings
from ..core.clock import utcnow
from ..core.journal.journal import NewRun
from ..queues.ready import Ready
from .database import Database, as_json
from .dialects import Dialect
from .sql import starts
from .statements import Typed


def run_row(d: Dialect, run: NewRun) -> dict[str, Any]:
    """The columns of ``starts.NEW_RUN`` for one run; None stands for what most runs have."""
    return {
        "id": d.key(run.id),
        "workflow": run.workflow,
        "queue": run.queue,
        "priority": run.priority,
        "max_attempts": run.max_attempts,
        "run_at": d.instant(run.run_at),
        "run_after": run.run_after,
        "deadline_at": d.instant(run.deadline_at),
        "deadline_after": run.deadline_after,
        "parent_id": d.key(run.parent_id),
        "parent_path": run.parent_path or None,
        "root_id": d.key(run.root_id),
        "detached": run.detached or None,
        "limit_key": run.limit_key,
        "input": run.input,
    }


def start_runs(db: Database, runs: Sequence[NewRun]) -> list[Ready]:
    """Insert the runs with their inputs and tags; those that workers should hear of now (the others start later)."""
    d = db.dialect
    statements, parameters = _insert(d, [run_row(d, run) for run in runs])
    tags = [{"run_id": d.key(run.id), "name": tag} for run in runs for tag in run.tags]
    if len(statements) == 1 and not tags:
        db.insert(statements[0], **parameters)
    else:
        with db.transaction():
            for statement in statements:
                db.insert(statement, **parameters)
            if tags:
                db.rows(starts.insert_tags(d), tags=as_json(tags))
    return [Ready(run.id, run.queue, run.priority, run.limit_key) for run in runs if is_soon(_delay(run))]


def _insert(d: Dialect, rows: list[dict[str, Any]]) -> tuple[list[Typed], dict[str, Any]]:
    """The statements, and their parameters."""
    if len(rows) > 1:
        return starts.start_runs(d), {"runs": as_json(rows)}
    given = {name: value for name, value in rows[0].items() if value is not None}
    return starts.start_run(d, given), given


def is_soon(seconds: float) -> bool:
    """Whether workers should hear of a run that comes due in ``seconds``: before a sweep would find it.

    By the machine's clock, which may be wrong: this decides about hints only, the statement about everything else.
    """
    return seconds <= durable_settings().REAP_SECONDS


def _delay(run: NewRun) -> float:
    return (run.run_at - utcnow()).total_seconds() if run.run_at is not None else run.run_after or 0.0
