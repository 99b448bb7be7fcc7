"""Where attempts run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from asgiref.sync import sync_to_async
from django.db import DataError, InterfaceError, connection, connections, transaction

from django_durable import AsyncContext, Context, Retry, durable_workflow
from django_durable.core.clock import DatabaseClock
from django_durable.core.flow.lease import Lease
from django_durable.core.ids import uuid7
from django_durable.core.journal.outcomes import Completed, Failed, Lost, Outcome, Released, Retried
from django_durable.exceptions import ContextMisuse
from django_durable.executor.attempt import Attempt
from django_durable.executor.tasks_made import tasks_made
from django_durable.models import Run
from django_durable.store.claiming import Claim, Claimant, claim_next
from django_durable.store.database import PrivateDatabase
from django_durable.store.receipts import Receipt
from django_durable.worker import pools
from django_durable.worker.pools import LoopPool, Outcomes, ThreadPool
from django_durable.worker.process import WorkerOptions, WorkerProcess
from tests.direct_commit import DirectCommit
from tests.processes import PATIENCE, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
opened: list[Any] = []


def ask() -> int:
    opened.append(connections["default"])
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return int(cursor.fetchone()[0])


@durable_workflow(name="pools.asking")
async def asking(ctx: AsyncContext) -> int:
    return await ctx.step("ask", ask)


class OwnThread(DirectCommit):
    """Commits on a connection of its own, in any thread."""

    async def awrite(self, lease: Any, write: Any) -> Any:
        return await asyncio.to_thread(self.write, lease, write)

    def send(self, lease: Any, write: Any, then: Any, *, may_lead: bool) -> None:
        threading.Thread(target=super().send, args=(lease, write, then), kwargs={"may_lead": may_lead}).start()


class Ends:
    """Hears of the ends of attempts, and waits for a number of them."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self._changed = threading.Condition()

    def __call__(self, claim: Claim, outcome: Outcome) -> None:
        with self._changed:
            self.outcomes.append(outcome)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[Outcome]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.outcomes) == count, 60)
        return self.outcomes


@pytest.fixture
def ends() -> Ends:
    opened.clear()
    return Ends()


def claims_of(db: PrivateDatabase, workflow: Any) -> list[tuple[Claim, Any]]:
    who = Claimant(uuid7(), ("default",), (workflow.name,))
    return [(claim, workflow) for claim in claim_next(db, who, 10, lease=30, time=DatabaseClock())]


# --- async def -------------------------------------------------------------------------------


def test_an_async_run_closes_the_connections_of_its_thread(db: PrivateDatabase, ends: Ends) -> None:
    run = asking.enqueue()
    pool = LoopPool(Outcomes(OwnThread(db), lambda claim: None, ends))
    pool.start(claims_of(db, asking))
    assert ends.wait_for(1) == [Completed("1")]
    pool.close()
    assert run.result() == 1
    # The wrapper is still referred to here, so that nothing but the pool can have closed it.
    assert [wrapper.connection for wrapper in opened] == [None]


class Meeting:
    """What two async runs tell each other; made in their loop."""

    def __init__(self) -> None:
        self.has_begun, self.has_asked = asyncio.Event(), asyncio.Event()


meeting: list[Meeting] = []


async def hold_a_transaction() -> str:
    block = transaction.atomic()
    await sync_to_async(block.__enter__)()
    meeting[0].has_begun.set()
    await asyncio.wait_for(meeting[0].has_asked.wait(), PATIENCE)
    await sync_to_async(block.__exit__)(None, None, None)
    return "held"


async def ask_meanwhile() -> list[bool]:
    await asyncio.wait_for(meeting[0].has_begun.wait(), PATIENCE)
    await Run.objects.acount()
    is_inside = await sync_to_async(lambda: connection.in_atomic_block)()
    meeting[0].has_asked.set()
    return [is_inside]


@durable_workflow(name="pools.meeting")
async def meeting_another(ctx: AsyncContext, holds: bool) -> Any:
    return await ctx.step("meet", hold_a_transaction if holds else ask_meanwhile)


