"""Worker processes: one row each, beating while it lives."""

from __future__ import annotations

from ..dialects import Dialect
from .holds import held


def register(d: Dialect) -> str:
    """May be sent again where the answer got lost."""
    return f"""
        INSERT INTO django_durable_worker (
            id, host, pid, queues, workflows, concurrency, is_isolated, version, started_at, heartbeat_at)
        VALUES (%(id)s, %(host)s, %(pid)s, %(queues)s, %(workflows)s, %(concurrency)s, %(is_isolated)s, %(version)s,
            {d.now}, {d.now}) ON CONFLICT (id) DO NOTHING"""


def beat(d: Dialect) -> str:
    """It brings what is held along: an idle worker asks for nothing else as often."""
    return f"""
        UPDATE django_durable_worker SET heartbeat_at = {d.now}, stopped_at = NULL WHERE id = %(id)s
        RETURNING {held(d)}"""


def stop(d: Dialect) -> str:
    return f"UPDATE django_durable_worker SET stopped_at = {d.now} WHERE id = %(id)s AND stopped_at IS NULL"


def known_workflows(d: Dialect) -> str:
    """What the live workers know; ``silence`` is seconds without a beat. Those too that have just stopped: as a rule
    others take their places."""
    return f"""
        SELECT workflows FROM django_durable_worker
        WHERE coalesce(stopped_at, heartbeat_at) > {d.later("-(%(silence)s)")}"""


def count_suspects(d: Dialect) -> str:
    """Of those that ``claim_suspect`` would take: a process for any other would find nothing to do."""
    return f"""
        SELECT count(*) FROM (
            SELECT 1 FROM django_durable_run
            WHERE status = 'queued' AND suspect AND queue {d.among("queues")} AND workflow {d.among("workflows")}
            LIMIT %(limit)s) AS found"""


def count_busy(d: Dialect) -> str:
    return f"""
        SELECT count(DISTINCT r.leased_by) FROM django_durable_run r
        WHERE r.status = 'running' AND r.leased_by {d.among("workers")}"""


def startable(d: Dialect) -> str:
    """Those of ``ids`` that are queued, best first, and those that come due ``within`` seconds."""
    is_due_soon = f"status IN ('scheduled', 'waiting') AND wake_at <= {d.later('%(within)s')}"
    return f"""
        SELECT id, queue, priority, limit_key FROM django_durable_run
        WHERE id {d.among_ids("ids")} AND (status = 'queued' OR {is_due_soon}) AND NOT suspect
        ORDER BY priority DESC, queued_at"""


def window(d: Dialect) -> str:
    """The first startable runs of a queue, for refilling its list. What has a limit enters it when that has room."""
    return f"""
        SELECT id, queue, priority FROM django_durable_run
        WHERE status = 'queued' AND limit_key IS NULL AND NOT suspect AND queue = %(queue)s
            AND NOT workflow {d.among("without")}
        ORDER BY priority DESC, queued_at LIMIT %(limit)s"""
