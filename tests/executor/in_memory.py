"""The drivers without a database: what they commit is kept in a dict, so that only the threads and tasks are real."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from copy import copy
from datetime import datetime
from typing import Any

from django_durable.core.async_context import AsyncContext
from django_durable.core.clock import utcnow
from django_durable.core.context import Context
from django_durable.core.flow.flow import Flow
from django_durable.core.flow.lease import Lease
from django_durable.core.flow.run_info import RunInfo
from django_durable.core.journal.inbox import Inbox
from django_durable.core.journal.journal import Entry, MemoryJournal, Write
from django_durable.core.retries import Retry
from django_durable.executor.async_driver import AsyncDriver
from django_durable.executor.branch_threads import NO_THREADS, Branches
from django_durable.executor.interruption import Interruption
from django_durable.executor.sync_driver import SyncDriver
from django_durable.executor.undisturbed import undisturbed
from django_durable.store.receipts import Receipt
from tests.core.driving import RUN_ID, TOKEN

ONCE = Retry(max_attempts=1)


class MemoryCommit:
    """``hook`` is called with each write before it is kept, in the thread that made it."""

    is_stepwise = False

    def __init__(self, entries: dict[str, Entry] | None = None, hook: Callable[[Write], None] | None = None) -> None:
        self.entries = entries if entries is not None else {}
        self.hook = hook
        self.count = 0
        self.is_lost = False
        self._mutex = threading.Lock()

    def write(self, lease: Lease, write: Write) -> Receipt:
        if self.hook is not None:
            self.hook(write)
        with self._mutex:
            self.count += 1
            if self.is_lost:
                return Receipt(is_lost=True)
            for path in write.forgotten:
                self.entries.pop(path, None)
            self.entries.update({path: copy(entry) for path, entry in write.entries.items()})
        return Receipt(is_held=True)

    async def awrite(self, lease: Lease, write: Write) -> Receipt:
        return await undisturbed(self._awrite(lease, write))

    async def _awrite(self, lease: Lease, write: Write) -> Receipt:
        await asyncio.sleep(0)
        return self.write(lease, write)

    def noted(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        pass

    def refresh(self, inbox: Inbox, lease: Lease) -> None:
        pass

    async def arefresh(self, inbox: Inbox, lease: Lease) -> None:
        pass


def new_flow(commit: MemoryCommit, deadline_at: datetime | None = None, now: Callable[[], datetime] = utcnow) -> Flow:
    lease = Lease(RUN_ID, TOKEN, ends=float("inf"))
    journal = MemoryJournal({path: copy(entry) for path, entry in commit.entries.items()}, now=now)
    return Flow(RunInfo(RUN_ID, "shop.order", deadline_at=deadline_at), journal, lease, ONCE)


def run(
    body: Callable[[Context], Any],
    commit: MemoryCommit | None = None,
    threads: Branches = NO_THREADS,
    flow: Flow | None = None,
) -> Any:
    """What ``body(ctx)`` returns, once the line has come to its end; what is pending then is committed."""
    commit = commit or MemoryCommit()
    flow = flow or new_flow(commit)
    drive = SyncDriver(flow, commit, threads)
    try:
        return body(Context(flow, drive))
    finally:
        drive.finish()
        commit.write(flow.lease, flow.close())


async def arun(
    body: Callable[[AsyncContext], Any], commit: MemoryCommit | None = None, flow: Flow | None = None
) -> Any:
    """Likewise, of a coroutine function: in a task of its own, as an attempt does."""
    commit = commit or MemoryCommit()
    flow = flow or new_flow(commit)
    drive = AsyncDriver(flow, commit, Interruption(asyncio.current_task()))
    code = asyncio.create_task(drive.run(lambda: body(AsyncContext(flow, drive))))
    try:
        while not code.done():
            try:
                await asyncio.wait([code])
            except asyncio.CancelledError:
                code.cancel()
        return code.result()
    finally:
        commit.write(flow.lease, flow.close())