@durable_workflow(name="pools.counting")
async def counting(ctx: AsyncContext) -> int | None:
    return tasks_made()


def test_a_workers_loop_counts_the_tasks_that_are_made_on_it(db: PrivateDatabase, ends: Ends) -> None:
    counting.enqueue()
    pool = LoopPool(Outcomes(OwnThread(db), lambda claim: None, ends))
    pool.start(claims_of(db, counting))
    assert ends.wait_for(1) == [Completed("0")]
    pool.close()


def test_a_query_of_one_async_run_does_not_land_in_the_transaction_of_another(db: PrivateDatabase, ends: Ends) -> None:
    meeting[:] = [Meeting()]
    for holds in (True, False):
        meeting_another.enqueue(holds)
    pool = LoopPool(Outcomes(OwnThread(db), lambda claim: None, ends))
    pool.start(claims_of(db, meeting_another))
    outcomes = ends.wait_for(2)
    pool.close()
    assert sorted(outcomes, key=repr) == [Completed('"held"'), Completed("[false]")]


late: list[object] = []


@durable_workflow(name="pools.leaving")
async def leaving_a_task(ctx: AsyncContext) -> str:
    # By then the run has a thread of its own, which takes turns of the loop to end.
    await ctx.step("in the thread", int)
    late.append(asyncio.create_task(go_on(ctx)))
    return "left"


async def go_on(ctx: AsyncContext) -> None:
    for turn in range(1_000):
        await asyncio.sleep(0)
        try:
            await ctx.step(f"late {turn}", late.append, "a step")
        except ContextMisuse as error:
            late.append(error)
            return


def test_what_an_async_run_has_left_behind_does_nothing_while_its_thread_ends(db: PrivateDatabase, ends: Ends) -> None:
    late.clear()
    leaving_a_task.enqueue()
    pool = LoopPool(Outcomes(OwnThread(db), lambda claim: None, ends))
    pool.start(claims_of(db, leaving_a_task))
    (outcome,) = ends.wait_for(1)
    wait_until(lambda: cast(asyncio.Task[None], late[0]).done())
    pool.close()
    assert isinstance(outcome, Failed | Completed) and "a step" not in late
    assert isinstance(late[-1], ContextMisuse)


@durable_workflow(name="pools.cancelling")
async def cancelling_all(ctx: AsyncContext) -> str:
    await asyncio.wait_for(meeting[0].has_begun.wait(), PATIENCE)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    return "alone"


@durable_workflow(name="pools.neighbour")
async def neighbour(ctx: AsyncContext) -> None:
    await ctx.step("stay", stay)


async def stay() -> None:
    meeting[0].has_begun.set()
    await asyncio.sleep(PATIENCE)


@durable_workflow(name="pools.cancelling_at_once")
async def cancelling_at_once(ctx: AsyncContext) -> str:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    return "alone"


@durable_workflow(name="pools.aone")
async def aone(ctx: AsyncContext) -> int:
    return await ctx.step("ask", ask)


@pytest.mark.parametrize(
    ("canceller", "other"),
    [(cancelling_all, neighbour), (cancelling_at_once, aone)],
    ids=["in a step", "before its first turn"],
)
def test_a_run_that_cancels_all_tasks_hands_its_neighbours_back(
    db: PrivateDatabase, ends: Ends, canceller: Any, other: Any
) -> None:
    meeting[:] = [Meeting()]
    canceller.enqueue()
    run = other.enqueue()
    pool = LoopPool(Outcomes(OwnThread(db), lambda claim: None, ends))
    pool.start([*claims_of(db, canceller), *claims_of(db, other)])
    outcomes = ends.wait_for(2)
    pool.close()
    assert sorted(outcomes, key=repr) == [Completed('"alone"'), Released()]
    assert Run.objects.get(pk=run.id).status == "queued"


# --- def -------------------------------------------------------------------------------------

