"""Starts on Django's own connection: prepared where the project says so, whatever happens to the connection between."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.utils import DatabaseError
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_durable.core.ids import uuid7
from django_durable.models import Payload, Run
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.endings import ending_of
from django_durable.store.starting import start_runs
from tests.store.rows import claim, new_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """A connection that has prepared nothing yet, and leaves nothing."""
    connection.close()
    with override_settings(DURABLE={"QUEUE": "database", "PREPARED_STATEMENTS": True}):
        yield
    connection.close()


def start(**options: Any) -> Run:
    run = new_run(**options)
    start_runs(Database(), [run])
    return Run.objects.get(pk=run.id)


def prepared(by: str = "durable") -> int:
    """How many of ours are, outside of transactions; ``_pg3``: by psycopg, within them."""
    about_runs = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%%django_durable_run%%'"
    with connection.cursor() as cursor:
        cursor.execute(f"{about_runs} AND starts_with(name, %s)", [by])
        return int(cursor.fetchone()[0])


def session() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_a_connection_prepares_its_second_start_and_no_statement_of_the_project() -> None:
    found = []
    for _ in range(4):
        start()
        found.append(prepared())
    assert found == [0, 1, 1, 1]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements")
        assert cursor.fetchone() == (1,)


def test_without_the_setting_none_is_prepared() -> None:
    with override_settings(DURABLE={"QUEUE": "database"}):
        for _ in range(8):
            start()
    assert prepared() == 0


def test_starts_that_ask_for_other_things_are_statements_of_their_own() -> None:
    asked: list[dict[str, Any]] = [{}, {"run_after": 60.0}, {"deadline_after": 5.0}, {"max_attempts": 3}]
    for options in asked * 3:
        run = start(**options)
        assert run.status == ("scheduled" if "run_after" in options else "queued")
        assert (run.timeout, run.max_attempts) == (options.get("deadline_after"), options.get("max_attempts"))
        assert Payload.objects.filter(run_id=run.pk, kind="input").exists()
    assert prepared() == len(asked)


def test_a_connection_keeps_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("of_thread.MOST_KEPT", "preparing.MOST_KEPT"):
        monkeypatch.setattr(f"django_durable.store.{setting}", 2)
    asked: list[dict[str, Any]] = [{}, {"run_after": 60.0}, {"deadline_after": 5.0}, {"max_attempts": 3}]
    for options in [one for one in asked for _ in range(2)]:
        start(**options)
        with transaction.atomic():
            start(**options)
    assert (prepared(), prepared("_pg3")) == (2, 2)


def roll_back() -> None:
    with transaction.atomic():
        start()
        transaction.set_rollback(True)


def roll_back_to_savepoint() -> None:
    with transaction.atomic():
        start()
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")
        start()


def fail_to_start() -> None:
    run = new_run()
    start_runs(Database(), [run])
    with pytest.raises(DatabaseError):
        start_runs(Database(), [run])


def execute(sql: str) -> Callable[[], None]:
    def call() -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    call.__name__ = sql
    return call


def change_the_table() -> None:
    execute("ALTER TABLE django_durable_run ADD COLUMN passing text")()
    start()
    execute("ALTER TABLE django_durable_run DROP COLUMN passing")()


def widen_what_looks_read() -> None:
    for length in (12, 10):
        execute(f"ALTER TABLE django_durable_run ALTER COLUMN status TYPE varchar({length})")()
        assert ending_of(Database(), start().pk) == ("queued", None)


def reconnect() -> None:
    before = session()
    connection.close()
    assert session() != before


BETWEEN = [
    roll_back,
    roll_back_to_savepoint,
    fail_to_start,
    execute("DISCARD ALL"),
    execute("DEALLOCATE ALL"),
    change_the_table,
    widen_what_looks_read,
    reconnect,
]


@pytest.mark.parametrize("happens", BETWEEN, ids=lambda call: call.__name__.replace(" ", "-"))
@pytest.mark.parametrize("is_atomic", [False, True], ids=["alone", "atomic"])
def test_starts_go_on_after(happens: Callable[[], None], is_atomic: bool) -> None:
    def start_and_look() -> None:
        assert ending_of(Database(), start().pk) == ("queued", None)

    for _ in range(3):
        start_and_look()
    assert prepared() == 2
    happens()
    for _ in range(3):
        if is_atomic:
            with transaction.atomic():
                start_and_look()
        else:
            start_and_look()
    assert prepared("_pg3") == 1 if is_atomic else prepared() == 2


def test_discarded_within_a_transaction_that_goes_on() -> None:
    for _ in range(3):
        with transaction.atomic():
            start()
    with transaction.atomic():
        execute("DEALLOCATE ALL")()
        assert start().status == "queued"


def test_a_threshold_of_the_project_s_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "prepare_threshold", 7)
    for _ in range(2):
        start()
        with transaction.atomic():
            start()
    assert (prepared(), prepared("_pg3")) == (1, 1)
    assert connection.connection.prepare_threshold == 7


def test_a_cursor_of_the_project_s_own_kind_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "server_side_binding", True)
    for _ in range(4):
        start()
        with transaction.atomic():
            start()
    assert (prepared(), prepared("_pg3")) == (0, 0)
    assert connection.connection.prepare_threshold is None


def test_wrappers_hear_each_of_them() -> None:
    heard: list[str] = []

    def listen(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        heard.append(params["id"])
        return execute(sql, params, many, context)

    runs = [new_run() for _ in range(3)]
    with connection.execute_wrapper(listen):
        for run in runs:
            start_runs(Database(), [run])
    assert heard == [str(run.id) for run in runs]
    assert (prepared(), prepared("_pg3")) == (0, 1)


def test_the_log_of_queries_shows_each_of_them_with_its_values() -> None:
    for _ in range(2):
        start()
    run = new_run()
    with CaptureQueriesContext(connection) as seen:
        start_runs(Database(), [run])
    [query] = seen.captured_queries
    assert query["sql"].count(str(run.id)) == 3


def test_a_broken_transaction_takes_none() -> None:
    for _ in range(2):
        with transaction.atomic():
            start()
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            start()


def test_another_thread_may_not_use_the_connection() -> None:
    for _ in range(2):
        start()
    refused: list[Exception] = []
    wrapper = Database().connection

    class Foreign(Database):
        @property
        def connection(self) -> Any:
            return wrapper

    def elsewhere() -> None:
        try:
            start_runs(Foreign(), [new_run()])
        except DatabaseError as error:
            refused.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(refused) == 1


def test_who_waits_for_a_run_asks_by_a_prepared_statement() -> None:
    def prepared_looks() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%CASE WHEN r.status%'")
            return int(cursor.fetchone()[0])

    run = new_run()
    start_runs(Database(), [run])
    found = []
    for text in ["1", "[2]", '"three"']:
        Payload.objects.update_or_create(run_id=run.id, kind="output", defaults={"data": text})
        Run.objects.filter(pk=run.id).update(status="succeeded", queued_at=None)
        found.append(ending_of(Database(), run.id))
    assert found == [("succeeded", "1"), ("succeeded", "[2]"), ("succeeded", '"three"')]
    assert prepared_looks() == 1
    assert ending_of(Database(), uuid7()) is None
    with override_settings(DURABLE={"QUEUE": "database"}):
        assert ending_of(Database(), run.id) == found[-1]


def test_what_a_backend_does_for_each_cursor_it_does_for_each_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that sets the schema of a tenant."""
    made: list[Any] = []
    kind = type(connections[DEFAULT_DB_ALIAS])
    usual = kind._cursor

    def cursor(self: Any, name: str | None = None) -> Any:
        made.append(self)
        return usual(self, name)

    for _ in range(3):
        start()
    monkeypatch.setattr(kind, "_cursor", cursor)
    for _ in range(3):
        made.clear()
        start_runs(Database(), [new_run()])
        assert len(made) == 1
    assert prepared() == 1


