"""What the connections of a worker process are told of a server that is gone. `tests/system` has one that vanishes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import override_settings

from django_durable.store.database import PrivateDatabase
from django_durable.worker.silence import bound

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this test alone."""
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", dict(connection.settings_dict["OPTIONS"]))


def told() -> dict[str, Any]:
    """What libpq knows in a new session, one of the engine's own."""
    db = PrivateDatabase()
    try:
        db.rows("SELECT 1")
        parameters: dict[str, Any] = db.connection.connection.info.get_parameters()
        return parameters
    finally:
        db.close()


@pytest.mark.parametrize(
    ("lease", "expected"),
    [(0.2, "10 1000 1 1 2"), (30, "30 30000 10 10 2"), (2.5, "10 2500 1 1 2"), (10**6, "86400 86400000 28800 28800 2")],
)
def test_it_is_given_up_after_a_lease(lease: float, expected: str) -> None:
    with override_settings(DURABLE={"QUEUE": "database", "LEASE_SECONDS": lease}):
        bound()
    parameters = told()
    names = ("connect_timeout", "tcp_user_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count")
    assert " ".join(parameters[name] for name in names) == expected


def test_steps_too() -> None:
    bound()
    connection.close()
    connection.ensure_connection()
    assert "tcp_user_timeout" in connection.connection.info.get_parameters()
    connection.close()


def test_what_the_project_says_holds() -> None:
    connection.settings_dict["OPTIONS"]["tcp_user_timeout"] = 7_000
    bound()
    assert told()["tcp_user_timeout"] == "7000"


def test_what_a_service_file_or_the_environment_may_say_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    bound()
    assert "connect_timeout" not in connection.settings_dict["OPTIONS"]
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", {"service": "shop"})
    bound()
    assert connection.settings_dict["OPTIONS"] == {"service": "shop"}


def test_an_old_libpq_is_told_nothing_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psycopg.pq.version", lambda: 110_022)
    bound()
    assert "tcp_user_timeout" not in connection.settings_dict["OPTIONS"]
    assert "keepalives_idle" in connection.settings_dict["OPTIONS"]
