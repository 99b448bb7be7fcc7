"""A statement that says of which type its parameters are comes to the same as through a cursor."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import DataError, IntegrityError, NotSupportedError, OperationalError, connection
from django.db.utils import DatabaseError
from django.test import override_settings
from psycopg import capabilities

from django_durable.store.database import PrivateDatabase
from django_durable.store.statements import Typed
from django_durable.store.typed_statements import MOST, TypedStatements
from tests.processes import wait_until
from tests.store.conftest import Connect

pytestmark = pytest.mark.django_db(transaction=True)


class Colour(StrEnum):
    RED = "red"


TEXTS = ["", "text", "a 'quoted' \"path\" \\ %s %(x)s ü \u2028 \U0001f600", "{1,2}", "x" * 100_000, Colour.RED]
NUMBERS = [0, -1, 7, 2**31 - 1, -(2**63), 2**63 - 1]
FLOATS = [0.0, -1.5, 1e-07, 1e300, 0.1 + 0.2, float("inf"), float("-inf")]
ADD = Typed("SELECT %(number)s::bigint + 1")


@pytest.fixture(params=[False, True], ids=["plain", "prepared"])
def prepares(request: pytest.FixtureRequest) -> Iterator[bool]:
    with override_settings(DURABLE={"QUEUE": "database", "PREPARED_STATEMENTS": request.param}):
        yield bool(request.param)


@pytest.fixture
def db(prepares: bool, connect: Connect) -> PrivateDatabase:
    return connect()


def prepared(db: PrivateDatabase) -> list[str]:
    """Ours; what psycopg has prepared is called otherwise."""
    rows = db.rows("SELECT statement FROM pg_prepared_statements WHERE name LIKE 'durable%%' ORDER BY prepare_time")
    return [statement for (statement,) in rows]


def told(db: PrivateDatabase) -> object:
    """The answer to an innocent statement, or what it failed with."""
    try:
        return db.rows(ADD, number=1)
    except DatabaseError as error:
        return error


@pytest.mark.parametrize(
    ("kind", "values"),
    [("text", TEXTS), ("bigint", NUMBERS), ("double precision", FLOATS), ("boolean", [True, False])],
)
def test_values_come_back_as_they_went(db: PrivateDatabase, sent: list[bool], kind: str, values: list[Any]) -> None:
    echo = Typed(f"SELECT %(value)s::{kind}, %(none)s::{kind}, pg_typeof(%(value)s::{kind})::text")
    for value in values * 3:
        assert db.rows(echo, value=value, none=None) == [(value, None, kind)]
    assert sent == [True] * len(values) * 3


def test_rows_have_the_types_that_a_cursor_gives_them(db: PrivateDatabase, sent: list[bool]) -> None:
    sql = """SELECT %(id)s::uuid, 1::smallint, 2::bigint, 'x', NULL, true, ARRAY[1, 2], 1.5::double precision
        FROM generate_series(1, 2)"""
    given = {"id": str(UUID(int=7))}
    by_cursor = db.rows(f"{sql} AS other", **given)
    assert by_cursor == [(UUID(int=7), 1, 2, "x", None, True, [1, 2], 1.5)] * 2
    assert [db.rows(Typed(sql), **given) for _ in range(3)] == [by_cursor] * 3
    assert sent == [True] * 3


def test_a_statement_that_returns_nothing_returns_no_rows(db: PrivateDatabase, sent: list[bool]) -> None:
    db.rows("CREATE TEMPORARY TABLE noted (number integer)")
    note = Typed("INSERT INTO noted VALUES (%(number)s::integer)")
    assert [db.rows(note, number=number) for number in range(3)] == [[], [], []]
    assert db.rows(Typed("SELECT number FROM noted WHERE number > %(least)s::integer"), least=9) == []
    assert db.rows("SELECT number FROM noted") == [(0,), (1,), (2,)]
    assert all(sent)


def test_a_parameter_may_stand_twice_and_a_percent_sign_by_itself(db: PrivateDatabase, sent: list[bool]) -> None:
    sql = Typed("SELECT %(b)s::text LIKE 'a%%', %(a)s::integer %% 2, %(b)s::text")
    for _ in range(3):
        assert db.rows(sql, a=3, b="ab", unused="x") == [(True, 1, "ab")]
    assert all(sent)


@pytest.mark.parametrize(
    "value", [UUID(int=7), datetime(2026, 7, 1, tzinfo=UTC), [1, 2]], ids=["uuid", "instant", "list"]
)
def test_other_values_are_left_to_a_cursor(db: PrivateDatabase, sent: list[bool], value: Any) -> None:
    kinds = {UUID: "uuid", datetime: "timestamptz", list: "integer[]"}
    for _ in range(3):
        assert db.rows(Typed(f"SELECT %(value)s::{kinds[type(value)]}"), value=value) == [(value,)]
    assert sent == [False] * 3


def test_a_text_that_postgresql_does_not_take_is_refused_as_ever(db: PrivateDatabase) -> None:
    """Not cut off where it has a NUL."""
    for _ in range(3):
        with pytest.raises(DataError):
            db.rows(Typed("SELECT %(text)s::text"), text="a\0b")
        with pytest.raises(UnicodeEncodeError):
            db.rows(Typed("SELECT %(text)s::text"), text="\ud800")
        assert db.rows(ADD, number=1) == [(2,)]


def test_what_is_wrong_is_raised_as_djangos_errors(db: PrivateDatabase, sent: list[bool]) -> None:
    db.rows("CREATE TEMPORARY TABLE single (number integer UNIQUE)")
    insert = Typed("INSERT INTO single VALUES (%(number)s::integer)")
    db.rows(insert, number=1)
    for _ in range(3):
        with pytest.raises(IntegrityError) as caught:
            db.rows(insert, number=1)
        assert isinstance(caught.value.__cause__, psycopg.errors.UniqueViolation)
        assert "single_number_key" in str(caught.value)
        with pytest.raises(DataError):
            db.rows(Typed("SELECT 1 / %(zero)s::integer"), zero=0)
        with pytest.raises(DatabaseError, match="syntax"):
            db.rows(Typed("SELECT SELECT"))
        assert db.rows(ADD, number=1) == [(2,)]


def test_inside_a_transaction_it_is_a_part_of_that(db: PrivateDatabase) -> None:
    db.rows("CREATE TEMPORARY TABLE noted (number integer)")
    note = Typed("INSERT INTO noted VALUES (%(number)s::integer)")
    for number in range(3):
        with db.transaction():
            db.rows(note, number=number)
        with pytest.raises(DataError), db.transaction():
            db.rows(note, number=-1)
            db.rows(Typed("SELECT 1 / %(zero)s::integer"), zero=0)
    assert db.rows("SELECT number FROM noted") == [(0,), (1,), (2,)]


def test_it_is_prepared_as_it_comes_again_where_the_project_prepares(db: PrivateDatabase, prepares: bool) -> None:
    assert db.rows(ADD, number=1) == [(2,)]
    assert prepared(db) == []
    for number in range(3):
        assert db.rows(ADD, number=number) == [(number + 1,)]
    found = prepared(db)
    assert len(found) == (1 if prepares else 0)
    assert all(statement.startswith("SELECT $1::bigint + 1 ") for statement in found)


@pytest.mark.parametrize("can_close", sorted({False, capabilities.has_send_close_prepared()}))
def test_the_longest_unused_is_forgotten(
    db: PrivateDatabase, prepares: bool, can_close: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "has_send_close_prepared", lambda: can_close)
    driver, kept = _connected(db), TypedStatements(prepares=prepares)
    for number in range(MOST + 20):
        sql = f"SELECT %(x)s::integer + {number}"
        for _ in range(2):
            assert kept.rows(driver, sql, {"x": 1}) == [(1 + number,)]
            kept.rows(driver, "SELECT %(x)s::integer - 1", {"x": 1})
    found = prepared(db)
    assert len(found) == (MOST if prepares else 0)
    if prepares:
        assert "SELECT $1::integer - 1" in found
        assert "SELECT $1::integer + 20" not in found
        assert f"SELECT $1::integer + {MOST + 19}" in found


def _connected(db: PrivateDatabase) -> Any:
    db.connection.ensure_connection()
    return db.connection.connection


def test_what_a_migration_has_changed_is_prepared_anew(db: PrivateDatabase, prepares: bool) -> None:
    db.rows("CREATE TEMPORARY TABLE changing (number integer)")
    db.rows("INSERT INTO changing VALUES (1)")
    look = Typed("SELECT * FROM changing WHERE number = %(number)s::integer")
    for _ in range(3):
        assert db.rows(look, number=1) == [(1,)]
    db.rows("ALTER TABLE changing ADD COLUMN text text")
    for _ in range(3):
        assert db.rows(look, number=1) == [(1, None)]
    db.rows("ALTER TABLE changing ADD COLUMN more text")
    if prepares:
        with pytest.raises(NotSupportedError), db.transaction():
            db.rows(look, number=1)
    with db.transaction():
        assert db.rows(look, number=1) == [(1, None, None)]


def test_what_a_pooler_has_forgotten_is_prepared_anew(db: PrivateDatabase, prepares: bool) -> None:
    for _ in range(3):
        db.rows(ADD, number=1)
        db.rows("DEALLOCATE ALL")
        for _ in range(3):
            assert db.rows(ADD, number=1) == [(2,)]
        assert len(prepared(db)) == prepares


@pytest.mark.parametrize("can_close", sorted({False, capabilities.has_send_close_prepared()}))
def test_what_is_not_there_any_more_is_no_failure_to_forget(
    db: PrivateDatabase, prepares: bool, can_close: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "has_send_close_prepared", lambda: can_close)
    driver, kept = _connected(db), TypedStatements(prepares=prepares)
    for turn in range(2):
        for number in range(MOST + 5):
            for _ in range(2):
                assert kept.rows(driver, f"SELECT %(x)s::integer + {number} - {turn}", {"x": 1}) == [
                    (1 + number - turn,)
                ]
        db.rows("DEALLOCATE ALL")


def test_after_a_rollback_it_goes_on(db: PrivateDatabase, prepares: bool) -> None:
    """Which makes psycopg forget what the connection has prepared, whoever did."""
    for _ in range(5):
        assert db.rows(ADD, number=1) == [(2,)]
        db.rows("SELECT 'something that psycopg prepares'")
    with pytest.raises(DataError), db.transaction():
        db.rows(Typed("SELECT 1 / %(zero)s::integer"), zero=0)
    assert prepared(db) == []
    with db.transaction():
        for _ in range(5):
            assert db.rows(ADD, number=1) == [(2,)]
    assert len(prepared(db)) == prepares


def test_where_each_statement_has_a_transaction_a_failure_is_nobody_elses(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrivateDatabase, "_default_isolation", lambda _: "repeatable read")
    for _ in range(3):
        assert [told(db) for _ in range(4)] == [[(2,)]] * 4
        with pytest.raises(DataError):
            db.rows(Typed("SELECT 1 / %(zero)s::integer"), zero=0)


DEFERRED = "CREATE TABLE deferred (number integer UNIQUE DEFERRABLE INITIALLY DEFERRED)"


def test_a_failure_in_the_commit_itself_is_raised(db: PrivateDatabase) -> None:
    """The server has answered by then."""
    db.rows(DEFERRED)
    try:
        insert = Typed("INSERT INTO deferred VALUES (%(number)s::integer) RETURNING number")
        assert db.rows(insert, number=1) == [(1,)]
        for _ in range(3):
            with pytest.raises(IntegrityError):
                db.rows(insert, number=1)
        assert db.rows("SELECT count(*) FROM deferred") == [(1,)]
    finally:
        db.rows("DROP TABLE deferred")


def test_a_connection_that_is_lost_in_the_commit_itself_is_told_of(db: PrivateDatabase) -> None:
    db.rows(DEFERRED)
    try:
        db.rows(
            "CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"
        )
        db.rows(
            "CREATE CONSTRAINT TRIGGER ends AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION end_session()"
        )
        with pytest.raises(OperationalError):
            db.rows(Typed("INSERT INTO deferred VALUES (%(number)s::integer) RETURNING number"), number=1)
        db.close()
        assert db.rows("SELECT count(*) FROM deferred") == [(0,)]
    finally:
        db.rows("DROP TABLE deferred")
        db.rows("DROP FUNCTION IF EXISTS end_session")


@pytest.mark.parametrize("is_awake", [False, True], ids=["asleep", "awake"])
@pytest.mark.parametrize("kind", [str, Typed])
def test_an_answer_that_nobody_waited_for_answers_nothing_else(
    db: PrivateDatabase, connect: Connect, kind: type[str], is_awake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_durable.store.busy_polling.LONGEST", 60.0)
    monkeypatch.setattr("django_durable.store.busy_polling.DISTURBED", 60.0)
    db.polling.is_wanted = is_awake
    [(mine,)] = db.rows("SELECT pg_backend_pid()")

    def interrupt() -> None:
        asleep = "SELECT 1 FROM pg_stat_activity WHERE pid = %(mine)s AND wait_event = 'PgSleep'"
        wait_until(lambda: other.rows(asleep, mine=mine), message="the statement")
        os.kill(os.getpid(), signal.SIGINT)

    other = connect()
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        db.rows(kind("SELECT 'late' FROM pg_sleep(%(seconds)s::double precision)"), seconds=60)
    thread.join()
    assert [told(db) for _ in range(3)] == [[(2,)]] * 3


def test_a_connection_that_is_lost_is_told_of_and_made_anew(db: PrivateDatabase, sent: list[bool]) -> None:
    for _ in range(3):
        db.rows(ADD, number=1)
    [(lost,)] = db.rows("SELECT pg_backend_pid()")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [lost])
    for _ in range(2):
        with pytest.raises(OperationalError):
            db.rows(ADD, number=1)
    db.close()
    sent.clear()
    assert [db.rows(ADD, number=number) for number in range(3)] == [[(1,)], [(2,)], [(3,)]]
    assert sent == [True] * 3


def test_wrappers_and_logs_hear_of_each(db: PrivateDatabase, sent: list[bool]) -> None:
    heard: list[str] = []

    def hear(execute: Any, sql: str, *given: Any) -> Any:
        heard.append(sql)
        return execute(sql, *given)

    with db.connection.execute_wrapper(hear):
        assert db.rows(ADD, number=1) == [(2,)]
    db.connection.force_debug_cursor = True
    assert db.rows(ADD, number=1) == [(2,)]
    assert (len(heard), len(db.connection.queries_log), sent) == (1, 1, [])


def test_a_cursor_that_somebody_has_chosen_hears_of_each(db: PrivateDatabase, sent: list[bool]) -> None:
    heard: list[str] = []

    class Chosen(psycopg.Cursor[Any]):
        def execute(self, query: Any, *given: Any, **more: Any) -> Any:
            heard.append(query)
            return super().execute(query, *given, **more)

    _connected(db).cursor_factory = Chosen
    assert db.rows(ADD, number=1) == [(2,)]
    assert (len([sql for sql in heard if "bigint" in sql]), sent) == (1, [])
