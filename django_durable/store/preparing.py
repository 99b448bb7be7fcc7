"""Prepared statements through the cursors of connections that Django makes, which write each value into the statement:
in transactions, and where somebody listens; and whether somebody has put his own in the place of those cursors."""

from __future__ import annotations

import sys
import threading
from typing import Any

import psycopg
from django.db.backends.postgresql import base

USUAL: Any = base.Cursor
OF_CURSORS = ("cursor", "_cursor", "_prepare_cursor", "create_cursor", "make_cursor")
METHODS = tuple((name, getattr(base.DatabaseWrapper, name)) for name in OF_CURSORS)
MOST_KEPT = 8
"""How many statements a connection has prepared at most: starts differ in what is asked of a run."""


class PreparingCursor(psycopg.Cursor[Any]):
    """Hands its parameters to the server, and prepares what it executes."""

    def execute(self, query: Any, params: Any = None, **_: Any) -> Any:
        return super().execute(query, params, prepare=True)


class _Kept(threading.local):
    """The last cursor that was kept for this thread, and what it belongs to. It goes with its thread, as Django's
    connections do."""

    connection: Any = None
    driver: Any = None
    cursor: Any = None


_kept = _Kept()


def _preparing_cursor(connection: Any) -> Any:
    """What ``connection.cursor()`` gives, of which each statement is executed as a prepared one.

    What Django does around a statement stays as it is: wrappers, the checks of threads and transactions. Left alone
    are a cursor that is not Django's usual one, since somebody has chosen it; where queries are logged, which shows
    them with their values; and the first of a connection: many live for one request that starts one run.
    """
    cursor = connection.cursor()
    if type(cursor.cursor) is not USUAL or connection.queries_logged:
        return cursor
    driver = cursor.cursor.connection
    if driver.prepare_threshold is None:
        # So psycopg prepares nothing by itself, but hears what makes it forget: a DISCARD ALL, a rollback. To count
        # how often each statement comes it keeps as many texts as statements.
        driver.prepare_threshold, driver.prepared_max = sys.maxsize, MOST_KEPT
    else:
        cursor.cursor.close()
        cursor.cursor = PreparingCursor(driver)
    return cursor


def cursor_of_thread(connection: Any) -> Any:
    """The same, kept and not closed by who uses it, for statements that return nothing: a cursor holds its last result.

    To make one, and to learn anew how each type is written, took a fifteenth of a start.
    """
    if not makes_usual_cursors(connection):
        return _preparing_cursor(connection)
    # As ``connection.cursor()`` does it.
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    driver = connection.connection
    if _kept.driver is driver and _kept.connection is connection and not connection.queries_logged:
        connection.validate_thread_sharing()
        return _kept.cursor
    cursor = _preparing_cursor(connection)
    if type(cursor.cursor) is PreparingCursor:
        _kept.connection, _kept.driver, _kept.cursor = connection, driver, cursor
    return cursor


def makes_usual_cursors(connection: Any) -> bool:
    """Whether nothing happens with each new cursor but what Django does: a backend that chooses the tenant's schema
    does it there, tests that forbid queries do, and who traces them may."""
    kind, own = type(connection), vars(connection)
    for name, usual in METHODS:  # noqa: SIM110  (of every statement: a third of the cost of all() of a generator)
        if getattr(kind, name, None) is not usual or name in own:
            return False
    return True
