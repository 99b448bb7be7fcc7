"""The ``ctx`` calls of one line of an ``async def`` workflow: one at a time, each awaited to its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn
from weakref import ref

from ..core.flow.executing import executing_line
from ..core.flow.flow import Flow
from ..core.journal.outcomes import Suspended
from ..core.unwinding import Unwind
from .interruption import Interruption
from .misuse import cut_short, left_under_way, refuse_other_thread, refuse_outer_context, side_by_side
from .tasks_made import tasks_made

_Task = ref[asyncio.Task[Any]]


class Calls:
    """What is known of the call that is under way, and who has cancelled it.

    ``interruption``: that of the attempt. ``around``: the calls of the line one of which runs this line
    in its own task, and which ends or is interrupted with it.
    """

    def __init__(self, flow: Flow, interruption: Interruption, around: Calls | None) -> None:
        self.is_in_thread = False
        """Whether a thread works for the call: that cannot be cancelled, only the waiting for it could be."""
        self.is_cut_short = False
        """Whether the latest call was cancelled while it was under way."""
        self._interruption = interruption
        self._around = around
        self._holder: Calls | None = None if around is None else around._holder or around
        """The calls of the line that has the task, with all that it runs in there; None: this line has it."""
        self._thread = threading.get_ident()
        # Weakly: a task keeps its context, and that the flow, which would keep all of them until garbage is collected.
        self._main: _Task | None = None
        """What the line's code runs in, once it does: its own code may cancel this one."""
        self._task: _Task | None = None
        self._made_before: int | None = None
        """How many tasks the loop had made when the line's code began."""
        self._name = ""
        """Of the latest call: the task that it was made in, and its name."""
        self._is_under_way = False
        self._over: asyncio.Future[None] | None = None
        """Set once the line is ending: done when the call that was left under way is over."""
        self._is_interrupted = self._is_hurried = False
        self._finishing: Calls | None = None
        """Of the line that has the task: whose work is under way that an interruption waits for."""
        flow.before_call = self._refuse

    def enter(self) -> None:
        """The line's code runs in the present task."""
        self._main = self._task = _present_task()
        self._made_before = tasks_made()

    def interrupt(self, *, at_once: bool) -> bool:
        """Whoever has spawned this line interrupts it: a branch that lost, or ``at_once`` a run that ends. Whether its
        task is to be cancelled for that: else it ends by itself, when the step that is under way is over.
        """
        self._is_interrupted = True
        self._is_hurried |= at_once
        if at_once or self._finishing is None:
            return True
        self._finishing.is_cut_short = True
        return False

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """While this lasts, only who is in a hurry interrupts the task."""
        outer = self.begin_to_finish()
        try:
            yield
        finally:
            self.end_to_finish(outer)

    def begin_to_finish(self) -> Calls | None:
        """``finishing`` without a context manager, which every step would make; what to end it with."""
        own = self._holder or self
        outer, own._finishing = own._finishing, self
        return outer

    def end_to_finish(self, outer: Calls | None) -> None:
        own = self._holder or self
        own._finishing = outer

    @property
    def are_hurried(self) -> bool:
        """Whether what is under way is not to be waited for longer than it takes to cancel it."""
        return self.are_interrupted or (self._holder or self)._is_hurried

    @property
    def are_interrupted(self) -> bool:
        """Whether somebody outside ends the attempt."""
        return self._interruption.has_come

    @property
    def begin_nothing(self) -> bool:
        """Whether the call under way is to be left, once what it has begun is over."""
        is_own = self._over is not None or self.is_cut_short
        return is_own or (self._around is not None and self._around.begin_nothing)

    @property
    def are_ending(self) -> bool:
        """Whether the line is to end here, so that what is under way is cancelled by us."""
        is_own = self._over is not None or self._is_interrupted or self._interruption.has_come
        return is_own or (self._around is not None and self._around.are_ending)

    @property
    def are_unwanted(self) -> bool:
        """Whether whoever has begun the line ends it: what has not begun of its call under way need not begin."""
        is_own = self._is_interrupted or self._interruption.has_come
        return is_own or (self._around is not None and self._around.are_unwanted)

    @property
    def is_left(self) -> bool:
        """Whether the line has ended, and its latest call has not."""
        return self._over is not None

    def _refuse(self, flow: Flow, name: str) -> None:
        line = executing_line()
        if threading.get_ident() != self._thread:
            refuse_other_thread(flow, self._thread, name)
        if self.are_ending:
            raise Unwind
        if line is not None and line is not flow:
            refuse_outer_context(flow, name, self._name)
        task = _present_task()
        if self._is_under_way or (isinstance(flow.outcome, Suspended) and self._is_beside(task)):
            flow.refuse(side_by_side(name, self._name))
        if flow.outcome is None:
            self._task, self._name = task, name

    def _is_beside(self, task: _Task | None) -> bool:
        """A call that suspended the run is over at once. Another task that goes on regardless was meant to run beside
        it; the main task and the one that was suspended only unwind."""
        return task is not self._main and task is not self._task

    # --- one call ------------------------------------------------------------------------------

    def begin(self) -> None:
        self._is_under_way, self.is_cut_short = True, False

    def end(self, flow: Flow) -> None:
        """The latest call is over. Raises where it was cancelled, for that it does not return."""
        self._is_under_way = False
        if self._over is not None:
            self._over.set_result(None)
        if self.is_cut_short:
            self._leave(flow)

    def _leave(self, flow: Flow) -> NoReturn:
        """Leave a call that was cancelled: what it has done is recorded, but it does not return."""
        if self.are_ending:
            raise asyncio.CancelledError
        # A replay finds the call done, is not cancelled there, and would go another way than this execution.
        flow.refuse(cut_short(self._name))

    async def settle(self, flow: Flow) -> None:
        """The line's code has ended: end the call that it has left under way. Raises ContextMisuse where it has."""
        # A task that was created and not awaited gets its first turn: what it calls is then known.
        if self._may_have_left_a_task():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        if self._is_under_way and self._task is not self._main:
            await self._end_left(flow)

    def _may_have_left_a_task(self) -> bool:
        """Another turn of the loop is a tenth of a run of one step. It is made for a part, so that a loop whose turns
        wait for nothing lets others have theirs, and where the code has cancelled its own task: the turn takes what
        would else come in place of what the code returns.

        What calls ``ctx`` in that turn without a task of its own, as a callback of the loop does, finds the line over.
        """
        if self._around is not None:
            return True
        task, made = asyncio.current_task(), tasks_made()
        return made is None or made != self._made_before or task is None or task.cancelling() > 0

    async def _end_left(self, flow: Flow) -> None:
        """Cancel the call that is under way and wait for its end: nothing of it acts once the attempt is over."""
        task, name = None if self._task is None else self._task(), self._name
        assert task is not None  # noqa: S101  (it is under way)
        self._over = asyncio.get_running_loop().create_future()
        if not self.is_in_thread:
            task.cancel()
        while not self._over.done():
            # Who cancels this task, too, has to wait: the lease is held for as long as the run's code is running.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._over])
        task.cancel()
        if not self.are_interrupted:
            flow.refuse(left_under_way(name))


def _present_task() -> _Task | None:
    task = asyncio.current_task()
    # Of one task there is only one such reference: they are compared as the tasks would be.
    return None if task is None else ref(task)
