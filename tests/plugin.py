"""Pytest plugin: starts the servers of a run before Django reads its settings, and stops them after it.

Loaded by `-p tests.plugin` (pyproject.toml), because pytest-django imports the settings before any conftest.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack

import pytest

from tests.servers import Servers, servers_for

SERVERS = pytest.StashKey[Servers]()
CONTRACT_FOLDERS = ("store", "queues", "executor", "worker", "testing")
"""What reaches a database here is part of the contract that every backend keeps; of the queues all is."""
DATABASE_FIXTURES = {"db", "transactional_db"}
QUEUELESS_FOLDERS = ("store", "executor", "testing")
"""What is here cannot see which queue there is: import-linter holds the store to it, and runs are worked on by
`run_until_idle()`, which pushes nothing anywhere (tests/testing/test_running.py)."""


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    # A wrapper comes before every plain implementation, pytest-django's `tryfirst` included.
    servers_stack = ExitStack()
    early_config.add_cleanup(servers_stack.close)
    backend = os.environ.get("DURABLE_TEST_BACKEND") or "postgres-redis"
    try:
        servers = servers_stack.enter_context(servers_for(backend))
    except (RuntimeError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error
    os.environ.update(servers.environment)
    early_config.stash[SERVERS] = servers
    return (yield)


def pytest_report_header(config: pytest.Config) -> str:
    return f"backend: {config.stash[SERVERS].backend}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = config.rootpath / "tests"
    for item in items:
        folder = item.path.relative_to(tests).parts[0] if item.path.is_relative_to(tests) else ""
        if folder == "queues" or (folder in CONTRACT_FOLDERS and reaches_database(item)):
            item.add_marker("contract")
        if folder in QUEUELESS_FOLDERS or item.path.name.startswith("test_postgres_"):
            item.add_marker("queueless")


def reaches_database(item: pytest.Item) -> bool:
    """Without one there is nothing by which a backend could differ."""
    from django.test import TransactionTestCase

    fixtures = set(getattr(item, "fixturenames", ()))
    is_case = issubclass(getattr(item, "cls", None) or object, TransactionTestCase)
    return is_case or bool(item.get_closest_marker("django_db") or fixtures & DATABASE_FIXTURES)
