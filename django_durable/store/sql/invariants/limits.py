"""Runs that are limited."""

from __future__ import annotations

from ...dialects import Dialect

MAXIMUM = {"workflow": "text", "maximum": "integer"}


def leased(d: Dialect) -> str:
    """I19: no more runs of a limit key are leased than its limit, as the code of this process says it (``limits``).

    One statement, without windows: the leases are as many as all workers have slots. The key is not told, which
    workflows make of their input.
    """
    first = """SELECT x.id FROM django_durable_run x
        WHERE x.status = 'running' AND x.limit_key = c.limit_key ORDER BY x.id LIMIT 1"""
    return f"""
        SELECT ({first}), c.leased || ' runs of its limit are worked on, and it lets ' || c.maximum
        FROM (
            SELECT r.limit_key, count(*) AS leased, count(m.maximum) AS limited, max(m.maximum) AS maximum
            FROM django_durable_run r LEFT JOIN {d.recordset("limits", "m", MAXIMUM)} ON m.workflow = r.workflow
            WHERE r.status = 'running' AND r.limit_key IS NOT NULL GROUP BY r.limit_key) AS c
        WHERE c.limited = c.leased AND c.leased > c.maximum ORDER BY 1 LIMIT %(limit)s"""


def count_leased() -> str:
    return "SELECT count(*) FROM django_durable_run r WHERE r.status = 'running' AND r.limit_key IS NOT NULL"
