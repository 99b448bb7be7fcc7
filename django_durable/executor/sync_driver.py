"""Executes what a flow decides, for ``def`` workflows: in the run's own thread, and a thread for each branch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..core.context import Context
from ..core.flow.effects import (
    LAST,
    Answer,
    AwaitBranch,
    Decisions,
    Effect,
    Ended,
    Enter,
    Perform,
    Performed,
    Persist,
    Raised,
    Refresh,
    Returned,
    Spawn,
    Stop,
)
from ..core.flow.executing import enter_line, leave_line
from ..core.flow.flow import Flow
from ..core.flow.parts import absorb
from ..core.unwinding import Unwind
from .atomic import perform_atomically, refuse_coroutine
from .branch_ends import Ends
from .branch_threads import Branches
from .commit import Commit, heed
from .misuse import refuse_coroutine_body
from .step_call import call_step
from .sync_calls import SyncCalls
from .tails import Tails
from .transactions import connections_here, drop_broken_connections, leftover_transactions


class SyncDriver:
    """``drive(decisions)`` runs a step kind's generator to its value. One for each line of execution."""

    def __init__(self, flow: Flow, commit: Commit, branches: Branches, around: SyncDriver | None = None) -> None:
        self._flow = flow
        self._commit = commit
        self._branches = branches
        self._around = around
        """The line that has begun this one; None for the function's own."""
        self._ends: Ends = around._ends if around is not None else Ends()
        self.tails: Tails | None = None
        """Where the function's own line is left to the commit of the outcome."""
        self._calls = SyncCalls()
        self._begun: dict[Flow, None] = {}
        """Branches of this line, as long as nobody has been told of their ends; in the order of their beginnings."""
        self._waiting: deque[Spawn] = deque()
        """Those among them that no thread was free for."""
        flow.before_call = self._calls.refuse

    def __call__(self, decisions: Decisions[Any]) -> Any:
        answer: Answer = None
        try:
            while True:
                effect = decisions.send(answer)
                if isinstance(effect, Perform):
                    answer = self._perform(effect)
                elif effect is LAST and self.tails is not None and self.tails.may_wait(self._flow, 2):
                    answer = None
                else:
                    answer = self._execute(effect)
        except StopIteration as stop:
            return stop.value

    def finish(self) -> None:
        """At the end of the line: wait for the code of its branches, and undo what its own code left open.

        Branches that have lost a race are left to the lines around; the function's own line waits for all there are.
        """
        for branch in self._begun:
            branch.stop()
        while self._waiting:
            self._ends.tell(self._run(self._waiting.popleft()))
        if self._around is None:
            self._ends.wait()
        elif self._begun:
            self._ends.wait(self._flow.losers.others(self._begun))
        # The call that has begun them ended in the midst of it: what they have done has happened all the same.
        for branch in self._flow.losers.others(self._begun):
            absorb(self._flow, branch)
        leftover_transactions(self._calls.outer, self._calls.connections)

    def _execute(self, effect: Effect) -> Answer:
        match effect:
            case Persist():
                self.persist()
            case Enter(part, body):
                return self._enter(part, body)
            case Spawn():
                self._spawn(effect)
            case AwaitBranch(branches, seconds):
                return self._await_branch(branches, seconds)
            case Refresh():
                self._commit.refresh(self._flow.journal.inbox, self._flow.lease)
            case Stop():
                # A thread goes on to its next call; one that was not begun ends there at once.
                pass
        return None

    def persist(self) -> None:
        """Make what is pending durable; unwinds where the lease is lost."""
        if write := self._flow.take_pending():
            heed(self._flow, self._commit.write(self._flow.lease, write))

    # --- the user's code -----------------------------------------------------------------------

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
            # Asked for anew: what has failed may be what follows the opening of one.
            leftover_transactions(self._calls.outer, connections_here())
            drop_broken_connections()
            return Raised(error, seconds)
        seconds = time.perf_counter() - began
        left_open = leftover_transactions(self._calls.outer, self._calls.connections)
        return Raised(left_open, seconds) if left_open else Returned(value, seconds)

    def _enter(self, part: Flow, body: Callable[[Any], Any]) -> Performed:
        """Run the code of a part in this thread, as a line of its own."""
        began = time.perf_counter()
        driver = SyncDriver(part, self._commit, self._branches, self)
        token = enter_line(part)
        try:
            try:
                value = body(Context(part, driver))
            finally:
                driver.finish()
            refuse_coroutine_body(value)
            return Returned(value, time.perf_counter() - began)
        except BaseException as error:
            # Whatever it is, it goes to whoever entered: nobody would hear of it in a thread.
            return Raised(error, time.perf_counter() - began)
        finally:
            leave_line(token)

    # --- branches ------------------------------------------------------------------------------

    def _spawn(self, spawn: Spawn) -> None:
        self._begun[spawn.branch] = None
        self._ends.begin(spawn.branch)
        if not self._branches.submit(partial(self._run, spawn), self._ends.tell):
            self._waiting.append(spawn)

    def _run(self, spawn: Spawn) -> Ended:
        # Where nobody needs it any more, nothing of it begins.
        is_over = spawn.branch.is_stopped
        return Ended(spawn.branch, Raised(Unwind(), 0.0) if is_over else self._enter(spawn.branch, spawn.body))

    def _await_branch(self, branches: Sequence[Flow], seconds: float | None) -> Ended | None:
        ended = self._ends.take(branches, 0.0)
        if ended is None and (spawn := next((one for one in self._waiting if one.branch in branches), None)):
            self._waiting.remove(spawn)
            self._ends.tell(self._run(spawn))
        ended = ended or self._ends.take(branches, seconds)
        if ended is not None:
            self._begun.pop(ended.branch, None)
        return ended
