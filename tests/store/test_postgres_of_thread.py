"""A statement on Django's own connection goes without a cursor where nothing but Django has to do with it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from importlib import import_module, reload
from typing import Any
from weakref import ref

import pytest
from django.db import DEFAULT_DB_ALIAS, IntegrityError, OperationalError, connection, connections, transaction
from django.db.backends import utils
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_durable.store.database import Database
from django_durable.store.of_thread import is_heard
from django_durable.store.statements import Typed

pytestmark = pytest.mark.django_db(transaction=True)

ADD = Typed("SELECT %(number)s::bigint + 1")


@pytest.fixture(params=[False, True], ids=["plain", "prepared"], autouse=True)
def prepares(request: pytest.FixtureRequest) -> Iterator[bool]:
    connection.close()
    with override_settings(DURABLE={"QUEUE": "database", "PREPARED_STATEMENTS": request.param}):
        yield bool(request.param)
    connection.close()


def add(number: Any = 1) -> int:
    [(found,)] = Database().look_up(ADD, number=number)
    return int(found)


def session() -> int:
    [(pid,)] = Database().rows("SELECT pg_backend_pid()")
    return int(pid)


def prepared() -> int:
    [(count,)] = Database().rows("SELECT count(*) FROM pg_prepared_statements WHERE starts_with(name, 'durable')")
    return int(count)


def test_it_goes_without_a_cursor_also_where_nothing_is_prepared(sent: list[bool], prepares: bool) -> None:
    assert [add(number) for number in range(4)] == [1, 2, 3, 4]
    assert sent == [True] * 4
    assert prepared() == prepares


@contextmanager
def wrapper(heard: list[str]) -> Iterator[None]:
    def hear(execute: Any, sql: str, *given: Any) -> Any:
        heard.append(sql)
        return execute(sql, *given)

    with connection.execute_wrapper(hear):
        yield


@contextmanager
def log(heard: list[str]) -> Iterator[None]:
    with CaptureQueriesContext(connection) as queries:  # type: ignore[arg-type]
        yield
    heard += [query["sql"] for query in queries.captured_queries]


def patched(owner: Any, method: str) -> Callable[[list[str]], AbstractContextManager[None]]:
    """As tools do it, which wrap Django's own."""

    @contextmanager
    def patching(heard: list[str]) -> Iterator[None]:
        usual = getattr(owner, method)

        @wraps(usual)
        def telling(self: Any, *given: Any, **more: Any) -> Any:
            heard.append(method)
            return usual(self, *given, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, method, telling)
            yield

    patching.__name__ = method
    return patching


@contextmanager
def another_class(heard: list[str]) -> Iterator[None]:
    class Telling(CursorWrapper):
        def execute(self, sql: Any, params: Any = None) -> Any:
            heard.append(sql)
            return super().execute(sql, params)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "CursorWrapper", Telling)
        yield


OF_CURSORS = ["cursor", "_cursor", "_prepare_cursor", "create_cursor", "make_cursor"]
OF_STATEMENTS = ["execute", "_execute_with_wrappers", "_execute"]
LISTENING = [
    wrapper,
    log,
    another_class,
    *(patched(DatabaseWrapper, method) for method in OF_CURSORS),
    *(patched(CursorWrapper, method) for method in OF_STATEMENTS),
]


@pytest.mark.parametrize("listens", LISTENING, ids=lambda listens: listens.__name__)
def test_who_listens_hears_of_each(
    listens: Callable[[list[str]], AbstractContextManager[None]], sent: list[bool]
) -> None:
    # As in an application that no test looks at.
    add()
    assert not is_heard(connections[DEFAULT_DB_ALIAS])
    heard: list[str] = []
    with listens(heard):
        assert is_heard(connections[DEFAULT_DB_ALIAS])
        assert [add(), add(2)] == [2, 3]
    assert len(heard) == 2
    assert sent == [True]


