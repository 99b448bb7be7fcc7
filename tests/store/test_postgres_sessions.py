"""The engine's own connections to PostgreSQL: beside the project's pool; prepared statements on demand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from django.db import DataError, connection
from django.test import override_settings

from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.store import database
from django_durable.store.claiming import claim_ids
from django_durable.store.database import Database, Plans, PrivateDatabase
from django_durable.store.starting import start_runs
from tests.store.conftest import Connect
from tests.store.rows import claimant, new_run

pytestmark = pytest.mark.django_db(transaction=True)

PROBE = "SELECT 'a probe'"


def test_they_are_outside_of_the_project_s_pool(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that the project's requests have emptied would stop the worker."""
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "pool", {"min_size": 1, "max_size": 1})
    first, second = connect(), connect()
    assert first.rows(PROBE) == second.rows(PROBE) == [("a probe",)]
    assert first.connection.pool is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("prepared", [False, True])
def test_they_prepare_statements_when_the_project_says_so(connect: Connect, prepared: bool) -> None:
    with override_settings(DURABLE={"QUEUE": "database", "PREPARED_STATEMENTS": prepared}):
        db = connect()
    for _ in range(6):
        db.rows(PROBE)
    assert _prepared(db) == ([(PROBE,)] if prepared else [])


def test_a_transaction_that_could_not_begin_leaves_none_behind(connect: Connect) -> None:
    db = connect()
    too_long = override_settings(DURABLE={"QUEUE": "database", "LEASE_SECONDS": 10**8})
    with too_long, pytest.raises(DataError), db.transaction():
        pass
    assert db.rows(PROBE) == [("a probe",)]


def test_prepared_statements_are_planned_anew_soon_and_then_each_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    plans, seen = Plans(), {}
    for tick in range(4000):
        now[0] = 100 + tick / 10
        seen.setdefault(plans.current("SELECT 1"), round(now[0] - 100))
    begun = list(seen.values())
    assert begun[:7] == [0, 1, 3, 7, 15, 31, 63]
    assert [later - earlier for earlier, later in pairwise(begun[6:])] == [60] * (len(begun) - 7) != []


def test_a_statement_is_the_same_object_as_long_as_its_plan_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """By that a cursor knows that it has learned the types of this statement."""
    now = [100.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    plans, texts = Plans(), ["SELECT 1", "SELECT 2"]
    first = [plans.current(text) for text in texts]
    assert all(plans.current("".join(text)) is before for text, before in zip(texts, first, strict=True))
    now[0] += 2
    later = [plans.current(text) for text in texts]
    assert len({*first, *later}) == 4
    assert all(plans.current(text) is before for text, before in zip(texts, later, strict=True))


def test_statements_that_never_come_again_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 100.0)
    plans = Plans()
    for number in range(10 * database.MOST_TEXTS):
        assert plans.current(f"SELECT {number}").startswith(f"SELECT {number} ")
    assert len(plans._texts) <= database.MOST_TEXTS


@pytest.fixture
def _no_autovacuum(connect: Connect) -> Iterator[None]:
    """Where it counts the rows of a table, the server plans anew what reads that."""
    db, tables = connect(), ("django_durable_run", "django_durable_payload")
    for table in tables:
        db.rows(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    yield
    for table in tables:
        db.rows(f"ALTER TABLE {table} RESET (autovacuum_enabled)")


@pytest.mark.usefixtures("_no_autovacuum")
def test_what_was_prepared_on_an_empty_table_finds_its_rows_in_a_full_one_by_the_index(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [clock.monotonic()]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    with override_settings(DURABLE={"QUEUE": "database", "PREPARED_STATEMENTS": True}):
        db = connect()
    who, time = claimant(), DatabaseClock()
    # As new: without the pages that the rows of other tests have left, and whatever is known of those.
    db.rows("DELETE FROM pg_statistic WHERE starelid = 'django_durable_run'::regclass")
    db.rows("TRUNCATE django_durable_run")

    def scans() -> int:
        """How often ten claims of several runs read the whole table: of one, they find it by its id even in an empty
        one."""
        before = _scans(db)
        for _ in range(10):
            assert not claim_ids(db, who, [uuid7(), uuid7()], lease=30, time=time)
        return _scans(db) - before

    scans()
    start_runs(db, [new_run() for _ in range(3000)])
    # What this test is about: the server does not plan them anew by itself.
    assert scans() == 10
    now[0] += 1.1
    assert scans() == 0


def _scans(db: PrivateDatabase) -> int:
    # The tests' own session too: it may have something to tell of the tests before.
    for one in (Database(), db):
        one.rows("SELECT pg_stat_force_next_flush()")
    return int(db.rows("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'django_durable_run'")[0][0])


def _prepared(db: PrivateDatabase) -> list[tuple[str]]:
    statements = db.rows("SELECT split_part(statement, ' /*', 1) FROM pg_prepared_statements")
    return [row for row in statements if row == (PROBE,)]
