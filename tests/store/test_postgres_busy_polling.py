"""A connection that stays awake for its answers says what any other says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import DataError, OperationalError, connection

from django_durable.store.busy_polling import BusyPolling
from django_durable.store.database import PrivateDatabase
from django_durable.store.statements import Typed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def seen_awake(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each answer that was looked for came while the thread was awake, however long that took."""
    found: list[bool] = []
    comes: Callable[[BusyPolling, int, float], bool] = BusyPolling._comes

    def told(self: BusyPolling, *given: Any) -> bool:
        found.append(comes(self, *given))
        return found[-1]

    monkeypatch.setattr(BusyPolling, "_comes", told)
    monkeypatch.setattr("django_durable.store.busy_polling.LONGEST", 60.0)
    monkeypatch.setattr("django_durable.store.busy_polling.DISTURBED", 60.0)
    return found


@pytest.fixture
def polled(db: PrivateDatabase, seen_awake: list[bool]) -> PrivateDatabase:
    db.polling.is_wanted = True
    return db


def test_answers_are_seen_awake(polled: PrivateDatabase, seen_awake: list[bool]) -> None:
    assert [polled.rows(Typed("SELECT %(n)s::integer + 1"), n=n) for n in range(4)] == [[(n + 1,)] for n in range(4)]
    assert polled.rows(Typed("SELECT 1 WHERE false")) == []
    assert seen_awake == [True] * 5


def test_nobody_who_does_not_want_it_polls(db: PrivateDatabase, seen_awake: list[bool]) -> None:
    assert db.rows(Typed("SELECT 1")) == [(1,)]
    assert seen_awake == []


def test_an_answer_in_many_pieces_is_read_to_its_end(polled: PrivateDatabase, seen_awake: list[bool]) -> None:
    rows = polled.rows(Typed("SELECT n, repeat('x', 1000) FROM generate_series(1, 5000) AS n"))
    assert [(n, len(text)) for n, text in rows] == [(n, 1000) for n in range(1, 5001)]
    assert seen_awake[0]


def test_a_question_that_is_long_is_sent_to_its_end(polled: PrivateDatabase) -> None:
    assert polled.rows(Typed("SELECT length(%(text)s::text)"), text="x" * 20_000_000) == [(20_000_000,)]


def test_it_goes_on_after_an_error(polled: PrivateDatabase) -> None:
    for _ in range(2):
        with pytest.raises(DataError):
            polled.rows(Typed("SELECT 1 / %(zero)s::integer"), zero=0)
        assert polled.rows(Typed("SELECT 1")) == [(1,)]


def test_a_connection_that_is_lost_meanwhile_is_told_of(polled: PrivateDatabase) -> None:
    [(mine,)] = polled.rows(Typed("SELECT pg_backend_pid()"))

    def terminate() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [mine])
        connection.close()

    thread = threading.Thread(target=terminate)
    thread.start()
    with pytest.raises(OperationalError):
        polled.rows(Typed("SELECT pg_sleep(60)"))
    thread.join()
    polled.close()
    assert polled.rows(Typed("SELECT 1")) == [(1,)]


def test_a_cursor_that_somebody_has_chosen_stays(db: PrivateDatabase, seen_awake: list[bool]) -> None:
    class Chosen(psycopg.Cursor[Any]):
        pass

    db.connection.ensure_connection()
    db.connection.connection.cursor_factory = Chosen
    db.polling.is_wanted = True
    assert db.rows(Typed("SELECT 1")) == [(1,)]
    assert type(db._kept._cursor.cursor) is Chosen
    assert seen_awake == []


def test_statements_in_a_transaction_are_as_ever(polled: PrivateDatabase) -> None:
    with pytest.raises(DataError), polled.transaction():
        polled.rows(Typed("SELECT 1 / %(zero)s::integer"), zero=0)
    with polled.transaction():
        assert polled.rows(Typed("SELECT 1")) == [(1,)]
