"""Executes what a flow decides, for ``def`` workflows: everything happens in the run's own thread."""

from __future__ import annotations

import threading
import time
from typing import Any

from ..core.context import Decisions
from ..core.effects import Effect, Perform, Performed, Raised, Returned
from ..core.flow import Flow
from ..core.unwinding import Unwind
from .atomic import perform_atomically, refuse_coroutine
from .commit import Commit, heed
from .misuse import refuse_other_thread
from .step_call import call_step
from .transactions import drop_broken_connections, leftover_transactions, open_transactions, refuse_open_transaction


class SyncDriver:
    """``drive(decisions)`` runs a step kind's generator to its value."""

    def __init__(self, flow: Flow, commit: Commit) -> None:
        self._flow = flow
        self._commit = commit
        self._outer = open_transactions()
        self._thread = threading.get_ident()
        flow.before_call = self._refuse

    def __call__(self, decisions: Decisions[Any]) -> Any:
        answer: Performed | None = None
        try:
            while True:
                effect = decisions.send(answer)
                answer = self._execute(effect)
        except StopIteration as stop:
            return stop.value

    def _refuse(self, name: str) -> None:
        refuse_other_thread(self._thread, name)
        if self._flow.outcome is None:
            refuse_open_transaction(self._outer)

    def roll_back(self) -> None:
        """At the end of the attempt: undo what the workflow's own code left open on this thread."""
        leftover_transactions(self._outer)

    def _execute(self, effect: Effect) -> Performed | None:
        if isinstance(effect, Perform):
            return self._perform(effect)
        self.persist()
        return None

    def persist(self) -> None:
        """Make what is pending durable; unwinds where the lease is lost."""
        if write := self._flow.take_pending():
            heed(self._flow, self._commit.write(self._flow.lease, write))

    def _perform(self, perform: Perform) -> Performed:
        if perform.settle is not None:
            refuse_coroutine(perform)
            return perform_atomically(self._flow, perform, self._commit)
        began = time.perf_counter()
        try:
            value = call_step(self._flow, perform)
        except Unwind:
            raise
        except BaseException as error:
            # SystemExit and the like too: they are the step's failure, and the run is not to be left hanging.
            seconds = time.perf_counter() - began
            leftover_transactions(self._outer)
            drop_broken_connections()
            return Raised(error, seconds)
        seconds = time.perf_counter() - began
        left_open = leftover_transactions(self._outer)
        return Raised(left_open, seconds) if left_open else Returned(value, seconds)