THREADS = 8
side_by_side = threading.Barrier(THREADS)


@durable_workflow(name="pools.asking_sync")
def asking_sync(ctx: Context) -> int:
    return ctx.step("ask", ask)


@durable_workflow(name="pools.side_by_side")
def asking_side_by_side(ctx: Context) -> int:
    """One run for each thread of the pool."""
    side_by_side.wait(PATIENCE)
    return ctx.step("ask", ask)


@pytest.fixture(params=[0, None])
def max_age(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[int | None]:
    settings = connections["default"].settings_dict
    before, settings["CONN_MAX_AGE"] = settings["CONN_MAX_AGE"], request.param
    yield request.param
    settings["CONN_MAX_AGE"] = before


def test_a_thread_keeps_its_connection_as_long_as_the_project_says(
    db: PrivateDatabase, ends: Ends, max_age: int | None
) -> None:
    pool = ThreadPool(1, Outcomes(DirectCommit(db), lambda claim: None, ends))
    sessions = set()
    for turn in (1, 2):
        asking_sync.enqueue()
        for claimed in claims_of(db, asking_sync):
            pool.start(*claimed)
        ends.wait_for(turn)
        sessions.add(opened[-1].connection)
    pool.close()
    assert ends.outcomes == [Completed("1")] * 2
    assert sessions == {None} if max_age == 0 else len(sessions - {None}) == 1


@pytest.mark.parametrize("max_age", [None], indirect=True)
def test_the_end_of_the_pool_closes_the_connections_of_every_thread(
    db: PrivateDatabase, ends: Ends, max_age: None
) -> None:
    pool = ThreadPool(THREADS, Outcomes(DirectCommit(db), lambda claim: None, ends))
    for _ in range(THREADS):
        asking_side_by_side.enqueue()
    for claimed in claims_of(db, asking_side_by_side):
        pool.start(*claimed)
    ends.wait_for(THREADS)
    assert all(wrapper.connection is not None for wrapper in opened)
    pool.close()
    assert [wrapper.connection for wrapper in opened] == [None] * THREADS


# --- outcomes ----------------------------------------------------------------------------------


@durable_workflow(name="pools.one", retry=Retry(max_attempts=2, initial=60, jitter=0), step_retry=Retry(max_attempts=1))
def one(ctx: Context) -> int:
    return ctx.step("ask", ask)


class Sent:
    """A commit that keeps what was sent to it; ``tell`` answers."""

    is_stepwise = False

    def __init__(self) -> None:
        self.sent: list[tuple[Any, Any, Any, bool]] = []
        self.has_some = threading.Event()

    def send(self, lease: Any, write: Any, then: Any, *, may_lead: bool) -> None:
        self.sent.append((lease, write, then, may_lead))
        self.has_some.set()

    def tell(self, receipt: Receipt | None, error: BaseException | None = None) -> None:
        self.has_some.clear()
        self.sent[-1][2](receipt, error)


def pool_of(sent: Any, ends: Ends, ending: list[Claim], limit: int = 1) -> ThreadPool:
    return ThreadPool(limit, Outcomes(sent, ending.append, ends))


def begin(db: PrivateDatabase, pool: ThreadPool) -> Claim:
    one.enqueue()
    [claimed] = claims_of(db, one)
    pool.start(*claimed)
    return claimed[0]


def test_a_run_ends_when_its_outcome_is_stored_and_not_before(db: PrivateDatabase, ends: Ends) -> None:
    sent, ending = Sent(), []
    pool = pool_of(sent, ends, ending)
    claim = begin(db, pool)
    assert sent.has_some.wait(PATIENCE)
    assert (ending, ends.outcomes) == ([claim], [])
    # The thread is free meanwhile.
    sent.has_some.clear()
    second = begin(db, pool)
    assert sent.has_some.wait(PATIENCE)
    assert ending == [claim, second] and len(pool._threads) == 1
    sent.tell(Receipt(is_held=True))
    assert ends.outcomes == [Completed("1")]
    sent.sent.pop()
    sent.tell(Receipt(is_lost=True))
    assert ends.outcomes == [Completed("1"), Lost()]
    pool.close()


def test_an_outcome_that_the_database_does_not_take_is_the_attempt_s_failure(db: PrivateDatabase, ends: Ends) -> None:
    sent = Sent()
    pool = pool_of(sent, ends, [])
    claim = begin(db, pool)
    assert sent.has_some.wait(PATIENCE)
    assert [*sent.sent[-1][1].entries] == ["ask"]
    sent.tell(None, DataError("no such value"))
    write = sent.sent[-1][1]
    assert not write.entries and isinstance(write.outcome, Retried) and not claim.lease.is_over
    [line] = write.log.to_send()
    assert line.message.startswith("attempt 1 failed, the next one comes in 60 s: django.db.utils.DataError: no such")
    # Where it does not take that either, the lease lapses.
    sent.tell(None, DataError("nor that"))
    assert ends.outcomes == [Lost()] and claim.lease.is_over
    pool.close()


def test_a_thread_gets_over_connections_that_it_cannot_close(
    db: PrivateDatabase, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise InterfaceError("gone")

    pool = pool_of(DirectCommit(db), ends, [])
    begin(db, pool)
    ends.wait_for(1)
    with monkeypatch.context() as patch:
        patch.setattr(pools, "RESTED_SECONDS", -1.0)
        patch.setattr(pools, "close_old_connections", refuse)
        claim = begin(db, pool)
        assert ends.wait_for(2)[1:] == [Lost()] and claim.lease.is_over
    begin(db, pool)
    assert ends.wait_for(3)[2:] == [Completed("1")]
    pool.close()


def test_connections_that_have_rested_are_looked_at(
    db: PrivateDatabase, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[None] = []
    monkeypatch.setattr(pools, "close_old_connections", lambda: looks.append(None))
    pool = pool_of(DirectCommit(db), ends, [])
    for turn, (seconds, seen) in enumerate(((1e9, 0), (-1.0, 1), (1e9, 1)), 1):
        monkeypatch.setattr(pools, "RESTED_SECONDS", seconds)
        begin(db, pool)
        ends.wait_for(turn)
        assert len(looks) == seen
    pool.close()


def test_there_are_no_more_threads_than_slots(db: PrivateDatabase, ends: Ends) -> None:
    sent = Sent()
    pool = pool_of(sent, ends, [], limit=2)
    for _ in range(5):
        begin(db, pool)
    wait_until(lambda: len(sent.sent) == 5)
    assert len(pool._threads) <= 2
    pool.close()


@pytest.mark.parametrize("broken", [(pools, "begin_attempt"), (Attempt, "last_write")])
def test_an_async_run_that_cannot_be_begun_or_ended_gives_its_slot_back(
    db: PrivateDatabase, ends: Ends, monkeypatch: pytest.MonkeyPatch, broken: tuple[Any, str]
) -> None:
    def refuse(*_: Any) -> Any:
        raise InterfaceError("gone")

    monkeypatch.setattr(*broken, refuse)
    aone.enqueue()
    pool = LoopPool(Outcomes(OwnThread(db), lambda claim: None, ends))
    [claimed] = claims_of(db, aone)
    pool.start([claimed])
    assert ends.wait_for(1) == [Lost()] and claimed[0].lease.is_over
    pool.close()


@pytest.mark.parametrize(("isolated", "room"), [(True, 0), (False, 1)])
def test_only_a_suspect_works_alone_to_the_very_end(isolated: bool, room: int, transactional_db: None) -> None:
    process = WorkerProcess(uuid7(), WorkerOptions(concurrency=1, isolated=isolated))
    try:
        lease = Lease(uuid7(), uuid7(), float("inf"))
        process._slots.take(SimpleNamespace(lease=lease))  # type: ignore[arg-type]
        process._slots.end(lease)
        assert process._slots.wait_for_room(0) == room
    finally:
        process._committer.close()