class Unusual:
    """No function, and called as one."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual

    def __get__(self, cursor: Any, kind: Any) -> Any:
        return self if cursor is None else self._usual.__get__(cursor, kind)


@pytest.mark.parametrize("kind", [Unusual, lambda usual: lambda *given: usual(*given)], ids=["object", "function"])
def test_who_was_there_before_us_hears_of_each(kind: Callable[[Any], Any], sent: list[bool]) -> None:
    module = import_module("django_durable.store.of_thread")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CursorWrapper, "execute", kind(CursorWrapper.execute))
        reload(module)
        assert module.is_heard(connections[DEFAULT_DB_ALIAS])
        assert add() == 2
    reload(module)
    assert sent == []
    assert not module.is_heard(connections[DEFAULT_DB_ALIAS])


def test_a_proxy_of_the_driver_s_connection_hears_of_each(sent: list[bool]) -> None:
    """As tools for traces and pools put there."""
    heard: list[str] = []

    class Proxy:
        def __init__(self, behind: Any) -> None:
            self._behind = behind

        def __getattr__(self, name: str) -> Any:
            return getattr(self._behind, name)

        def cursor(self, *given: Any, **more: Any) -> Any:
            heard.append("cursor")
            return self._behind.cursor(*given, **more)

    connection.ensure_connection()
    driver = connection.connection
    connection.connection = Proxy(driver)
    try:
        assert [add(), add(2)] == [2, 3]
    finally:
        connection.connection = driver
    assert len(heard) == 2
    assert sent == []


def test_a_text_is_written_as_the_session_has_it(sent: list[bool]) -> None:
    Database().rows("SET client_encoding TO latin1")
    assert Database().look_up(Typed("SELECT %(text)s::text, length(%(text)s::text)"), text="é") == [("é", 1)]
    assert sent == []


def test_a_connection_that_is_closed_goes_at_once() -> None:
    """It is not left to the collector, which comes late."""
    add()
    driver = ref(connection.connection)
    gc.collect()
    gc.disable()
    try:
        connection.close()
        assert driver() is None
    finally:
        gc.enable()


def test_in_a_transaction_it_is_a_part_of_that(sent: list[bool]) -> None:
    Database().rows("CREATE TABLE noted (number integer)")
    note = Typed("INSERT INTO noted VALUES (%(number)s::integer)")
    try:
        with transaction.atomic():
            Database().insert(note, number=1)
            transaction.set_rollback(True)
        transaction.set_autocommit(False)
        try:
            Database().insert(note, number=2)
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)
        assert Database().rows("SELECT number FROM noted") == []
        assert sent == []
        Database().insert(note, number=3)
        assert Database().rows("SELECT number FROM noted") == [(3,)]
        assert sent == [True]
    finally:
        Database().rows("DROP TABLE noted")


def test_in_a_transaction_that_django_does_not_know_of(sent: list[bool]) -> None:
    Database().rows("BEGIN")
    assert add() == 2
    Database().rows("ROLLBACK")
    assert sent == []


def test_in_a_pipeline_it_goes_in_its_turn(sent: list[bool]) -> None:
    Database().rows("CREATE TEMPORARY TABLE noted (number integer)")
    note = Typed("INSERT INTO noted VALUES (%(number)s::integer)")
    with connection.connection.pipeline():
        Database().insert(note, number=1)
    assert sent == []
    Database().insert(note, number=2)
    assert sent == [True]
    assert Database().rows("SELECT number FROM noted ORDER BY number") == [(1,), (2,)]


def test_what_is_refused_is_raised_as_djangos_error_and_the_next_one_goes(sent: list[bool]) -> None:
    Database().rows("CREATE TABLE noted (number integer PRIMARY KEY)")
    note = Typed("INSERT INTO noted VALUES (%(number)s::integer)")
    try:
        for _ in range(2):
            Database().insert(note, number=len(sent))
        for _ in range(2):
            with pytest.raises(IntegrityError):
                Database().insert(note, number=1)
        assert add() == 2
    finally:
        Database().rows("DROP TABLE noted")


def test_a_connection_that_is_lost_is_told_of_and_made_anew(sent: list[bool]) -> None:
    add()
    lost = session()
    killed: list[Any] = []

    def kill() -> None:
        killed.append(Database().rows("SELECT pg_terminate_backend(%(pid)s, 10000)", pid=lost))
        connections.close_all()

    thread = threading.Thread(target=kill)
    thread.start()
    thread.join()
    assert killed == [[(True,)]]
    with pytest.raises(OperationalError):
        add()
    connection.close_if_unusable_or_obsolete()
    assert add() == 2
    assert session() != lost
    assert sent == [True, True]


def test_the_connections_of_a_pool_go_from_thread_to_thread(sent: list[bool], prepares: bool) -> None:
    """With what is prepared on each: a name is given once."""
    drivers: list[Any] = []
    for _ in range(2):
        connection.ensure_connection()
        drivers.append(connection.connection)
        connection.connection = None
    try:
        for _ in range(3):
            for driver in drivers:
                connection.connection = driver
                assert [add(), add(2), add(3)] == [2, 3, 4]
                assert prepared() == prepares
    finally:
        connection.connection = None
        for driver in drivers:
            driver.close()
    assert sent == [True] * 18


def test_a_statement_that_does_not_fit_any_more_is_closed(prepares: bool) -> None:
    Database().rows("CREATE TABLE noted (number integer)")
    look = Typed("SELECT * FROM noted WHERE number > %(least)s::integer")
    try:
        for number in range(12):
            for _ in range(3):
                Database().look_up(look, least=number)
            Database().rows(f"ALTER TABLE noted ADD COLUMN number_{number} integer")
        assert prepared() == prepares
    finally:
        Database().rows("DROP TABLE noted")


def test_other_values_are_left_to_a_cursor(sent: list[bool]) -> None:
    assert Database().look_up(Typed("SELECT %(values)s::integer[]"), values=[1, 2]) == [([1, 2],)]
    assert sent == [False]
