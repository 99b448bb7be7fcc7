"""Executes what a flow decides, for ``def`` workflows: everything happens in the run's own thread."""

from __future__ import annotations

import inspect
import time
from typing import Any

from asgiref.sync import async_to_sync
from django.db import connections

from ..core.context import Decisions
from ..core.effects import Effect, Perform, Performed, Raised, Returned
from ..core.flow import Flow
from ..core.outcomes import Lost
from ..core.stepping import CurrentStep, enter_step, leave_step
from ..core.unwinding import Unwind
from .commit import Commit
from .transactions import leftover_transactions, open_transactions, refuse_open_transaction


class SyncDriver:
    """``drive(decisions)`` runs a step kind's generator to its value."""

    def __init__(self, flow: Flow, commit: Commit) -> None:
        self._flow = flow
        self._commit = commit
        self._outer = open_transactions()

    def __call__(self, decisions: Decisions[Any]) -> Any:
        answer: Performed | None = None
        try:
            while True:
                effect = decisions.send(answer)
                answer = self._execute(effect)
        except StopIteration as stop:
            return stop.value

    def _execute(self, effect: Effect) -> Performed | None:
        refuse_open_transaction(self._outer)
        if isinstance(effect, Perform):
            return self._perform(effect)
        self.persist()
        return None

    def persist(self) -> None:
        """Make what is pending durable; unwinds where the lease is lost."""
        write = self._flow.take_pending()
        if not write:
            return
        lease = self._flow.lease
        receipt = self._commit.write(lease, write)
        if receipt.is_lost:
            self._flow.end(Lost())
        lease.cancel_requested |= receipt.cancelling

    def _perform(self, perform: Perform) -> Performed:
        step = CurrentStep(self._flow.run.run_id, perform.path, perform.attempt, self._flow.lease)
        token = enter_step(step)
        began = time.perf_counter()
        try:
            value = perform.fn(*perform.args)
            if inspect.iscoroutine(value):
                value = async_to_sync(_awaited)(value)
        except Unwind:
            raise
        except BaseException as error:
            # SystemExit and the like too: they are the step's failure, and the run is not to be left hanging.
            leftover_transactions(self._outer)
            return Raised(error, time.perf_counter() - began)
        finally:
            leave_step(token)
        seconds = time.perf_counter() - began
        left_open = leftover_transactions(self._outer)
        return Raised(left_open, seconds) if left_open else Returned(value, seconds)


async def _awaited(coroutine: Any) -> Any:
    return await coroutine


def close_step_connections() -> None:
    """What Django does between requests, between runs: drop connections that are too old or broken."""
    for connection in connections.all(initialized_only=True):
        connection.close_if_unusable_or_obsolete()
