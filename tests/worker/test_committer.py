"""Group commit: who leads, who is in which batch, and what becomes of the writes that cannot be made durable."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from math import inf
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.db.utils import OperationalError

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Released
from django_durable.models import JournalEntry
from django_durable.store import committing
from django_durable.store.database import PrivateDatabase
from django_durable.store.receipts import Receipt
from django_durable.worker import batch_writer as module
from django_durable.worker import cohort
from django_durable.worker import committer as committer_module
from django_durable.worker.committer import Committer
from tests.processes import PATIENCE, wait_until
from tests.store.rows import LEASE, REFUSED_SEQ, Refused, entries, running, step_entry

pytestmark = pytest.mark.django_db(transaction=True)

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


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    store = Store()
    monkeypatch.setattr(module, "write_batch", store)
    yield store
    store.is_open.set()


@pytest.fixture
def leaders() -> list[str]:
    """The threads that told of durable writes: those that led the commits."""
    return []


@pytest.fixture
def committer(db: PrivateDatabase, leaders: list[str]) -> Iterator[Committer]:
    committer = Committer(db, lambda *_: leaders.append(threading.current_thread().name))
    yield committer
    committer.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(24, thread_name_prefix="writer") as pool:
        yield pool


@pytest.fixture
def lease(connect: Callable[[], PrivateDatabase]) -> Callable[[], Lease]:
    db = connect()
    return lambda: running(db).lease


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


def test_coroutines_are_led_by_the_committers_own_thread(
    committer: Committer, lease: Callable[[], Lease], leaders: list[str]
) -> None:
    mine = lease()
    assert asyncio.run(committer.awrite(mine, a_step())).is_held
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
    assert asyncio.run(committer.awrite(looped[0], a_step("last"))).is_held
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
        asyncio.run(committer.awrite(mine, a_step()))


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
    assert asyncio.run(committer.awrite(leases[0], a_step("more"))).is_held
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
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=pauses.append))
    monkeypatch.setattr(clock, "monotonic", lambda: began + sum(pauses))
    mine.ends = began + 2
    store.errors = [OperationalError("gone")] * 1000
    assert committer.write(mine, a_step()).is_lost
    # Not in a busy loop, and not once it is over.
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert len(store.batches) == len(pauses)
    assert paths(mine) == []


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


# --- rows that somebody holds ------------------------------------------------------------------


class Clock:
    """The committer's clock, for a test to stop."""

    def __init__(self) -> None:
        self.stopped_at: float | None = None

    def monotonic(self) -> float:
        return clock.monotonic() if self.stopped_at is None else self.stopped_at


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own = Clock()
    monkeypatch.setattr(committer_module, "clock", own)
    return own


def awrite(committer: Committer, lease: Lease, write: Write) -> Receipt:
    return asyncio.run(committer.awrite(lease, write))


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


@by_thread_and_by_coroutine
def test_a_held_row_is_in_nobodys_way(
    write: Any, committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease], time: Clock
) -> None:
    """As long as its time has not come it is in no batch, and no batch waits for it."""
    held, other = lease(), lease()
    store.held, time.stopped_at = {held.run_id}, clock.monotonic()
    waiting = pool.submit(write, committer, held, a_step())
    wait_until(lambda: committer._held, message="the held write to be set aside")
    for turn in range(100):
        assert write(committer, other, a_step(f"{turn}")).is_held
    assert len(store.batches) == 101
    assert store.tries(held) == 1
    store.held, time.stopped_at = set(), None
    assert waiting.result(PATIENCE).is_held
    assert paths(held) == ["step"]


@by_thread_and_by_coroutine
def test_a_held_row_is_committed_soon_after_it_is_freed_although_nobody_else_writes(
    write: Any, committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease]
) -> None:
    held = lease()
    store.held = {held.run_id}
    began = clock.monotonic()
    waiting = pool.submit(write, committer, held, a_step())
    wait_until(lambda: store.tries(held) >= 8, message="some tries")
    tries, elapsed = store.tries(held), clock.monotonic() - began
    store.held, freed = set(), clock.monotonic()
    assert waiting.result(PATIENCE).is_held
    # Nor until the lease is over.
    assert clock.monotonic() - freed < LEASE / 2
    # After 5, 10, 20 and 40 milliseconds, and then each 50.
    assert elapsed > 0.2 and tries <= 5 + elapsed / 0.05


