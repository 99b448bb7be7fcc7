from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from django_durable.store.database import PrivateDatabase
from tests.queues.conftest import patient  # noqa: F401  (a fixture)

Connect = Callable[[], PrivateDatabase]


@pytest.fixture
def connect(transactional_db: None) -> Iterator[Connect]:
    """Makes connections of their own, as each part of a worker process has one."""
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
