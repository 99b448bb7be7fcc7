"""An event loop that fills a batch where commits take long: it sleeps until that is taken, and only where it gains."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf

import pytest

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from django_durable.store.receipts import Receipt
from django_durable.worker import giving_way as giving_way_module
from django_durable.worker.committer import Committer
from django_durable.worker.giving_way import REST_SECONDS, GivingWay
from tests.processes import PATIENCE, wait_until
from tests.worker.committing.beside import BATCH, Commits, begin, hand_over
from tests.worker.committing.lining_up import a_step

pytestmark = pytest.mark.django_db(transaction=True)

HoldBack = Callable[[object, str], threading.Event]


@pytest.fixture
def hold_back(monkeypatch: pytest.MonkeyPatch, commits: Commits) -> Iterator[HoldBack]:
    """Let a method begin only once what this returns is set, or the test is over."""
    made: list[threading.Event] = []

    def hold_back(owner: object, name: str) -> threading.Event:
        may_begin, method = threading.Event(), getattr(owner, name)
        made.append(may_begin)
        monkeypatch.setattr(owner, name, lambda: may_begin.wait(PATIENCE) and method())
        return may_begin

    yield hold_back
    for event in made:
        event.set()
    commits.finish_all()


class Loop:
    """An event loop of one coroutine, which hands over one write."""

    def __init__(self, pool: ThreadPoolExecutor, committer: Committer, lease: Lease) -> None:
        self.goes_on = threading.Event()
        self.told: Future[Receipt] = pool.submit(lambda: asyncio.run(self._write(committer, lease)))

    async def _write(self, committer: Committer, lease: Lease) -> Receipt:
        answer = committer.awrite(lease, a_step())
        self.goes_on.set()
        return await answer


@pytest.mark.parametrize("by", ["relief", "own thread"])
def test_a_loop_that_fills_a_batch_lets_it_be_taken(
    pool: ThreadPoolExecutor,
    slow: Committer,
    commits: Commits,
    leases: list[Lease],
    hold_back: HoldBack,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
) -> None:
    """It goes on when the batch is on its way, and not before."""
    monkeypatch.setattr(giving_way_module, "WAY_SECONDS", PATIENCE)
    told = []
    if by == "relief":
        told.append(begin(slow, commits, leases[0]))
        may_take = hold_back(slow._relief, "_relieve")
    else:
        may_take = hold_back(slow, "_is_to_lead")
    told += [hand_over(slow, one) for one in leases[1:3]]
    loop = Loop(pool, slow, leases[3])
    wait_until(lambda: slow._way._taken or loop.goes_on.is_set(), message="a loop that waits until it is taken")
    assert len(slow._waiting) == BATCH and not loop.goes_on.is_set()
    may_take.set()
    assert loop.goes_on.wait(PATIENCE)
    assert not slow._waiting
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (*told, loop.told))


def test_nobody_but_a_loop_sleeps(slow: Committer, commits: Commits, leases: list[Lease], hold_back: HoldBack) -> None:
    """Least of all who would come for the batch, and tells of the end of a run."""
    told = [begin(slow, commits, leases[0])]
    may_take = hold_back(slow._relief, "_relieve")
    told += [hand_over(slow, one) for one in leases[1:4]]
    assert slow._relief.is_under_way and slow._way._taken is None
    may_take.set()
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in told)


def test_where_nobody_comes_for_it_no_loop_sleeps(
    pool: ThreadPoolExecutor, slow: Committer, commits: Commits, leases: list[Lease]
) -> None:
    """Whose connection has failed is not called."""
    told = [begin(slow, commits, leases[0])]
    slow._relief._rests_until = inf
    told += [hand_over(slow, one) for one in leases[1:3]]
    loop = Loop(pool, slow, leases[3])
    assert loop.goes_on.wait(PATIENCE)
    assert len(slow._waiting) == BATCH and slow._way._taken is None
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (*told, loop.told))


def test_where_commits_are_quick_no_loop_sleeps(
    pool: ThreadPoolExecutor, committer: Committer, commits: Commits, leases: list[Lease], hold_back: HoldBack
) -> None:
    committer._relief._slow = 1e9
    may_take = hold_back(committer, "_is_to_lead")
    told = [hand_over(committer, one) for one in leases[:2]]
    loop = Loop(pool, committer, leases[2])
    assert loop.goes_on.wait(PATIENCE)
    assert len(committer._waiting) == BATCH and committer._way._taken is None
    may_take.set()
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (*told, loop.told))


# --- for how long ---------------------------------------------------------------------------------


def test_a_loop_sleeps_for_a_millisecond_at_most() -> None:
    way, asked = GivingWay(), []

    class Taken:
        def acquire(self, timeout: float) -> bool:
            asked.append(timeout)
            return True

    way.wait(Taken())  # type: ignore[arg-type]
    assert asked == [0.001]


def test_one_sleeps_for_each_batch() -> None:
    way = GivingWay()
    taken = way.until_taken()
    assert taken is not None and way.until_taken() is None
    way.taken()
    assert taken.acquire(blocking=False)
    assert way.until_taken() is not None


def test_after_one_has_slept_in_vain_none_does_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else of the process has the interpreter."""
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    way = GivingWay()
    taken = way.until_taken()
    assert taken is not None
    way.wait(taken)
    way.taken()
    assert way.until_taken() is None
    now += REST_SECONDS
    taken = way.until_taken()
    assert taken is not None
    way.taken()
    # This one was taken in time.
    way.wait(taken)
    assert way.until_taken() is not None
