"""Startable runs in order, out of an index: queue by queue, or line by line. A line is a queue and a priority.

An index gives the runs of *one* queue by priority and age, and those of *one* line by time alone. Asked for several at
once, a database sorts the whole backlog before LIMIT can end it (PostgreSQL 18, 100,000 queued: 50 to 120 ms a claim,
against 1). So a statement asks for the first runs of each, and sorts only these.
"""

from __future__ import annotations

from ..dialects import Dialect

# The conditions of the indexes durable_run_ready and durable_run_due. What has a limit is claimed elsewhere.
FREE = "r.limit_key IS NULL"
QUEUED = f"r.status = 'queued' AND {FREE}"
ASLEEP = "r.status IN ('scheduled', 'waiting') AND r.wake_at IS NOT NULL"


def claimable(d: Dialect) -> str:
    return f"r.workflow {d.among('workflows')} AND NOT r.suspect"


def queues_of(name: str, condition: str) -> str:
    """A recursive CTE of every queue that has such runs: each is one look into the index, however many runs it has.

    It ends with a row of NULL, in which nothing is found.
    """
    first = f"SELECT min(r.queue) FROM django_durable_run r WHERE {condition}"
    return f"""
        {name} (name) AS (
            {first}
            UNION ALL
            SELECT ({first} AND r.queue > q.name) FROM {name} q WHERE q.name IS NOT NULL)"""


def lines(name: str, queues: str, condition: str) -> str:
    """A recursive CTE of the lines of these queues that have such runs, likewise. ``queues``: a table of names."""
    top = f"SELECT max(r.priority) FROM django_durable_run r WHERE {condition} AND r.queue ="
    return f"""
        {name} (queue, priority) AS (
            SELECT q.name, ({top} q.name) FROM {queues}
            UNION ALL
            SELECT l.queue, ({top} l.queue AND r.priority < l.priority) FROM {name} l WHERE l.priority IS NOT NULL)"""


def first_of_queues(d: Dialect, condition: str, order: str) -> str:
    """The first such runs ``r`` of each of the claimant's queues, locked."""
    where = f"{condition} AND r.queue = q.name AND {claimable(d)}"
    return f"{d.names('queues', 'q')} {d.first_runs(where, order)}"


def first_of_lines(d: Dialect, lines: str, condition: str, order: str) -> str:
    """The first such runs ``r`` of each line, locked."""
    return f"{lines} AS l {d.first_runs(f'{condition} AND r.queue = l.queue AND r.priority = l.priority', order)}"
