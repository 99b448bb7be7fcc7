from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

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
def unmoved_clock() -> Iterator[None]:
    yield
    clock.set_offset(timedelta(0))
