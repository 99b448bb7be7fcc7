"""Statements on the connections that Django makes, one for each thread, without what a cursor does for any of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from django.db.backends import utils
from django.db.backends.postgresql import base
from psycopg import Connection
from psycopg.pq import PipelineStatus, TransactionStatus

from ..conf import durable_settings
from .preparing import MOST_KEPT, makes_usual_cursors
from .statements import Typed
from .typed_statements import Row, TypedStatements

USUAL: Any = base.Cursor
WRAPPER: Any = utils.CursorWrapper
OF_STATEMENTS = ("execute", "_execute_with_wrappers", "_execute")
METHODS = tuple((name, getattr(WRAPPER, name)) for name in OF_STATEMENTS)
IS_DJANGOS = all(isinstance(one, FunctionType) and one.__code__.co_filename == utils.__file__ for _, one in METHODS)
"""Whether nobody had put his own in their place before we were imported."""


def typed_rows(connection: Any, sql: Typed, parameters: Mapping[str, Any]) -> list[Row] | None:
    """What the statement returns, outside of any transaction. None where it has to go through a cursor: somebody wants
    to hear of it, or it is a part of something.

    In a transaction a statement that the server has forgotten, as it does where psycopg's are forgotten, would take
    along what the caller has done.
    """
    if connection.in_atomic_block or is_heard(connection):
        return None
    # As ``connection.cursor()`` does it.
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    connection.validate_thread_sharing()
    driver = connection.connection
    # Not of a kind of its own, nor behind a proxy: tools for traces and pools make such.
    if type(driver) is not Connection or driver.cursor_factory is not USUAL:
        return None
    with connection.wrap_database_errors, driver.lock:
        return _of(driver).rows(driver, sql, parameters) if _is_free(driver) else None


def is_heard(connection: Any) -> bool:
    """Whether anything but Django has to do with each statement, or with each cursor."""
    return bool(
        connection.execute_wrappers
        or connection.queries_logged
        or not makes_usual_cursors(connection)
        or not _executes_as_usual()
    )


def _executes_as_usual() -> bool:
    if not IS_DJANGOS or utils.CursorWrapper is not WRAPPER:
        return False
    for name, usual in METHODS:  # noqa: SIM110  (of every statement: a third of the cost of all() of a generator)
        if getattr(WRAPPER, name) is not usual:
            return False
    return True


def _is_free(driver: Any) -> bool:
    pgconn = driver.pgconn
    return bool(
        driver.autocommit
        and pgconn.transaction_status == TransactionStatus.IDLE
        and pgconn.pipeline_status == PipelineStatus.OFF
        # We write no other, and Django asks for none.
        and pgconn.parameter_status(b"client_encoding") == b"UTF8"
    )


def _of(driver: Any) -> TypedStatements:
    """They stay with the driver, which a pool gives to one thread after the other."""
    found: TypedStatements | None = getattr(driver, "durable_statements", None)
    if found is None:
        found = TypedStatements(prepares=durable_settings().PREPARED_STATEMENTS, most=MOST_KEPT)
        driver.durable_statements = found
    return found
