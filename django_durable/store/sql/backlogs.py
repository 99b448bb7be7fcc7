"""What is live of each workflow. No index has the workflow first, and none is worth its writes for a page that people
look at now and then: so the first ``most`` rows of each partial index are counted, in its order."""

from __future__ import annotations

from ..dialects import Dialect
from .lines import ASLEEP, QUEUED
from .standing import LIMITED, is_awaited

PARTS = {
    "ready": (QUEUED, "r.queue, r.priority DESC, r.queued_at"),
    "limited": (LIMITED, "r.limit_key, r.priority DESC, r.queued_at"),
    "running": ("r.status = 'running'", "r.leased_by"),
    "asleep": (ASLEEP, "r.queue, r.priority DESC, r.wake_at"),
    "paused": ("r.status = 'paused'", "r.id DESC"),
    "blocked": ("r.status = 'blocked'", "r.id DESC"),
}


def backlogs(d: Dialect) -> str:
    """Rows of which part, which workflow, in which status, how many."""
    awaited = f"r.status = 'waiting' AND ({is_awaited(d)}) AND r.wake_at IS NULL"
    parts = {**PARTS, "awaiting": (awaited, "r.id")}
    return " UNION ALL ".join(
        f"""SELECT '{name}' AS part, r.workflow, r.status, count(*) FROM (
                SELECT r.workflow, r.status FROM django_durable_run r
                WHERE {where} ORDER BY {order} LIMIT %(most)s) AS r
            GROUP BY r.workflow, r.status"""
        for name, (where, order) in parts.items()
    )
