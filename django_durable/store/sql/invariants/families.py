"""Parents, children, and what belongs to a run."""

from __future__ import annotations

from ...dialects import Dialect
from ..endings import TERMINAL
from ..pruning import BELONGINGS
from .windows import in_window, is_none, is_some, judged_runs

LIVE_CHILD = f"r.parent_id IS NOT NULL AND NOT r.detached AND r.status NOT IN {TERMINAL}"


def parents(d: Dialect) -> str:
    """I18, first half: the parent of a live, attached child exists (retention keeps such trees whole)."""
    parent = "SELECT 1 FROM django_durable_run p WHERE p.id = r.parent_id"
    return judged_runs(f"WHEN {LIVE_CHILD} AND {is_none(parent)} THEN r.status || ', and its parent does not exist'")


def cancelled_parents(d: Dialect) -> str:
    """I18, second half: a parent that ended cancelled a sweep ago has no live, attached child that was not asked to
    stop, unless a person has resumed it since."""
    settled = d.later("-(%(settled)s)")
    parent = f"""SELECT 1 FROM django_durable_run p
        WHERE p.id = r.parent_id AND p.status = 'cancelled' AND p.finished_at <= {settled}"""
    resumed = "SELECT 1 FROM django_durable_audit a WHERE a.run_id = r.id AND a.verb = 'resume'"
    return judged_runs(f"""
        WHEN {LIVE_CHILD} AND r.cancel_requested_at IS NULL AND {is_some(parent)} AND {is_none(resumed)}
            THEN r.status || ', although its parent was cancelled'""")


def orphans(d: Dialect) -> str:
    """Rows that belong to runs which do not exist: retention takes them along with the run."""
    found = " UNION ALL ".join(_ownerless(f"django_durable_{table}") for table in BELONGINGS)
    return f"{found} ORDER BY 1, 2 LIMIT %(limit)s"


def _ownerless(table: str) -> str:
    return f"""
        SELECT DISTINCT b.run_id, 'rows in {table}, and no such run' FROM {table} b
        WHERE {in_window("b.run_id")} AND {is_none("SELECT 1 FROM django_durable_run r WHERE r.id = b.run_id")}"""