def test_who_forbids_queries_on_a_connection_forbids_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Django's SimpleTestCase does."""
    for _ in range(3):
        start()

    def refuse() -> Any:
        raise AssertionError("forbidden")

    monkeypatch.setattr(connection, "cursor", refuse, raising=False)
    with pytest.raises(AssertionError, match="forbidden"):
        start_runs(Database(), [new_run()])


def test_no_event_loop_may_use_it() -> None:
    for _ in range(3):
        start()

    async def within() -> None:
        start_runs(Database(), [new_run()])

    with pytest.raises(SynchronousOnlyOperation):
        asyncio.run(within())


def test_a_connection_that_its_thread_leaves_open_is_not_kept_open() -> None:
    left: list[weakref.ref[Any]] = []

    def elsewhere() -> None:
        for _ in range(3):
            start()
        left.append(weakref.ref(connection.connection))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    with warnings.catch_warnings():
        # psycopg says that nobody has closed it.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    assert [driver() for driver in left] == [None]


@pytest.mark.parametrize("of", [1, 2])
def test_a_claim_of_few_is_planned_once_however_full_the_table_is(of: int) -> None:
    start_runs(Database(), [new_run() for _ in range(3_000)])
    runs = list(Run.objects.order_by("pk")[:20])
    Run.objects.exclude(pk__in=[run.pk for run in runs]).update(status="failed", queued_at=None)
    db = PrivateDatabase()
    # Else each second has statements of its own.
    db._plans = None
    try:
        for first in range(0, len(runs), of):
            claim(db, *runs[first : first + of])
        [planned] = db.rows(
            "SELECT custom_plans, generic_plans FROM pg_prepared_statements"
            " WHERE statement LIKE '%%FOR NO KEY UPDATE SKIP LOCKED%%'"
        )
    finally:
        db.close()
    # PostgreSQL tries five before it compares, and what comes a second time is prepared.
    assert planned == (5, len(runs) // of - 5 - 1)
