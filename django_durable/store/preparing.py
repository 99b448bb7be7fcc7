"""Prepared statements on the connections that Django makes, whose cursors write each value into the statement."""

from __future__ import annotations

import sys
from typing import Any

import psycopg
from django.db.backends.postgresql import base

USUAL: Any = base.Cursor
MOST_KEPT = 8
"""How many statements a connection has prepared at most: starts differ in what is asked of a run."""


class PreparingCursor(psycopg.Cursor[Any]):
    """Hands its parameters to the server, and prepares what it executes."""

    def execute(self, query: Any, params: Any = None, **_: Any) -> Any:
        return super().execute(query, params, prepare=True)


def let_prepare(cursor: Any) -> None:
    """Let ``cursor``, as ``connection.cursor()`` gave it, execute what comes next as a prepared statement.

    What Django does around a statement stays as it is: wrappers, the checks of threads and transactions. Left alone
    are a cursor that is not Django's usual one, since somebody has chosen it; where queries are logged, which shows
    them with their values; and the first of a connection: many live for one request that starts one run.
    """
    if type(cursor.cursor) is not USUAL or cursor.db.queries_logged:
        return
    connection = cursor.cursor.connection
    if connection.prepare_threshold is None:
        # So psycopg prepares nothing by itself, but hears what makes it forget: a DISCARD ALL, a rollback. To count
        # how often each statement comes it keeps as many texts as statements.
        connection.prepare_threshold, connection.prepared_max = sys.maxsize, MOST_KEPT
    else:
        cursor.cursor.close()
        cursor.cursor = PreparingCursor(connection)
