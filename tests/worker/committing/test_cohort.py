"""Whom a leader waits for before it commits: the threads that the last commit has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.worker import cohort
from django_durable.worker import committer as committer_module
from django_durable.worker.committer import Committer
from tests.processes import PATIENCE, wait_until
from tests.worker.committing.lining_up import Store, a_step, gather

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def without_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is waited for is waited for until it comes: whoever is not would let a test fail."""
    monkeypatch.setattr(cohort, "TURN_SECONDS", 10 * PATIENCE)
    monkeypatch.setattr(cohort, "LONGEST_SECONDS", 10 * PATIENCE)


def await_waiting_leader(committer: Committer) -> None:
    wait_until(lambda: committer._cohort._all_returned is not None, message="the leader waits")


@pytest.mark.usefixtures("without_haste")
def test_threads_that_were_answered_together_share_the_next_commit(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease]
) -> None:
    leases = [lease() for _ in range(4)]
    leading = gather(committer, store, pool, leases)
    store.is_open.set()
    assert leading.result(PATIENCE).is_held
    wait_until(lambda: not committer._is_led, message="the commit of the three")
    early, *others = [one.run_id for one in leases[1:]]
    writes = [pool.submit(committer.write, leases[1], a_step("next"))]
    # One of three leads, and waits for two: one comes with its next write, one with its run's end.
    await_waiting_leader(committer)
    assert len(store.batches) == 2
    writes.append(pool.submit(committer.write, leases[2], a_step("next")))
    wait_until(lambda: len(committer._waiting) == 2, message="the second one in line")
    assert len(store.batches) == 2
    committer.send(leases[3], a_step("next"), lambda receipt, error: None, may_lead=False)
    assert all(write.result(PATIENCE).is_held for write in writes)
    assert [len(batch) for batch in store.batches] == [1, 3, 3]
    assert (store.batches[2][0], set(store.batches[2][1:])) == (early, set(others))


@pytest.mark.usefixtures("without_haste")
def test_nobody_waits_for_coroutines(committer: Committer, store: Store, lease: Callable[[], Lease]) -> None:
    """They are answered all at once and come as they come."""
    leases = [lease() for _ in range(3)]

    def are_there() -> bool:
        return bool(store.batches) and len(store.batches[0]) + len(committer._waiting) == len(leases)

    async def together() -> None:
        writes = asyncio.gather(*(committer.awrite(one, a_step()) for one in leases))
        await asyncio.to_thread(wait_until, are_there, message="all in line")
        store.is_open.set()
        await writes

    store.is_open.clear()
    asyncio.run(together())
    assert max(len(batch) for batch in store.batches) > 1
    assert committer.write(leases[0], a_step("next")).is_held


@pytest.mark.usefixtures("without_haste")
def test_nobody_waits_for_threads_whose_row_is_held(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease]
) -> None:
    leases = [lease() for _ in range(3)]
    store.held.update(one.run_id for one in leases[1:])
    leading = gather(committer, store, pool, leases)
    store.is_open.set()
    assert leading.result(PATIENCE).is_held
    wait_until(lambda: all(store.tries(one) > 0 for one in leases[1:]), message="both were skipped")
    assert pool.submit(committer.write, leases[0], a_step("next")).result(PATIENCE).is_held
    store.held.clear()


@pytest.mark.usefixtures("without_haste")
def test_nobody_waits_for_branches_whose_run_is_in_line_already(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease]
) -> None:
    """A run has one write in a batch: what another of its branches brings is for the one after it."""
    leases = [lease() for _ in range(3)]
    first, *families = leases
    store.is_open.clear()
    writes = [pool.submit(committer.write, first, a_step())]
    wait_until(lambda: store.batches, message="the first batch")
    for number, (branch, one) in enumerate(((branch, one) for branch in "ab" for one in families), start=1):
        writes.append(pool.submit(committer.write, one, a_step(branch)))
        wait_until(lambda number=number: len(committer._waiting) == number, message="the branches in line")
    store.is_open.set()
    assert all(write.result(PATIENCE).is_held for write in writes)
    assert [len(batch) for batch in store.batches] == [1, 2, 2]


@pytest.mark.usefixtures("without_haste")
def test_nobody_waits_for_more_than_a_batch_has_room_for(
    committer: Committer,
    store: Store,
    pool: ThreadPoolExecutor,
    lease: Callable[[], Lease],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committer_module, "BATCH", 3)
    leases = [lease() for _ in range(6)]
    leading = gather(committer, store, pool, leases)
    store.is_open.set()
    assert leading.result(PATIENCE).is_held
    # Of the three that were answered one may come with the two that are in line, and one is no cohort.
    wait_until(lambda: len(store.batches) == 3, message="the rest of them")
    assert [len(batch) for batch in store.batches] == [1, 3, 2]
