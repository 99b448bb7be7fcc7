"""Where attempts run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction

from django_durable import AsyncContext, Context, durable_workflow
from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.core.journal.outcomes import Completed, Outcome
from django_durable.models import Run
from django_durable.store.claiming import Claim, Claimant, claim_next
from django_durable.store.database import PrivateDatabase
from django_durable.worker.pools import LoopPool, Outcomes, ThreadPool
from tests.direct_commit import DirectCommit

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
            assert self._changed.wait_for(lambda: len(self.outcomes) == count, 20)
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
    await asyncio.wait_for(meeting[0].has_asked.wait(), 20)
    await sync_to_async(block.__exit__)(None, None, None)
    return "held"


async def ask_meanwhile() -> list[bool]:
    await asyncio.wait_for(meeting[0].has_begun.wait(), 20)
    await Run.objects.acount()
    is_inside = await sync_to_async(lambda: connection.in_atomic_block)()
    meeting[0].has_asked.set()
    return [is_inside]


@durable_workflow(name="pools.meeting")
async def meeting_another(ctx: AsyncContext, holds: bool) -> Any:
    return await ctx.step("meet", hold_a_transaction if holds else ask_meanwhile)


def test_a_query_of_one_async_run_does_not_land_in_the_transaction_of_another(db: PrivateDatabase, ends: Ends) -> None:
    meeting[:] = [Meeting()]
    for holds in (True, False):
        meeting_another.enqueue(holds)
    pool = LoopPool(Outcomes(OwnThread(db), lambda claim: None, ends))
    pool.start(claims_of(db, meeting_another))
    outcomes = ends.wait_for(2)
    pool.close()
    assert sorted(outcomes, key=repr) == [Completed('"held"'), Completed("[false]")]


# --- def -------------------------------------------------------------------------------------

THREADS = 8
side_by_side = threading.Barrier(THREADS)


@durable_workflow(name="pools.asking_sync")
def asking_sync(ctx: Context) -> int:
    return ctx.step("ask", ask)


@durable_workflow(name="pools.side_by_side")
def asking_side_by_side(ctx: Context) -> int:
    """One run for each thread of the pool."""
    side_by_side.wait(20)
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
