"""``ctx`` calls inside a transaction of the workflow's own: what the journal says could be rolled back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction
from django.test import TestCase

from django_durable import AsyncContext, Context, durable_workflow
from django_durable.exceptions import ContextMisuse, RunFailed
from django_durable.executor.transactions import (
    connections_here,
    leftover_transactions,
    refuse_open_transaction,
)
from django_durable.models import JournalEntry
from django_durable.store.database import PrivateDatabase
from django_durable.testing import run_until_idle

committing = pytest.mark.django_db(transaction=True)
REFUSED = r"ctx was used inside transaction\.atomic\(\): what the journal says could be rolled back"
did: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    did.clear()


def branch(ctx: Context) -> int:
    return ctx.step("work", do, 1)


def do(item: int) -> int:
    did.append(item)
    return item


async def ado(item: int) -> int:
    return do(item)


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "join": lambda ctx, branch, work: ctx.join("at", {"a": branch}),
    "race": lambda ctx, branch, work: ctx.race("at", {"a": branch}),
    "map": lambda ctx, branch, work: ctx.map("at", work, [1, 2]),
}


def refused(workflow: Any) -> None:
    run = workflow.enqueue()
    run_until_idle()
    with pytest.raises(RunFailed, match=REFUSED) as caught:
        run.result(timeout=0)
    assert caught.value.error["type"] == "django_durable.exceptions.ContextMisuse"
    assert run.refresh().attempt == 1 and did == []


@committing
@pytest.mark.parametrize("call", CALLS)
def test_branches_in_a_transaction_are_refused(call: str) -> None:
    @durable_workflow(name="transactions.sync")
    def inside(ctx: Context) -> None:
        with transaction.atomic():
            CALLS[call](ctx, branch, do)

    refused(inside)


class OpenInThread:
    """A transaction in the thread in which the run's plain functions are called and its ORM calls are made."""

    async def __aenter__(self) -> None:
        self._atomic = transaction.atomic()
        await sync_to_async(self._atomic.__enter__)()

    async def __aexit__(self, *error: Any) -> None:
        await sync_to_async(self._atomic.__exit__)(*error)


@committing
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("work", [do, ado])
def test_so_are_those_of_async_workflows(call: str, work: Any) -> None:
    async def abranch(ctx: AsyncContext) -> int:
        return await ctx.step("work", work, 1)

    @durable_workflow(name="transactions.async")
    async def inside(ctx: AsyncContext) -> None:
        async with OpenInThread():
            await CALLS[call](ctx, abranch, work)

    refused(inside)


@committing
@pytest.mark.parametrize("atomic", [False, True])
def test_a_plain_step_of_an_async_workflow_is_refused_too_and_is_not_the_one_that_failed(atomic: bool) -> None:
    @durable_workflow(name="transactions.step")
    async def inside(ctx: AsyncContext) -> None:
        async with OpenInThread():
            await ctx.step("work", do, 1, atomic=atomic)

    refused(inside)
    assert not JournalEntry.objects.exists()


class OwnTransaction(TestCase):
    def test_that_of_the_test_is_none_of_the_workflow_s(self) -> None:
        async def abranch(ctx: AsyncContext) -> int:
            return await ctx.step("work", do, 1, atomic=True) + await ctx.step("more", ado, 1)

        @durable_workflow(name="transactions.case")
        async def case(ctx: AsyncContext) -> Any:
            return await ctx.join("at", {"a": abranch, "b": abranch})

        run = case.enqueue()
        run_until_idle()
        assert run.result(timeout=0) == {"a": 2, "b": 2}


def in_a_new_thread(work: Callable[[], None]) -> None:
    """It has no connection of its own yet, as a worker's threads at first."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(work).result(timeout=30)


@committing
def test_a_transaction_is_found_on_a_connection_that_was_opened_since() -> None:
    def work() -> None:
        here = connections_here()
        assert here == []
        try:
            refuse_open_transaction({}, here)
            with pytest.raises(ContextMisuse), transaction.atomic():
                refuse_open_transaction({}, here)
            transaction.atomic().__enter__()
            assert leftover_transactions({}, here) is not None
            assert not connection.in_atomic_block
            assert leftover_transactions({}, here) is None
        finally:
            connections.close_all()

    in_a_new_thread(work)


@committing
def test_the_engines_own_connections_are_nobody_elses() -> None:
    def work() -> None:
        here, own = connections_here(), PrivateDatabase()
        own.rows("SELECT 1")
        own.close()
        assert here == []

    in_a_new_thread(work)
