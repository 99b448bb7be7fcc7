"""Where attempts run: threads for ``def`` workflows, one event loop for ``async def`` ones."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections

from ..core.journal.outcomes import Lost, Outcome
from ..executor.async_attempt import arun_attempt
from ..executor.branch_threads import BranchThreads
from ..executor.commit import Commit
from ..executor.sync_attempt import run_attempt
from ..store.claiming import Claim
from ..workflows.definition import Workflow

logger = logging.getLogger("django_durable.worker")

TOGETHER_SECONDS = 5.0
"""How long an idle thread waits for the others when the pool ends: one of them may be missing, or stuck."""

Ended = Callable[[Claim, Outcome], None]


class ThreadPool:
    """Reused threads. A thread keeps its connections from run to run as Django does from request to request."""

    def __init__(self, limit: int, commit: Commit, ended: Ended) -> None:
        self._limit = limit
        self._commit = commit
        self._ended = ended
        self._executor = ThreadPoolExecutor(limit, thread_name_prefix="durable-run")
        # As many again: a run whose branches find no thread free runs them in its own.
        self._branches = BranchThreads(limit)

    def start(self, claim: Claim, workflow: Workflow[Any, Any]) -> None:
        self._executor.submit(self._run, claim, workflow)

    def _run(self, claim: Claim, workflow: Workflow[Any, Any]) -> None:
        outcome: Outcome = Lost()
        try:
            close_old_connections()
            outcome = run_attempt(claim, workflow, self._commit, self._branches)
        except BaseException:
            # The attempt could not even be stored: its lease lapses, and the run is taken up again.
            logger.exception("attempt of run %s was given up", claim.run_id)
            claim.lease.lose()
        finally:
            _tidy_connections()
            self._ended(claim, outcome)

    def close(self) -> None:
        """Ends the threads and their connections. No run is left in them."""
        # All at the same time: a thread that was done early would take the turn of another, whose connections stayed.
        together = threading.Barrier(self._limit)
        for _ in range(self._limit):
            self._executor.submit(_close_connections, together)
        self._executor.shutdown(wait=True)
        self._branches.close()


def _tidy_connections() -> None:
    """What Django does after a request, in one pass."""
    for connection in connections.all(initialized_only=True):
        connection.queries_log.clear()
        connection.close_if_unusable_or_obsolete()


def _close_connections(together: threading.Barrier) -> None:
    with suppress(threading.BrokenBarrierError):
        together.wait(TOGETHER_SECONDS)
    connections.close_all()


class LoopPool:
    """One event loop in a thread of its own; each run is a task with a database thread of its own."""

    def __init__(self, commit: Commit, ended: Ended) -> None:
        self._commit = commit
        self._ended = ended
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._serve, name="durable-loop", daemon=True)
        self._thread.start()

    def start(self, claims: Sequence[tuple[Claim, Workflow[Any, Any]]]) -> None:
        self._loop.call_soon_threadsafe(self._begin, claims)

    def _begin(self, claims: Sequence[tuple[Claim, Workflow[Any, Any]]]) -> None:
        for claim, workflow in claims:
            task = self._loop.create_task(self._run(claim, workflow))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, claim: Claim, workflow: Workflow[Any, Any]) -> None:
        outcome: Outcome = Lost()
        try:
            # Else all runs of the loop share one database thread, and one run's query lands inside another's
            # open transaction.
            async with ThreadSensitiveContext() as context:
                outcome = await arun_attempt(claim, workflow, self._commit)
                # The thread ends with the context; its connections would stay open until they are collected.
                if context in SyncToAsync.context_to_thread_executor:
                    await sync_to_async(connections.close_all)()
        except Exception:
            logger.exception("attempt of run %s was given up", claim.run_id)
            claim.lease.lose()
        finally:
            self._ended(claim, outcome)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()
