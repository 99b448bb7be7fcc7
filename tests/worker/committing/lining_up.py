"""Writes for a committer, the ways to hand them over, and a store that can be held up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.models import JournalEntry
from django_durable.store import committing
from django_durable.store.database import PrivateDatabase
from django_durable.store.receipts import Receipt
from django_durable.worker.committer import Committer
from tests.processes import PATIENCE, wait_until
from tests.store.rows import entries, step_entry

Batches = list[list[UUID]]


class Store:
    """Stands before ``write_batch``: notes every batch, holds the next one up, lets it fail, skips rows as held."""

    def __init__(self) -> None:
        self.batches: Batches = []
        self.errors: list[Exception] = []
        self.held: set[UUID] = set()
        self.is_open = threading.Event()
        self.is_open.set()

    def __call__(self, db: PrivateDatabase, writes: Sequence[tuple[Lease, Write]]) -> Any:
        self.batches.append([lease.run_id for lease, _ in writes])
        assert self.is_open.wait(PATIENCE)
        if self.errors:
            raise self.errors.pop(0)
        free = [(lease, write) for lease, write in writes if lease.run_id not in self.held]
        skipped = {lease.run_id: Receipt() for lease, _ in writes if lease.run_id in self.held}
        return skipped | (committing.write_batch(db, free) if free else {})

    def tries(self, lease: Lease) -> int:
        """How many batches this run was in."""
        return sum(lease.run_id in batch for batch in self.batches)


def a_step(path: str = "step", **columns: Any) -> Write:
    entry = step_entry(path)
    for name, value in columns.items():
        setattr(entry, name, value)
    return Write(entries(entry))


def paths(lease: Lease) -> list[str]:
    return list(JournalEntry.objects.filter(run_id=lease.run_id).order_by("path").values_list("path", flat=True))


def gather(committer: Committer, store: Store, pool: ThreadPoolExecutor, leases: Sequence[Lease]) -> Future[Receipt]:
    """Let a first commit hang, and wait until all the others are in line behind it, in this order."""
    first, *others = leases
    store.is_open.clear()
    leading = pool.submit(committer.write, first, a_step())
    wait_until(lambda: store.batches, message="the first batch")
    for number, one in enumerate(others, start=1):
        pool.submit(committer.write, one, a_step())
        wait_until(lambda number=number: len(committer._waiting) == number, message="the others in line")
    return leading


def awrite(committer: Committer, lease: Lease, write: Write) -> Receipt:
    async def answer() -> Receipt:
        return await committer.awrite(lease, write)

    return asyncio.run(answer())


def sent(committer: Committer, lease: Lease, write: Write, *, may_lead: bool = True) -> Receipt:
    """Of a thread that goes on to other work; here it waits to hear of it."""
    told: Future[Receipt] = Future()
    committer.send(lease, write, partial(hear, told), may_lead=may_lead)
    return told.result(PATIENCE)


def hear(told: Future[Receipt], receipt: Receipt | None, error: BaseException | None) -> None:
    if error is not None:
        told.set_exception(error)
    else:
        assert receipt is not None
        told.set_result(receipt)


WAYS: list[Any] = [Committer.write, awrite, sent, partial(sent, may_lead=False)]
by_thread_and_by_coroutine = pytest.mark.parametrize("write", WAYS, ids=["thread", "coroutine", "sent", "handed over"])
