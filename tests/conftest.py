"""Fixtures for all tests. The servers themselves are started by `tests/plugin.py`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator
from datetime import timedelta
from pathlib import Path

import hypothesis
import pytest
from django.conf import settings as django_settings
from django.db import connection, connections
from django.dispatch import Signal

from django_durable import signals
from django_durable.core import clock
from tests import processes
from tests.emptying import empty_quickly
from tests.plugin import SERVERS, reaches_database
from tests.servers import Folder, PostgresServer, RedisServer, Servers

# What only PostgreSQL has: plans, statistics, isolation levels, row locks that can be looked at. And what only SQLite
# has: one writer at a time.
collect_ignore_glob = ["*/test_postgres_*.py" if django_settings.BACKEND == "sqlite" else "*/test_sqlite_*.py"]
# What a shell starts with ``&`` is told to ignore SIGINT, and so would be all that tests start: they send it, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# How long an example takes is no promise of ours, and on a machine that is busy no fault.
hypothesis.settings.register_profile("ours", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("ours")
# No part of the suite: they need a browser, what root and Debian have, or minutes. `make test-browser`, `test-system`
# and `test-faults` say that they are meant.
APART = {"browser": "DURABLE_TEST_BROWSER", "faults": "DURABLE_TEST_FAULTS", "system": "DURABLE_TEST_SYSTEM"}
collect_ignore = [folder for folder, name in APART.items() if name not in os.environ]


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Servers:
    return pytestconfig.stash[SERVERS]


@pytest.fixture(scope="session")
def backend(servers: Servers) -> str:
    """`postgres-redis`, `postgres-database` or `sqlite`."""
    return servers.backend


@pytest.fixture
def postgres_server(servers: Servers, transactional_db: None) -> Iterator[PostgresServer]:
    """The run's PostgreSQL, for tests that stop or restart it; it runs again afterwards."""
    if servers.postgres is None:
        pytest.skip("needs a PostgreSQL that belongs to the test run")
    yield servers.postgres
    # Before the tables are emptied, which is why this fixture stands on `transactional_db`.
    servers.postgres.start()
    connection.close()


@pytest.fixture
def redis_server(servers: Servers) -> Iterator[RedisServer]:
    """The run's Redis, for tests that stop, kill or empty it; it runs again afterwards."""
    if servers.redis is None:
        pytest.skip("needs a Redis that belongs to the test run")
    yield servers.redis
    servers.redis.start()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for servers that a test starts itself (as root, pytest's `tmp_path` is closed to other users)."""
    with Folder() as path:
        yield path


@pytest.fixture
def possible_tables() -> Iterator[None]:
    """What a test leaves in the tables is possible, as `durable_check` says. Nobody has to have swept."""
    yield
    from tests.invariants import NO_SWEEP, violated

    assert violated(settled=NO_SWEEP) == []


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """Tells the processes that tests start which database this run made."""
    os.environ["DURABLE_TEST_DATABASE_NAME"] = str(connection.settings_dict["NAME"])
    empty_quickly()


@pytest.fixture(autouse=True)
def _no_connection(request: pytest.FixtureRequest) -> None:
    """A test that has no database does not find the connection that those before it kept (`tests/emptying.py`)."""
    if not reaches_database(request.node):
        connections.close_all()


@pytest.fixture(autouse=True)
def _empty_redis() -> None:
    if django_settings.QUEUE == "redis":
        from django_redis import get_redis_connection

        get_redis_connection("default").flushdb()


SIGNALS = [signal for signal in vars(signals).values() if isinstance(signal, Signal)]


@pytest.fixture(autouse=True)
def _no_receiver_left() -> Iterator[None]:
    """Receivers are held weakly: one that a test connected lives on until garbage is collected, whenever that is."""
    before = [list(one.receivers) for one in SIGNALS]
    yield
    for one, receivers in zip(SIGNALS, before, strict=True):
        one.receivers = receivers


@pytest.fixture
def travel() -> Iterator[Callable[[float], None]]:
    """Moves the clock of this process and of its statements on, by seconds."""

    def on(seconds: float) -> None:
        clock.set_offset(clock.offset() + timedelta(seconds=seconds))

    yield on
    clock.set_offset(timedelta(0))


@pytest.fixture(autouse=True)
def _no_process_left() -> Iterator[None]:
    yield
    processes.kill_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections += [(f"log of {process}", process.log) for process in processes.started]
    return report
