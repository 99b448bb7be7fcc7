"""The engine's own connections to PostgreSQL: beside the project's pool; prepared statements on demand."""

from __future__ import annotations

import pytest
from django.db import DataError, connection
from django.test import override_settings

from django_durable.store.database import PrivateDatabase
from tests.store.conftest import Connect

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


def _prepared(db: PrivateDatabase) -> list[tuple[str]]:
    return [row for row in db.rows("SELECT statement FROM pg_prepared_statements") if row == (PROBE,)]
