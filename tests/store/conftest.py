from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from django_durable.core import clock
from django_durable.store import locking
from django_durable.store.database import PrivateDatabase
from tests.store.parallel import SECONDS, Threads

Connect = Callable[[], PrivateDatabase]


@pytest.fixture
def connect(transactional_db: None) -> Iterator[Connect]:
    """Makes connections of their own, as each worker process has one."""
    made: list[PrivateDatabase] = []

    def one() -> PrivateDatabase:
        made.append(PrivateDatabase())
        return made[-1]

    yield one
    for db in made:
        db.close()


@pytest.fixture
def db(connect: Connect) -> PrivateDatabase:
    return connect()


@pytest.fixture
def threads(connect: Connect) -> Iterator[Threads]:
    with Threads() as threads:
        yield threads


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a row does so until the test lets go of it, whatever this machine does in between."""
    monkeypatch.setattr(locking, "LOCK_SECONDS", SECONDS)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each statement that came so far that says its types whether it went without a cursor."""
    # Not on SQLite, where there need be no psycopg.
    from django_durable.store.typed_statements import TypedStatements

    found: list[bool] = []
    rows: Callable[..., Any] = TypedStatements.rows

    def told(self: Any, *given: Any) -> Any:
        answer = rows(self, *given)
        found.append(answer is not None)
        return answer

    monkeypatch.setattr(TypedStatements, "rows", told)
    return found


@pytest.fixture
def unmoved_clock() -> Iterator[None]:
    yield
    clock.set_offset(timedelta(0))
