"""Windows of ids, and the words that most of the queries share."""

from __future__ import annotations

SLACK = "1.0"
"""Seconds."""


def window_end(table: str) -> str:
    """The id that closes a window of ``beyond`` + 1 rows after ``after``; no row where there are fewer."""
    return f"SELECT id FROM {table} WHERE id > %(after)s ORDER BY id LIMIT 1 OFFSET %(beyond)s"


def count_rest(table: str) -> str:
    """How many rows come after ``after``: for the last window, in which there are fewer than in the others."""
    return f"SELECT count(*) FROM {table} WHERE id > %(after)s"


def in_window(column: str) -> str:
    return f"{column} > %(after)s AND {column} <= %(until)s"


def is_some(rows: str) -> str:
    # Not EXISTS: PostgreSQL may answer that from a hash of the whole other table, anew for each window.
    return f"({rows} LIMIT 1) IS NOT NULL"


def is_none(rows: str) -> str:
    return f"({rows} LIMIT 1) IS NULL"


def judged(columns: str, problems: str, source: str, *, order: str = "id") -> str:
    """The rows of ``source`` for which one of the ``problems`` (the WHENs of a CASE) is the case, with that.

    ``columns`` has the run as ``run_id``, and as ``id`` what puts the rows in order.
    """
    return f"""
        SELECT run_id, problem FROM (
            SELECT {columns}, CASE {problems} END AS problem FROM {source}) AS looked_at
        WHERE problem IS NOT NULL ORDER BY {order} LIMIT %(limit)s"""


def judged_runs(problems: str) -> str:
    """As ``judged``, of the runs ``r`` of a window."""
    return judged("r.id AS id, r.id AS run_id", problems, f"django_durable_run r WHERE {in_window('r.id')}")
