"""The commit of these tests keeps what ``executor.commit`` promises: else they tell of a driver that nobody has."""

from __future__ import annotations

import asyncio

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Entry, Write
from django_durable.core.journal.states import EntryStatus, Kind
from tests.core.driving import RUN_ID, TOKEN

from .in_memory import MemoryCommit


def test_a_write_is_not_abandoned_when_who_waits_for_it_is_cancelled() -> None:
    commit, entry = MemoryCommit(), Entry("a", Kind.STEP, EntryStatus.SUCCEEDED)

    async def cancelled_while_it_writes() -> None:
        waiting = asyncio.create_task(commit.awrite(Lease(RUN_ID, TOKEN, float("inf")), Write({"a": entry})))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cancelled_while_it_writes())
    assert list(commit.entries) == ["a"]
