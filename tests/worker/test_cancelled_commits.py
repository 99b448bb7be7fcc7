"""A coroutine that is cancelled while its write is on its way to the commit: the write is not abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.models import JournalEntry
from django_durable.store.database import PrivateDatabase
from django_durable.store.receipts import Receipt
from django_durable.worker.committer import Committer
from tests.store.rows import entries, running, step_entry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lease(db: PrivateDatabase) -> Lease:
    return running(db).lease


@pytest.fixture
def engine() -> Iterator[PrivateDatabase]:
    db = PrivateDatabase()
    yield db
    db.close()


@pytest.fixture
def committer(engine: PrivateDatabase) -> Iterator[Committer]:
    committer = Committer(engine, lambda lease, write, receipt: None)
    yield committer
    committer.close()


def paths() -> list[str]:
    return list(JournalEntry.objects.order_by("path").values_list("path", flat=True))


def test_it_hears_of_its_cancellation_once_the_write_is_durable(
    committer: Committer, engine: PrivateDatabase, lease: Lease
) -> None:
    order: list[str] = []

    async def write(path: str) -> Receipt:
        try:
            return await committer.awrite(lease, Write(entries(step_entry(path))))
        finally:
            order.append(path)

    async def cancel() -> None:
        # Whoever commits waits for the connection.
        with engine.lock:
            first = asyncio.create_task(write("first"))
            await asyncio.sleep(0)
            second = asyncio.create_task(write("second"))
            for _ in range(20):
                first.cancel()
                await asyncio.sleep(0)
            assert not first.done()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert first.cancelled()
        assert (await second).is_held

    asyncio.run(cancel())
    assert order == ["first", "second"]
    assert paths() == ["first", "second"]
