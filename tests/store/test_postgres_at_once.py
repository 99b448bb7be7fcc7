"""What is asked by who must not sleep: answered while it stays awake, or left to who may wait, and never mistaken."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import DataError, OperationalError, connection
from django.test import override_settings

from django_durable.store import busy_polling
from django_durable.store.database import PrivateDatabase
from django_durable.store.statements import Typed
from tests.store.conftest import Connect

pytestmark = pytest.mark.django_db(transaction=True)

NEXT = Typed("SELECT nextval('asked') + 0 * %(n)s::integer")
"""Says how often it was executed."""
ECHO = Typed("SELECT %(n)s::integer")
AWAKE = 60.0


@pytest.fixture(params=[False, True], ids=["plain", "prepared"])
def db(request: pytest.FixtureRequest, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateDatabase]:
    """Connected; it has sent both statements often enough for the server to know them."""
    monkeypatch.setattr(busy_polling, "LONGEST", AWAKE)
    monkeypatch.setattr(busy_polling, "AT_ONCE", AWAKE)
    monkeypatch.setattr(busy_polling, "DISTURBED", AWAKE)
    with connection.cursor() as cursor:
        cursor.execute("CREATE SEQUENCE asked")
    with override_settings(DURABLE={"QUEUE": "database", "PREPARED_STATEMENTS": request.param}):
        db = connect()
    if db._plans is not None:
        # It is not to become another statement in the midst of a test.
        monkeypatch.setattr(db._plans, "_ends_at", float("inf"))
    for _ in range(2):
        db.rows(NEXT, n=0)
        db.rows(ECHO, n=0)
    db.polling.is_wanted = True
    yield db
    db.close()
    with connection.cursor() as cursor:
        cursor.execute("DROP SEQUENCE asked")


def asked_in_vain(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, sql: Typed = NEXT, n: int = 0) -> None:
    """The answer is out."""
    with monkeypatch.context() as patch:
        patch.setattr(busy_polling.BusyPolling, "_comes", lambda *_: False)
        assert db.rows_at_once(sql, n=n) is None
    assert db._kept._typed._unheard is not None


def test_an_answer_comes_while_who_asks_is_awake(db: PrivateDatabase) -> None:
    assert [db.rows_at_once(NEXT, n=0) for _ in range(3)] == [[(3,)], [(4,)], [(5,)]]
    assert db.rows_at_once(ECHO, n=7) == [(7,)]


def test_who_may_wait_brings_the_answer_that_is_out(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked again."""
    asked_in_vain(db, monkeypatch)
    assert db.rows(NEXT, n=0) == [(3,)]
    assert db.rows(NEXT, n=0) == [(4,)]


