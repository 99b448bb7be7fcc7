"""Where attempts run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.db import connection, connections

from django_durable import AsyncContext, durable_workflow
from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.core.outcomes import Completed, Outcome
from django_durable.store.claiming import Claim, Claimant, claim_next
from django_durable.store.database import PrivateDatabase
from django_durable.worker.pools import LoopPool
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


def test_an_async_run_closes_the_connections_of_its_thread(db: PrivateDatabase) -> None:
    opened.clear()
    ended, outcomes = threading.Event(), list[Outcome]()

    def note(claim: Claim, outcome: Outcome) -> None:
        outcomes.append(outcome)
        ended.set()

    run = asking.enqueue()
    pool = LoopPool(OwnThread(db), note)
    claims = claim_next(db, Claimant(uuid7(), ("default",), ("pools.asking",)), 1, lease=30, time=DatabaseClock())
    pool.start([(claim, asking) for claim in claims])
    assert ended.wait(10)
    pool.close()
    assert outcomes == [Completed("1")]
    assert run.result() == 1
    # The wrapper is still referred to here, so that nothing but the pool can have closed it.
    assert [wrapper.connection for wrapper in opened] == [None]
