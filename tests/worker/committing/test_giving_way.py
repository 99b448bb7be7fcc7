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
from django_durable.worker import relief as relief_module
from django_durable.worker.committer import Committer
from django_durable.worker.giving_way import VAIN_SECONDS, GivingWay
from tests.processes import PATIENCE, wait_until
from tests.worker.committing.beside import BATCH, Commits, begin, hand_over
from tests.worker.committing.lining_up import a_step

with_database = pytest.mark.django_db(transaction=True)

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
    """An event loop of one coroutine, which hands over one write: a step, or the end of its run."""

    def __init__(self, pool: ThreadPoolExecutor, committer: Committer, lease: Lease, *, ends: bool = False) -> None:
        self._ends = ends
        self.goes_on = threading.Event()
        self.told: Future[Receipt] = pool.submit(lambda: asyncio.run(self._write(committer, lease)))

    async def _write(self, committer: Committer, lease: Lease) -> Receipt:
        if self._ends:
            # As what follows the end of a run's task.
            answer = asyncio.wrap_future(hand_over(committer, lease))
        else:
            answer = asyncio.ensure_future(committer.awrite(lease, a_step()))
        self.goes_on.set()
        return await answer


@with_database
@pytest.mark.parametrize("ends", [False, True], ids=["a step", "an end"])
@pytest.mark.parametrize("by", ["relief", "own thread"])
def test_a_loop_that_fills_a_batch_lets_it_be_taken(
    pool: ThreadPoolExecutor,
    slow: Committer,
    commits: Commits,
    leases: list[Lease],
    hold_back: HoldBack,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    ends: bool,
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
    loop = Loop(pool, slow, leases[3], ends=ends)
    wait_until(lambda: slow._way._takes or loop.goes_on.is_set(), message="a loop that waits until it is taken")
    assert len(slow._waiting) == BATCH and not loop.goes_on.is_set()
    may_take.set()
    assert loop.goes_on.wait(PATIENCE)
    assert not slow._waiting
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (*told, loop.told))


@with_database
def test_no_thread_sleeps(slow: Committer, commits: Commits, leases: list[Lease], hold_back: HoldBack) -> None:
    """Least of all the one that would come: who is told of a commit may hand over the next write."""
    told = [begin(slow, commits, leases[0])]
    may_take = hold_back(slow._relief, "_relieve")
    told += [hand_over(slow, one) for one in leases[1:4]]
    assert slow._relief.is_under_way and slow._way._takes is None
    may_take.set()
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in told)


@with_database
def test_a_loop_that_fills_no_batch_does_not_sleep(
    pool: ThreadPoolExecutor, slow: Committer, commits: Commits, leases: list[Lease], hold_back: HoldBack
) -> None:
    may_take = hold_back(slow, "_is_to_lead")
    told = [hand_over(slow, leases[0])]
    loop = Loop(pool, slow, leases[1])
    assert loop.goes_on.wait(PATIENCE)
    assert len(slow._waiting) == BATCH - 1 and slow._way._takes is None
    may_take.set()
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (*told, loop.told))


@with_database
def test_no_loop_sleeps_for_writes_of_runs_that_are_under_way(
    pool: ThreadPoolExecutor,
    slow: Committer,
    commits: Commits,
    leases: list[Lease],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of branches, say: whoever is called finds less than a batch."""
    monkeypatch.setattr(relief_module, "LATE_SECONDS", PATIENCE)
    told = [begin(slow, commits, leases[0])]
    told += [hand_over(slow, one) for one in leases[1:4]]
    wait_until(lambda: len(commits.batches) == 2, message="the relief")
    commits.finish(0)
    wait_until(lambda: not slow._is_led, message="the leader to step down")
    told += [hand_over(slow, one, a_step("another")) for one in leases[1:3]]
    loop = Loop(pool, slow, leases[4])
    assert loop.goes_on.wait(PATIENCE)
    assert len(slow._waiting) == BATCH and slow._way._takes is None
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (*told, loop.told))


@with_database
def test_where_nobody_comes_for_it_no_loop_sleeps(
    pool: ThreadPoolExecutor, slow: Committer, commits: Commits, leases: list[Lease]
) -> None:
    """Whose connection has failed is not called."""
    told = [begin(slow, commits, leases[0])]
    slow._relief._rests_until = inf
    told += [hand_over(slow, one) for one in leases[1:3]]
    loop = Loop(pool, slow, leases[3])
    assert loop.goes_on.wait(PATIENCE)
    assert len(slow._waiting) == BATCH and slow._way._takes is None
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (*told, loop.told))


@with_database
def test_where_commits_are_quick_no_loop_sleeps(
    pool: ThreadPoolExecutor, committer: Committer, commits: Commits, leases: list[Lease], hold_back: HoldBack
) -> None:
    committer._relief._slow = 1e9
    may_take = hold_back(committer, "_is_to_lead")
    told = [hand_over(committer, one) for one in leases[:2]]
    loop = Loop(pool, committer, leases[2])
    assert loop.goes_on.wait(PATIENCE)
    assert len(committer._waiting) == BATCH and committer._way._takes is None
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
    now += VAIN_SECONDS
    taken = way.until_taken()
    assert taken is not None
    way.taken()
    # This one was taken in time.
    way.wait(taken)
    assert way.until_taken() is not None
