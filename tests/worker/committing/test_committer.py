"""Group commit: who leads, who is in which batch, and what becomes of the writes that cannot be made durable."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.db.utils import OperationalError

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from django_durable.models import JournalEntry
from django_durable.store.database import PrivateDatabase
from django_durable.store.receipts import Receipt
from django_durable.worker import batch_writer
from django_durable.worker.committer import Committer
from tests.processes import PATIENCE, wait_until
from tests.store.rows import REFUSED_SEQ, Refused
from tests.worker.committing.lining_up import Store, a_step, awrite, gather, hear, paths, sent

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_lone_writer_leads_its_own_commit(
    committer: Committer, lease: Callable[[], Lease], leaders: list[str]
) -> None:
    mine = lease()
    receipt = committer.write(mine, a_step())
    assert (receipt.is_held, receipt.is_lost) == (True, False)
    assert paths(mine) == ["step"]
    assert leaders == [threading.current_thread().name]


def test_what_gathers_during_a_commit_goes_into_the_next_one(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease], leaders: list[str]
) -> None:
    leases = [lease() for _ in range(6)]
    leading = gather(committer, store, pool, leases)
    store.is_open.set()
    assert leading.result(PATIENCE).is_held
    wait_until(lambda: len(leaders) == 6, message="all writes")
    assert [len(batch) for batch in store.batches] == [1, 5]
    assert store.batches[1] == [one.run_id for one in leases[1:]]
    # The first leader does not work for the others any longer than for itself.
    assert len(set(leaders)) == 2


def test_coroutines_are_led_by_the_committers_own_thread(
    committer: Committer, lease: Callable[[], Lease], leaders: list[str]
) -> None:
    mine = lease()
    assert awrite(committer, mine, a_step()).is_held
    assert leaders == ["durable-committer"]


def test_threads_and_coroutines_share_commits(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease], leaders: list[str]
) -> None:
    """Leadership goes back and forth between both sorts; nobody is left waiting."""
    threaded, looped = [lease() for _ in range(10)], [lease() for _ in range(10)]

    def steps(mine: Lease) -> None:
        for turn in range(10):
            assert committer.write(mine, a_step(f"{turn}")).is_held

    async def asteps(mine: Lease) -> None:
        for turn in range(10):
            assert (await committer.awrite(mine, a_step(f"{turn}"))).is_held

    async def all_of_them() -> None:
        await asyncio.gather(*(asteps(mine) for mine in looped))

    futures = [pool.submit(steps, mine) for mine in threaded]
    asyncio.run(asyncio.wait_for(all_of_them(), 30))
    for future in futures:
        future.result(30)
    assert JournalEntry.objects.count() == 200
    assert all(len(batch) == len(set(batch)) for batch in store.batches)
    assert len(store.batches) < 200
    # Who led in the throng is chance; a coroutine that is alone is led by the committer's own thread.
    assert awrite(committer, looped[0], a_step("last")).is_held
    assert leaders[-1] == "durable-committer"


def test_each_run_is_in_a_batch_once(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease]
) -> None:
    mine, other = lease(), lease()
    gather(committer, store, pool, [lease(), other])
    branches = [pool.submit(committer.write, mine, a_step(path)) for path in ("a", "b")]
    wait_until(lambda: len(committer._waiting) == 3, message="both branches in line")
    store.is_open.set()
    assert all(branch.result(PATIENCE).is_held for branch in branches)
    assert paths(mine) == ["a", "b"]
    assert store.batches[1:] == [[other.run_id, mine.run_id], [mine.run_id]]


def test_a_value_that_the_database_refuses_fails_alone(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease]
) -> None:
    good = [lease() for _ in range(6)]
    gather(committer, store, pool, good)
    bad = pool.submit(committer.write, lease(), a_step(seq=REFUSED_SEQ))
    wait_until(lambda: len(committer._waiting) == 6, message="the bad one in line")
    store.is_open.set()
    with pytest.raises(Refused):
        bad.result(PATIENCE)
    wait_until(lambda: JournalEntry.objects.count() == 6, message="the good ones")
    assert {entry.run_id for entry in JournalEntry.objects.all()} == {one.run_id for one in good}


def test_an_error_of_our_own_does_not_leave_anybody_waiting(
    committer: Committer, store: Store, lease: Callable[[], Lease]
) -> None:
    mine = lease()
    store.errors = [ValueError("a mistake in the store")]
    with pytest.raises(ValueError, match="a mistake"):
        committer.write(mine, a_step())
    assert committer.write(mine, a_step()).is_held
    store.errors = [ValueError("another")]
    with pytest.raises(ValueError, match="another"):
        awrite(committer, mine, a_step())


def test_what_fails_after_a_commit_does_not_undo_it(
    store: Store, db: PrivateDatabase, pool: ThreadPoolExecutor, lease: Callable[[], Lease]
) -> None:
    def after(*_: Any) -> None:
        raise ValueError("a mistake in a signal")

    committer, leases = Committer(db, after), [lease() for _ in range(3)]
    leading = gather(committer, store, pool, leases)
    store.is_open.set()
    assert leading.result(PATIENCE).is_held
    wait_until(lambda: JournalEntry.objects.count() == 3, message="all writes")
    assert awrite(committer, leases[0], a_step("more")).is_held
    assert [len(batch) for batch in store.batches] == [1, 2, 1]
    committer.close()


def test_a_lost_connection_is_tried_again(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease]
) -> None:
    mine = lease()
    store.errors = [OperationalError("gone"), OperationalError("still gone")]
    writing = pool.submit(committer.write, mine, a_step())
    assert writing.exception(PATIENCE) is None
    assert writing.result().is_held
    assert len(store.batches) == 3
    assert paths(mine) == ["step"]


def test_a_lost_connection_is_tried_until_the_lease_ends(
    committer: Committer, store: Store, lease: Callable[[], Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, began, pauses = lease(), clock.monotonic(), list[float]()
    monkeypatch.setattr(batch_writer, "time", SimpleNamespace(sleep=pauses.append))
    monkeypatch.setattr(clock, "monotonic", lambda: began + sum(pauses))
    mine.ends = began + 2
    store.errors = [OperationalError("gone")] * 1000
    assert committer.write(mine, a_step()).is_lost
    # Not in a busy loop, and not once it is over.
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert len(store.batches) == len(pauses)
    assert paths(mine) == []


@pytest.mark.parametrize("error", [OperationalError("gone"), ValueError("a mistake")], ids=["away", "a mistake"])
def test_a_renewal_before_a_commit_that_fails_fails_no_write(
    committer: Committer, store: Store, lease: Callable[[], Lease], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    asked: list[list[Lease]] = []

    def stumble(db: PrivateDatabase, leases: Iterable[Lease], **_: float) -> None:
        asked.append(list(leases))
        if len(asked) == 1:
            raise error

    monkeypatch.setattr(batch_writer, "renew_missed", stumble)
    mine = lease()
    assert committer.write(mine, a_step()).is_held
    assert paths(mine) == ["step"]
    assert asked == [[mine]] * (2 if isinstance(error, OperationalError) else 1)
    assert len(store.batches) == 1


def test_a_lease_that_is_over_writes_nothing(committer: Committer, store: Store, lease: Callable[[], Lease]) -> None:
    mine = lease()
    mine.lose()
    assert committer.write(mine, a_step()).is_lost
    assert store.batches == []


def test_a_lease_that_somebody_else_has_now_is_lost_and_nobody_is_told_of_the_write(
    committer: Committer, lease: Callable[[], Lease], leaders: list[str]
) -> None:
    mine = lease()
    stolen = Lease(mine.run_id, UUID(int=0), mine.ends)
    assert committer.write(stolen, a_step()).is_lost
    assert paths(mine) == []
    assert leaders == []


def test_who_sends_alone_leads(committer: Committer, lease: Callable[[], Lease], leaders: list[str]) -> None:
    assert sent(committer, lease(), a_step()).is_held
    assert sent(committer, lease(), a_step(), may_lead=False).is_held
    assert leaders == [threading.current_thread().name, "durable-committer"]


def test_who_sends_while_somebody_commits_goes_on_at_once(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease], leaders: list[str]
) -> None:
    leases = [lease() for _ in range(5)]
    store.is_open.clear()
    leading = pool.submit(committer.write, leases[0], a_step())
    wait_until(lambda: store.batches, message="the first batch")
    told: list[Future[Receipt]] = [Future() for _ in leases[1:]]
    for one, hears in zip(leases[1:], told, strict=True):
        committer.send(one, a_step(), partial(hear, hears), may_lead=True)
    assert not any(hears.done() for hears in told)
    store.is_open.set()
    assert leading.result(PATIENCE).is_held
    assert all(hears.result(PATIENCE).is_held for hears in told)
    # Nobody waits in a thread of theirs, so the committer's own leads.
    assert [len(batch) for batch in store.batches] == [1, 4] and leaders[1:] == ["durable-committer"] * 4


def test_a_thread_that_waits_leads_for_those_that_do_not(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease], leaders: list[str]
) -> None:
    leases = [lease() for _ in range(3)]
    store.is_open.clear()
    leading = pool.submit(committer.write, leases[0], a_step())
    wait_until(lambda: store.batches, message="the first batch")
    told: Future[Receipt] = Future()
    committer.send(leases[1], a_step(), partial(hear, told), may_lead=True)
    waiting = pool.submit(committer.write, leases[2], a_step())
    wait_until(lambda: len(committer._waiting) == 2, message="both in line")
    store.is_open.set()
    assert leading.result(PATIENCE).is_held and told.result(PATIENCE).is_held and waiting.result(PATIENCE).is_held
    assert leaders[1] == leaders[2] != leaders[0] and "durable-committer" not in leaders


@pytest.mark.parametrize("may_lead", [True, False])
def test_who_stumbles_when_he_is_told_leaves_the_others_alone(
    committer: Committer, lease: Callable[[], Lease], may_lead: bool
) -> None:
    told = threading.Event()

    def stumble(receipt: Receipt | None, error: BaseException | None) -> None:
        told.set()
        raise LookupError

    committer.send(lease(), a_step(), stumble, may_lead=may_lead)
    assert told.wait(PATIENCE)
    assert committer.write(lease(), a_step()).is_held
    assert sent(committer, lease(), a_step(), may_lead=may_lead).is_held


def test_a_value_that_is_refused_is_told_to_who_has_sent_it(committer: Committer, lease: Callable[[], Lease]) -> None:
    with pytest.raises(Refused):
        sent(committer, lease(), a_step(seq=REFUSED_SEQ))


def test_what_follows_a_commit_that_was_made_elsewhere_cannot_fail_it(
    db: PrivateDatabase, lease: Callable[[], Lease], caplog: pytest.LogCaptureFixture
) -> None:
    def after(*_: Any) -> None:
        raise OperationalError("gone")

    committer = Committer(db, after)
    committer.noted(lease(), a_step(), Receipt(is_held=True))
    assert "what follows a commit failed" in caplog.text
    committer.close()


def test_the_connection_stays_awake_for_a_run_that_commits_time_after_time(
    committer: Committer, lease: Callable[[], Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for one that commits once, nor for several in turn: each processor has something else to do then."""
    awake: list[bool] = []
    write = batch_writer.write_batch

    def written(db: PrivateDatabase, writes: Any) -> Any:
        awake.append(db.polling.is_wanted)
        return write(db, writes)

    monkeypatch.setattr(batch_writer, "write_batch", written)
    first, second = lease(), lease()
    for number, mine in enumerate((first, first, first, second, first, second, second)):
        committer.write(mine, a_step(f"{number}"))
    assert awake == [False, True, True, False, False, False, True]


def test_the_connection_does_not_stay_awake_in_company(
    committer: Committer,
    store: Store,
    pool: ThreadPoolExecutor,
    lease: Callable[[], Lease],
) -> None:
    leases = [lease() for _ in range(3)]
    committer.write(leases[0], a_step("a"))
    committer.write(leases[0], a_step("b"))
    assert committer._db.polling.is_wanted
    leading = gather(committer, store, pool, leases)
    store.is_open.set()
    assert leading.result(PATIENCE).is_held
    wait_until(lambda: len(store.batches) == 4, message="the others' commit")
    assert not committer._db.polling.is_wanted