def test_a_held_row_whose_time_comes_during_a_commit_is_tried_after_it(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease], time: Clock
) -> None:
    """The committer's own thread finds somebody leading when it wakes for the row; that leader calls it again."""
    held, other = lease(), lease()
    store.held = {held.run_id}
    time.stopped_at = clock.monotonic()
    waiting = pool.submit(committer.write, held, a_step())
    wait_until(lambda: committer._held, message="the held write to be set aside")
    store.is_open.clear()
    leading = pool.submit(committer.write, other, a_step())
    wait_until(lambda: len(store.batches) == 2, message="the other commit")
    store.held, time.stopped_at = set(), None
    wait_until(lambda: committer._wakes_at == inf, message="the committer's thread to leave it to the leader")
    store.is_open.set()
    assert leading.result(PATIENCE).is_held
    assert waiting.result(PATIENCE).is_held


def test_what_a_run_writes_after_a_held_write_does_not_overtake_it(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease], time: Clock
) -> None:
    """The last one gives up the lease: the one before it would be lost."""
    held, other = lease(), lease()
    store.held, time.stopped_at = {held.run_id}, clock.monotonic()
    first = pool.submit(committer.write, held, a_step("first"))
    wait_until(lambda: committer._held, message="the held write to be set aside")
    last = pool.submit(committer.write, held, Write(entries(step_entry("last")), outcome=Released()))
    wait_until(lambda: not committer._waiting and not committer._is_led, message="the last one behind it")
    store.held = set()
    assert committer.write(other, a_step()).is_held
    assert not first.done() and not last.done()
    time.stopped_at = None
    assert (first.result(PATIENCE).is_lost, last.result(PATIENCE).status) == (False, "queued")
    assert paths(held) == ["first", "last"]


@by_thread_and_by_coroutine
def test_a_held_row_is_lost_when_its_lease_ends(
    write: Any, committer: Committer, store: Store, lease: Callable[[], Lease]
) -> None:
    held = lease()
    held.ends = clock.monotonic() + 0.2
    store.held = {held.run_id}
    assert write(committer, held, a_step()).is_lost
    assert held.ends <= clock.monotonic() < held.ends + 20
    assert paths(held) == []


def test_nobody_is_left_waiting_in_a_throng_with_held_rows(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease]
) -> None:
    """Whoever leads, and whoever was the last to lead: each row that is held for a while is written in the end."""
    threaded, looped = [lease() for _ in range(8)], [lease() for _ in range(8)]
    dice = random.Random(4711)
    everybody = [one.run_id for one in (*threaded, *looped)]
    is_over = threading.Event()

    def hold() -> None:
        while not is_over.wait(0.003):
            store.held = set(dice.sample(everybody, 6))
        store.held = set()

    def steps(mine: Lease) -> None:
        for turn in range(20):
            write = WAYS[dice.choice([0, 2, 3])]
            assert write(committer, mine, a_step(f"{turn}")).is_held

    async def asteps(mine: Lease) -> None:
        for turn in range(20):
            assert (await committer.awrite(mine, a_step(f"{turn}"))).is_held

    async def all_of_them() -> None:
        await asyncio.gather(*(asteps(mine) for mine in looped))

    holding = pool.submit(hold)
    futures = [pool.submit(steps, mine) for mine in threaded]
    asyncio.run(asyncio.wait_for(all_of_them(), 30))
    for future in futures:
        future.result(30)
    is_over.set()
    holding.result(PATIENCE)
    assert JournalEntry.objects.count() == 16 * 20
    wait_until(lambda: not committer._is_led, message="the last leader to step down")
    assert not committer._waiting and not committer._held


def test_what_follows_a_commit_that_was_made_elsewhere_cannot_fail_it(
    db: PrivateDatabase, lease: Callable[[], Lease], caplog: pytest.LogCaptureFixture
) -> None:
    def after(*_: Any) -> None:
        raise OperationalError("gone")

    committer = Committer(db, after)
    committer.noted(lease(), a_step(), Receipt(is_held=True))
    assert "what follows a commit failed" in caplog.text
    committer.close()
