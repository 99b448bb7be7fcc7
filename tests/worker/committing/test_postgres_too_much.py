"""What a server of its own accord refuses to do in one statement, since it takes too long or too much memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.models import JournalEntry
from django_durable.store.database import PrivateDatabase
from django_durable.worker import batch_writer
from django_durable.worker.committer import Committer
from tests.processes import PATIENCE, wait_until
from tests.worker.committing.lining_up import Store, gather

pytestmark = pytest.mark.django_db(transaction=True)

TAKES_LONG = "SELECT pg_sleep(60)"
OUT_OF_MEMORY = "DO $$ BEGIN RAISE 'out of memory' USING ERRCODE = 'out_of_memory'; END $$"


def refuse(db: PrivateDatabase, statement: str) -> None:
    with db.transaction():
        db.rows("SET LOCAL statement_timeout = '10ms'")
        db.rows(statement)


@pytest.mark.parametrize("refused", [TAKES_LONG, OUT_OF_MEMORY], ids=["time", "memory"])
def test_what_is_too_much_for_one_commit_is_made_durable_by_several(
    refused: str,
    committer: Committer,
    store: Store,
    pool: ThreadPoolExecutor,
    lease: Callable[[], Lease],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def write(db: PrivateDatabase, writes: Sequence[tuple[Lease, Write]]) -> Any:
        if len(writes) > 2:
            store.batches.append([one.run_id for one, _ in writes])
            refuse(db, refused)
        return store(db, writes)

    monkeypatch.setattr(batch_writer, "write_batch", write)
    leases = [lease() for _ in range(6)]
    leading = gather(committer, store, pool, leases)
    store.is_open.set()
    assert leading.result(PATIENCE).is_held
    wait_until(lambda: JournalEntry.objects.count() == 6, message="all writes")
    assert [len(batch) for batch in store.batches] == [1, 5, 2, 3, 1, 2]


def test_what_is_too_much_by_itself_is_tried_again(
    committer: Committer, lease: Callable[[], Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is busy with others refuses the smallest write, until it is not."""
    tries: list[int] = []

    def write(db: PrivateDatabase, writes: Sequence[tuple[Lease, Write]]) -> Any:
        tries.append(len(writes))
        if len(tries) < 3:
            refuse(db, TAKES_LONG)
        return written(db, writes)

    written = batch_writer.write_batch
    monkeypatch.setattr(batch_writer, "write_batch", write)
    pauses: list[float] = []
    monkeypatch.setattr(batch_writer, "time", SimpleNamespace(sleep=pauses.append))
    assert committer.write(lease(), Write()).is_held
    assert tries == [1, 1, 1]
    assert pauses == [0.05, 0.1]
