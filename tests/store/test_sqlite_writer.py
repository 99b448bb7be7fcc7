"""SQLite lets one connection write at a time: the writers of a process stand in line, and none of them is refused."""

from __future__ import annotations

import pytest

from django_durable.store.database import PrivateDatabase
from tests.store.conftest import Connect
from tests.store.parallel import Threads, answer
from tests.store.rows import make_run

pytestmark = pytest.mark.django_db(transaction=True)

WRITE = "UPDATE django_durable_run SET priority = priority + 1"


def hasty(connect: Connect) -> PrivateDatabase:
    """A connection that fails at once where SQLite itself would have to wait."""
    db = connect()
    db.rows("PRAGMA busy_timeout = 0")
    return db


def test_a_second_writer_waits_in_line(connect: Connect, threads: Threads) -> None:
    run = make_run()
    first, second = hasty(connect), hasty(connect)
    with first.transaction():
        first.rows(WRITE)
        writing = threads.start(second.rows, WRITE)
        with pytest.raises(TimeoutError):
            writing.result(0.2)
    answer(writing)
    run.refresh_from_db()
    assert run.priority == 2
