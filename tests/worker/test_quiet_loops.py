"""Loops whose turns do nothing durable, in a worker: its heartbeat tells them what is asked of their run."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from django_durable import AsyncContext, Break, Context, Continue, durable_workflow
from django_durable.core.journal.states import Status
from django_durable.core.kinds import loops
from django_durable.queues.database import DatabaseQueue
from django_durable.worker import process as module
from django_durable.worker.process import WorkerOptions, WorkerProcess

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 20.0
spinning, over = threading.Event(), threading.Event()


def spin(turns: int) -> Any:
    spinning.set()
    time.sleep(0.001)
    if turns * 0.001 <= PATIENCE:
        return Continue(turns + 1)
    over.set()
    return Break()


@durable_workflow(name="quiet.spinning")
def spins(ctx: Context) -> Any:
    return ctx.loop("spin", lambda ctx, turns: spin(turns), 0)


@durable_workflow(name="quiet.spinning_async")
async def aspins(ctx: AsyncContext) -> Any:
    async def turn(ctx: AsyncContext, turns: int) -> Any:
        return spin(turns)

    return await ctx.loop("spin", turn, 0)


@pytest.mark.parametrize("workflow", [spins, aspins], ids=["def", "async def"])
@pytest.mark.parametrize(("verb", "status"), [("cancel", Status.CANCELLED), ("pause", Status.PAUSED)])
def test_a_loop_that_does_nothing_durable_ends_where_the_heartbeat_hears_of_it(
    workflow: Any, verb: str, status: Status, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    # A worker closes its process's queue when it ends, and this process lives on.
    monkeypatch.setattr(module, "current_queue", DatabaseQueue)
    monkeypatch.setattr(loops, "QUIET_MAX", timedelta(hours=1))
    settings.DURABLE = {**settings.DURABLE, "HEARTBEAT_SECONDS": 0.1}
    spinning.clear()
    over.clear()
    run = workflow.enqueue()
    process = WorkerProcess(uuid4(), WorkerOptions(burst=True, concurrency=1))

    def ask() -> None:
        try:
            assert spinning.wait(PATIENCE)
            getattr(run, verb)("enough")
        finally:
            connections.close_all()

    asking = threading.Thread(target=ask)
    asking.start()
    process.run()
    asking.join(PATIENCE)
    for database in (process._claimer._db, process._heartbeat._db, process._loops._db):
        database.close()
    connections.close_all()
    assert run.refresh().status == status
    assert not over.is_set()
