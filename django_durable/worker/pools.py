"""Where attempts run: threads for ``def`` workflows, one event loop for ``async def`` ones."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections

from ..core import clock
from ..core.flow.lease import Lease
from ..core.journal.journal import Write
from ..core.journal.outcomes import Completed, Lost, Outcome, Released, Retried
from ..core.payloads.surviving import survive
from ..executor.async_attempt import Performed, begin_attempt
from ..executor.branch_threads import BranchThreads
from ..executor.commit import Commit
from ..executor.failing import note_retry, refused
from ..executor.interruption import Interruption
from ..executor.sync_attempt import perform_attempt
from ..executor.tasks_made import TaskFactory
from ..store.claiming import Claim
from ..store.receipts import Receipt
from ..workflows.definition import Workflow
from .submission import Then

logger = logging.getLogger("django_durable.worker")

LEFT_PAUSE = 0.1
"""Seconds after which an event loop that was left goes on."""

RESTED_SECONDS = 1.0
"""A connection that was looked at so long ago is looked at again before it is used: its age may be over."""

Ended = Callable[[Claim, Outcome], None]


class Sends(Commit, Protocol):
    """A commit that also takes what nobody waits for."""

    def send(self, lease: Lease, write: Write, then: Then, *, may_lead: bool) -> None: ...


class Outcomes:
    """What becomes of attempts whose code is over: ``ending`` hears of them, and ``ended`` once they are stored."""

    def __init__(self, commit: Sends, ending: Callable[[Claim], None], ended: Ended) -> None:
        self.commit = commit
        self._ending = ending
        self._ended = ended

    def store(
        self, claim: Claim, workflow: Workflow[Any, Any], outcome: Outcome, write: Write | None, *, may_lead: bool
    ) -> None:
        """Nobody waits for this: whoever has worked on the run goes on to another."""
        if write is None:
            self._ended(claim, Lost())
            return
        self._ending(claim)
        then = partial(self._stored, claim, workflow, outcome)
        self.commit.send(claim.lease, write, then, may_lead=may_lead)

    def give_up(self, claim: Claim, error: BaseException) -> None:
        """The attempt could not even be stored: its lease lapses, and the run is taken up again."""
        claim.lease.lose()
        self._ended(claim, Lost())
        survive(error, logger, "attempt of run %s was given up", claim.run_id)

    def _stored(
        self,
        claim: Claim,
        workflow: Workflow[Any, Any],
        outcome: Outcome,
        receipt: Receipt | None,
        error: BaseException | None,
    ) -> None:
        if error is None:
            self._ended(claim, Lost() if receipt is None or receipt.is_lost else outcome)
        elif isinstance(outcome, Completed):
            # The database does not take what goes with it: that is the attempt's failure, without any of it.
            failed = refused(claim, workflow.options, error)
            write = Write(outcome=failed)
            if isinstance(failed, Retried):
                note_retry(claim, failed, write)
            then = partial(self._stored, claim, workflow, failed)
            self.commit.send(claim.lease, write, then, may_lead=False)
        else:
            self.give_up(claim, error)


class ThreadPool:
    """Reused threads, started as they are needed. A thread keeps its connections from run to run as Django does from
    request to request.

    Not an executor: nobody asks for the future that it makes of each run, and that takes as long as the commit's part.
    """

    def __init__(self, limit: int, outcomes: Outcomes) -> None:
        self._limit = limit
        self._outcomes = outcomes
        self._work: SimpleQueue[tuple[Claim, Workflow[Any, Any]] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        """Counts the threads that wait for work, and for which none is meant yet."""
        self._threads: list[threading.Thread] = []
        self._under_way: set[Lease] = set()
        """Of the runs that were given to us and are not over."""
        # As many again: a run whose branches find no thread free runs them in its own.
        self._branches = BranchThreads(limit)

    def start(self, claim: Claim, workflow: Workflow[Any, Any]) -> None:
        self._under_way.add(claim.lease)
        self._work.put((claim, workflow))
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._limit:
            name = f"durable-run_{len(self._threads)}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self) -> None:
        looked_at = clock.monotonic()
        while (given := self._work.get()) is not None:
            self._run(*given, has_rested=clock.monotonic() - looked_at > RESTED_SECONDS)
            looked_at = clock.monotonic()
            self._idle.release()
        connections.close_all()

    def _run(self, claim: Claim, workflow: Workflow[Any, Any], *, has_rested: bool) -> None:
        try:
            if has_rested:
                close_old_connections()
            try:
                outcome, write = perform_attempt(claim, workflow, self._outcomes.commit, self._branches)
            finally:
                _tidy_connections()
            # In company somebody else does, and whoever ends until that one is awake comes with us.
            is_alone = len(self._under_way) == 1
            self._outcomes.store(claim, workflow, outcome, write, may_lead=is_alone)
        except BaseException as error:
            # Nobody would start another thread in place of this one.
            self._outcomes.give_up(claim, error)
        finally:
            self._under_way.discard(claim.lease)

    def close(self) -> None:
        """Ends the threads and their connections. No run is left in them."""
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()
        self._branches.close()


def _tidy_connections() -> None:
    """What Django does after a request, in one pass."""
    for connection in connections.all(initialized_only=True):
        connection.queries_log.clear()
        connection.close_if_unusable_or_obsolete()


class LoopPool:
    """One event loop in a thread of its own; each run is a task with a database thread of its own, where it has one."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(TaskFactory())
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closing = False
        self._thread = threading.Thread(target=self._serve, name="durable-loop", daemon=True)
        self._thread.start()

    def start(self, claims: Sequence[tuple[Claim, Workflow[Any, Any]]]) -> None:
        self._loop.call_soon_threadsafe(self._begin, claims)

    def _begin(self, claims: Sequence[tuple[Claim, Workflow[Any, Any]]]) -> None:
        for claim, workflow in claims:
            try:
                self._begin_one(claim, workflow)
            except BaseException as error:
                self._outcomes.give_up(claim, error)

    def _begin_one(self, claim: Claim, workflow: Workflow[Any, Any]) -> None:
        # Else all runs of the loop share one database thread, and one run's query lands inside another's open
        # transaction.
        thread, context = ThreadSensitiveContext(), copy_context()
        context.run(SyncToAsync.thread_sensitive_context.set, thread)
        task = begin_attempt(claim, workflow, self._outcomes.commit, context, Interruption())
        self._keep(task, partial(self._end, claim, workflow, thread))

    def _keep(self, task: asyncio.Task[Any], then: Callable[[asyncio.Task[Any]], None]) -> None:
        # The loop itself knows its tasks weakly.
        self._tasks.add(task)
        task.add_done_callback(partial(self._over, then))

    def _over(self, then: Callable[[asyncio.Task[Any]], None], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        then(task)

    def _end(
        self,
        claim: Claim,
        workflow: Workflow[Any, Any],
        thread: ThreadSensitiveContext,
        code: asyncio.Task[Performed],
    ) -> None:
        if thread in SyncToAsync.context_to_thread_executor:
            # Whatever becomes of that: the attempt has come to its end.
            self._keep(self._loop.create_task(_close_thread(thread)), lambda _: self._store(claim, workflow, code))
        else:
            self._store(claim, workflow, code)

    def _store(self, claim: Claim, workflow: Workflow[Any, Any], code: asyncio.Task[Performed]) -> None:
        try:
            # Cancelled before its first turn, by who cancels all tasks: nothing of it has begun.
            outcome, write = (Released(), Write(outcome=Released())) if code.cancelled() else code.result()
        except BaseException as error:
            # No further: nobody waits for this task.
            self._outcomes.give_up(claim, error)
        else:
            self._outcomes.store(claim, workflow, outcome, write, may_lead=False)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_closing:
            try:
                self._loop.run_forever()
            except BaseException as error:
                # asyncio lets SystemExit and KeyboardInterrupt of any task or callback out, here of one that a run's
                # code has made: the tasks of the other runs are where they were, and go on.
                survive(error, logger, "the event loop was left, and goes on")
                # What lasts, as a selector that somebody has closed, must not fill the log.
                time.sleep(LEFT_PAUSE)

    def close(self) -> None:
        self._is_closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()


async def _close_thread(thread: ThreadSensitiveContext) -> None:
    """End the thread that an attempt has had."""
    async with thread:
        # Its connections would stay open until they are collected.
        await sync_to_async(connections.close_all)()
