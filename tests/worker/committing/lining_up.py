"""Writes for a committer, the ways to hand them over, and a store that can be held up."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Sequence
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
TURNS = 20


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
        return self.write(db, writes)

    def write(self, db: PrivateDatabase, writes: Sequence[tuple[Lease, Write]]) -> Any:
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


def throng(committer: Committer, store: Store, threaded: Sequence[Lease], looped: Sequence[Lease]) -> None:
    """Twenty writes each, by threads in all their ways and by coroutines, while some of their rows are held for a
    moment: until all are made and answered, and nobody leads or waits any more."""
    dice = random.Random(4711)
    everybody = [one.run_id for one in (*threaded, *looped)]
    before = JournalEntry.objects.count()
    is_over = threading.Event()

    def hold() -> None:
        while not is_over.wait(0.003):
            store.held = set(dice.sample(everybody, len(everybody) // 4))

    def steps(mine: Lease) -> None:
        for turn in range(TURNS):
            assert WAYS[dice.choice([0, 2, 3])](committer, mine, a_step(f"{turn}")).is_held

    async def asteps(mine: Lease) -> None:
        for turn in range(TURNS):
            assert (await committer.awrite(mine, a_step(f"{turn}"))).is_held

    async def all_of_them() -> None:
        await asyncio.gather(*(asteps(mine) for mine in looped))

    # Whoever waits for ever must not keep the others from being told of it.
    calls: list[Callable[[], object]] = [hold, lambda: asyncio.run(all_of_them())]
    calls += [partial(steps, mine) for mine in threaded]
    holding, *writing = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in (holding, *writing):
        thread.start()
    expected = before + TURNS * len(everybody)
    try:
        wait_until(lambda: JournalEntry.objects.count() == expected, 30, message="all writes")
        wait_until(lambda: not any(thread.is_alive() for thread in writing), message="all answers")
    finally:
        is_over.set()
        holding.join(PATIENCE)
        store.held = set()
    wait_until(lambda: not committer._is_led and not committer._relief.is_under_way, message="everybody to step down")
    assert not committer._waiting and not committer._held and not committer._under_way
