"""The engine's own connections execute with one cursor, for as long as that changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import DataError, OperationalError, connection
from django.db.backends.postgresql.base import DatabaseWrapper
from django.test.utils import CaptureQueriesContext

from django_durable.store.database import PrivateDatabase
from django_durable.store.kept_cursor import MUCH
from tests.store.conftest import Connect

pytestmark = pytest.mark.django_db(transaction=True)

MANY = "SELECT generate_series(1, 3)"
TYPELESS = "SELECT pg_typeof(x)::text, x FROM (VALUES (%(value)s), (NULL)) AS v (x) LIMIT 1"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A connection for each cursor that was made from now on."""
    found: list[Any] = []
    usual: Any = psycopg.Connection.cursor

    def cursor(self: Any, *given: Any, **more: Any) -> Any:
        found.append(self)
        return usual(self, *given, **more)

    # Not of Django's wrapper: who puts his own there has one made each time.
    monkeypatch.setattr(psycopg.Connection, "cursor", cursor)
    return found


def ask(db: PrivateDatabase, number: int = 1) -> int:
    [(found,)] = db.rows("SELECT %(number)s::integer + 1", number=number)
    return int(found)


def test_one_cursor_is_made_for_all(db: PrivateDatabase, made: list[Any]) -> None:
    ask(db)
    made.clear()
    assert [ask(db, number) for number in range(5)] == [1, 2, 3, 4, 5]
    assert db.rows("SELECT 1 WHERE false") == []
    assert db.rows("SELECT 'a', NULL, ARRAY[1, 2]") == [("a", None, [1, 2])]
    assert db.rows("SET statement_timeout = 0") == []
    assert made == []


def test_inside_a_transaction_too(db: PrivateDatabase, made: list[Any]) -> None:
    ask(db)
    made.clear()
    with db.transaction():
        assert [ask(db), ask(db, 2)] == [2, 3]
    assert len(made) == 1  # of BEGIN and COMMIT


@pytest.mark.parametrize(
    ("sql", "given", "is_held"),
    [
        ("SELECT %(text)s::text", "x", True),
        (MANY, "x", False),
        ("SELECT length(%(text)s::text)", "x" * 2 * MUCH, False),
        ("SELECT repeat(%(text)s::text, 20000)", "x", False),
    ],
    ids=["little", "rows", "parameters", "values"],
)
def test_what_was_much_is_not_held_on_to(
    db: PrivateDatabase, made: list[Any], sql: str, given: str, is_held: bool
) -> None:
    assert db.rows(sql, **({"text": given} if sql != MANY else {}))
    made.clear()
    ask(db)
    assert (made == []) is is_held


def test_one_statement_takes_values_of_any_types_one_after_the_other(db: PrivateDatabase, connect: Connect) -> None:
    """What it has learned of the types of the last ones is not taken for those of the next ones."""
    values = [
        1,
        2**40,
        2**70,
        1.5,
        None,
        "text",
        True,
        UUID(int=7),
        datetime(2026, 7, 1, tzinfo=UTC),
        [1, 2],
        Decimal("1.10"),
    ]
    other = connect()
    for value in [*values, *reversed(values)]:
        [found] = db.rows(TYPELESS, value=value)
        with other.connection.cursor() as fresh:
            fresh.execute(TYPELESS, {"value": value})
            assert fresh.fetchone() == found


def test_threads_hand_it_on(db: PrivateDatabase) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda number: ask(db, number), range(200))) == list(range(1, 201))


def test_it_goes_on_after_an_error(db: PrivateDatabase) -> None:
    ask(db)
    for _ in range(2):
        with pytest.raises(DataError):
            db.rows("SELECT 1 / %(zero)s::integer", zero=0)
        assert ask(db) == 2


def test_it_goes_on_after_an_error_in_a_transaction(db: PrivateDatabase) -> None:
    ask(db)
    with pytest.raises(DataError), db.transaction():
        db.rows("SELECT 1 / %(zero)s::integer", zero=0)
    assert ask(db) == 2


def test_a_connection_that_is_closed_is_made_anew(db: PrivateDatabase) -> None:
    [(before,)] = db.rows("SELECT pg_backend_pid()")
    db.close()
    [(after,)] = db.rows("SELECT pg_backend_pid()")
    assert before != after


def test_a_connection_that_was_lost_is_made_anew_once_it_is_closed(db: PrivateDatabase) -> None:
    [(lost,)] = db.rows("SELECT pg_backend_pid()")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [lost])
    with pytest.raises(OperationalError):
        ask(db)
    db.close()
    assert ask(db) == 2


def test_a_wrapper_that_is_closed_by_itself_is_connected_again(db: PrivateDatabase) -> None:
    ask(db)
    db.connection.close()
    assert ask(db) == 2


def test_what_a_backend_does_with_each_cursor_it_does_for_each_statement(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that chooses the tenant's schema there."""
    ask(db)
    heard: list[str] = []
    cursor = DatabaseWrapper._cursor  # type: ignore[attr-defined]

    def choosing(self: DatabaseWrapper, *given: Any) -> Any:
        heard.append("cursor")
        return cursor(self, *given)

    monkeypatch.setattr(DatabaseWrapper, "_cursor", choosing)
    assert [ask(db), ask(db, 2)] == [2, 3]
    assert len(heard) == 2


def test_wrappers_hear_of_each(db: PrivateDatabase) -> None:
    heard: list[str] = []

    def hear(execute: Any, sql: str, *given: Any) -> Any:
        heard.append(sql)
        return execute(sql, *given)

    ask(db)
    with db.connection.execute_wrapper(hear):
        ask(db)
        ask(db)
    assert len(heard) == 2


def test_a_log_of_queries_has_each(db: PrivateDatabase) -> None:
    ask(db)
    with CaptureQueriesContext(db.connection) as queries:  # type: ignore[arg-type]
        ask(db)
        ask(db, 2)
    assert len(queries) == 2
    assert ask(db) == 2
