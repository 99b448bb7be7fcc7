"""The order and the names in a journal."""

from __future__ import annotations

from ...dialects import Dialect
from .windows import in_window


def sequence(d: Dialect) -> str:
    """I6: the journal's sequence strictly grows in a run: it begins above zero and no number comes twice."""
    return f"""
        SELECT j.run_id, 'journal number ' || j.seq || CASE WHEN count(*) > 1
            THEN ' stands ' || count(*) || ' times' ELSE ' is not above zero' END
        FROM django_durable_journalentry j WHERE {in_window("j.run_id")}
        GROUP BY j.run_id, j.seq HAVING count(*) > 1 OR j.seq < 1
        ORDER BY j.run_id, j.seq LIMIT %(limit)s"""


def paths(d: Dialect) -> str:
    """I8, first half: (run, path) is unique in the journal."""
    return f"""
        SELECT j.run_id, count(*) || ' journal entries at ' || j.path
        FROM django_durable_journalentry j WHERE {in_window("j.run_id")}
        GROUP BY j.run_id, j.path HAVING count(*) > 1
        ORDER BY j.run_id, j.path LIMIT %(limit)s"""