def test_while_one_is_out_nothing_else_is_asked_at_once(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_in_vain(db, monkeypatch)
    db.polling._late = 0
    assert db.rows_at_once(ECHO, n=7) is None
    assert db.rows_at_once(NEXT, n=0) is None
    assert db.rows(NEXT, n=0) == [(3,)]


@pytest.mark.parametrize("sql", [ECHO, "SELECT %(n)s::integer"], ids=["typed", "by a cursor"])
def test_an_answer_that_is_out_is_nobody_elses(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    asked_in_vain(db, monkeypatch)
    assert db.rows(sql, n=7) == [(7,)]
    # It is lost, and whoever has asked asks again.
    assert db.rows(NEXT, n=0) == [(4,)]


def test_nor_that_of_the_same_question_with_other_values(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_in_vain(db, monkeypatch, ECHO, 1)
    assert db.rows(ECHO, n=2) == [(2,)]


def test_nor_a_transactions(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_in_vain(db, monkeypatch)
    with db.transaction():
        assert db.rows(ECHO, n=7) == [(7,)]
        # Who has one open does not ask in it.
        assert db.rows_at_once(ECHO, n=7) is None
    assert db.rows(NEXT, n=0) == [(4,)]


def test_nor_of_whoever_hears_each_statement(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    def listens(execute: object, sql: str, *given: object) -> object:
        heard.append(sql)
        return execute(sql, *given)  # type: ignore[operator]

    asked_in_vain(db, monkeypatch)
    with db.connection.execute_wrapper(listens):
        db.polling._late = 0
        assert db.rows_at_once(ECHO, n=7) is None
        assert db.rows(ECHO, n=7) == [(7,)]
    assert len(heard) == 1
    assert db.rows(NEXT, n=0) == [(4,)]


def test_a_mistake_is_told_to_who_may_wait(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    divided = Typed("SELECT 1 / %(n)s::integer")
    for _ in range(2):
        db.rows(divided, n=1)
    assert db.rows_at_once(divided, n=0) is None
    with pytest.raises(DataError):
        db.rows(divided, n=0)
    asked_in_vain(db, monkeypatch, divided)
    with pytest.raises(DataError):
        db.rows(divided, n=0)
    assert db.rows(ECHO, n=7) == [(7,)]


@pytest.mark.parametrize("is_out", [False, True])
def test_a_session_that_has_ended_is_told_to_who_may_wait(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, is_out: bool
) -> None:
    [(mine,)] = db.rows(Typed("SELECT pg_backend_pid()"))
    if is_out:
        asked_in_vain(db, monkeypatch)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [mine])
    if not is_out:
        assert db.rows_at_once(NEXT, n=0) is None
    with pytest.raises(OperationalError):
        db.rows(NEXT, n=0)
        # The answer may have been there before the end came.
        db.rows(NEXT, n=0)
    db.close()
    assert db.rows(ECHO, n=7) == [(7,)]


def test_who_has_gone_without_an_answer_leaves_nothing_behind(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_in_vain(db, monkeypatch)
    db.close()
    assert db.rows(ECHO, n=7) == [(7,)]


def test_nothing_is_said_where_more_than_an_answer_would_be_waited_for(
    db: PrivateDatabase, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these might take long, on whatever else the event loop has to do."""
    asks: dict[str, bool] = {}
    db.polling.is_wanted = False
    asks["nobody wants it"] = db.rows_at_once(ECHO, n=7) is not None
    db.polling.is_wanted = True
    with monkeypatch.context() as patch:
        patch.setattr(db.polling, "_late", busy_polling.TOO_MANY)
        asks["the last answer took long"] = db.rows_at_once(ECHO, n=7) is not None
    if db._plans is not None:
        asks["it is not prepared"] = db.rows_at_once(Typed("SELECT %(n)s::integer + 1"), n=7) is not None
    db.connection.health_check_enabled, db.connection.health_check_done = True, False
    asks["the connection is to be looked at"] = db.rows_at_once(ECHO, n=7) is not None
    db.connection.health_check_enabled = False
    asks["it holds something else"] = db.rows_at_once(ECHO, n=b"7") is not None
    for _ in range(2):
        db.rows(Typed("SELECT length(%(n)s::text)"), n="short")
    asks["it holds much"] = db.rows_at_once(Typed("SELECT length(%(n)s::text)"), n="x" * 20_000) is not None
    with others_statement(db):
        asks["another thread uses the connection"] = db.rows_at_once(ECHO, n=7) is not None
    assert db.rows_at_once(ECHO, n=7) == [(7,)]
    db.close()
    asks["it is not connected"] = db.rows_at_once(ECHO, n=7) is not None
    assert db.connection.connection is None
    other = connect()
    other.polling.is_wanted = True
    asks["it never was"] = other.rows_at_once(ECHO, n=7) is not None
    assert not any(asks.values()), asks


@contextmanager
def others_statement(db: PrivateDatabase) -> Iterator[None]:
    """Meanwhile another thread is in the midst of one."""
    begun, over = threading.Event(), threading.Event()

    def hold() -> None:
        with db.lock:
            begun.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()
