"""Code in a scope of its own: one after the other (``enter``), or side by side (``Branches``)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NoReturn, cast

from ..exceptions import ContextMisuse, InvalidName, PayloadUndecodable, StepNameReused, SuspensionSwallowed
from .effects import (
    Answer,
    AwaitBranch,
    Decisions,
    Effect,
    Ended,
    Enter,
    Performed,
    Persist,
    Raised,
    Refresh,
    Returned,
    Spawn,
    Stop,
)
from .flow import Flow
from .journal import Entry
from .outcomes import Paused, Stopped, Suspended, together
from .states import TERMINAL, Kind
from .undoing import Undo

Body = Callable[[Any], Any]
"""The user's code of a scope: called with a ``ctx`` of its own."""

FATAL = (ContextMisuse, InvalidName, PayloadUndecodable, StepNameReused)
"""Faults of the code or the deployment: they end the run and are never the outcome of a branch or a block."""

LOOK_AGAIN = 1.0
"""Seconds between two looks at what the outside has sent, while some branches work and others wait for it."""


def enter(flow: Flow, path: str, body: Body) -> Decisions[Performed]:
    """Run ``body`` in the scope ``path`` and say how it ended. Where the part was suspended, so is the flow."""
    part = flow.part(path)
    part.is_replaying = flow.is_replaying
    # One line goes on in the other: what is pending stays in front of what comes.
    part.pending = flow.take_pending()
    performed = cast(Performed, (yield Enter(part, body)))
    flow.absorb(part)
    flow.is_replaying = part.is_replaying
    settle(flow, part, performed)
    return performed


def settle(flow: Flow, part: Flow, performed: Performed) -> None:
    """Returns where the part's code has come to an end of its own; else the flow ends as the part did."""
    if part.misuse is not None:
        flow.refuse(part.misuse)
    if isinstance(part.outcome, Suspended) and isinstance(performed, Returned):
        flow.refuse(SuspensionSwallowed(part.outcome.waiting_on.partition(":")[2]))
    if part.outcome is not None:
        flow.end(part.outcome)
    if isinstance(performed, Raised) and (isinstance(performed.error, FATAL) or not _is_ordinary(performed.error)):
        raise performed.error


def _is_ordinary(error: BaseException) -> bool:
    return isinstance(error, Exception)


def revisit(flow: Flow, path: str, body: Body) -> Decisions[None]:
    """Come by a scope that is over, and whose end stands. Its code runs again where the line only replays to see what
    there is to undo, and where a step of it was undone before the run was resumed."""
    if flow.is_stopped and flow.may_undo(path):
        yield from replay(flow, flow.part(path), body)
        return
    flow.seen.add(f"{path}/")
    if not flow.is_stopped and flow.has_undone(f"{path}/"):
        performed = yield from enter(flow, path, body)
        # A branch that had failed raises its error as before; one whose step could not be done again does so anew.
        if isinstance(performed, Raised) and flow.has_undone(f"{path}/"):
            raise performed.error


def revisit_all(flow: Flow, branches: Sequence[Branch]) -> Decisions[None]:
    """Come by branches that are over. A point of no return in one of them does not hold for those beside it."""
    beside: list[Undo] = []
    for branch in branches:
        yield from revisit(flow, branch.path, branch.body)
        inside = [undo for undo in flow.undos if undo.path.startswith(f"{branch.path}/")]
        flow.undos = flow.undos[: len(flow.undos) - len(inside)]
        beside += inside
    flow.undos += beside


def replay(flow: Flow, part: Flow, body: Body) -> Decisions[None]:
    """Run ``body`` as far as the journal goes and no further, for the compensations that it names.

    How the code ends is of no matter, be it the misuse that the run fails for: whoever wants all that was done to be
    undone looks whether the replay has come by it.
    """
    part.stop()
    performed = yield Enter(part, body)
    flow.take_undos(part)
    if part.outcome is not None and not isinstance(part.outcome, Suspended | Stopped):
        flow.end(part.outcome)
    if isinstance(performed, Raised) and isinstance(performed.error, PayloadUndecodable):
        raise performed.error


def revisit_if_stopped(flow: Flow, branches: Sequence[Branch]) -> Decisions[None]:
    """A line that only replays comes by all branches, one after the other, and goes no further."""
    if flow.is_stopped:
        yield from revisit_all(flow, branches)
        flow.end(Stopped())


# --- side by side ----------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Branch:
    """One of several scopes that run side by side. ``performed`` says how it ended, once ``Branches`` has told."""

    name: Any
    path: str
    body: Body
    part: Flow = field(init=False)
    performed: Performed = field(init=False)
    waits: Sequence[Entry] = ()
    """While it waits: what for."""

    @property
    def wakes_at(self) -> datetime | None:
        """While it waits: when its time has come."""
        return min((entry.wake_at for entry in self.waits if entry.wake_at is not None), default=None)

    @property
    def wait(self) -> Suspended:
        """Where others worked meanwhile, it ends when its entries say, and is not counted again from now on."""
        left = (entry.wake_after for entry in self.waits if entry.wake_at is None and entry.wake_after is not None)
        outcome = cast(Suspended, self.part.outcome)
        return replace(outcome, wake_at=self.wakes_at, wake_after=min(left, default=None))


class Branches:
    """Runs branches, at most ``limit`` of them at a time, and tells of one after the other as they end."""

    def __init__(self, flow: Flow, branches: Sequence[Branch], waiting_on: str, limit: int | None = None) -> None:
        self._flow = flow
        self._fresh = list(reversed(branches))
        self._running: list[Branch] = []
        self._waiting: list[Branch] = []
        self._waiting_on = waiting_on
        self._limit = limit or len(branches)
        self._is_replaying = flow.is_replaying
        """Whether those that are begun may have been begun before: what follows them is new in any case."""

    @property
    def unfinished(self) -> list[tuple[Branch, bool]]:
        """Those that have not ended, and whether their code is running now."""
        return [(branch, True) for branch in self._running] + [(branch, False) for branch in self._waiting]

    def next(self) -> Decisions[Branch | None]:
        """The next branch that has ended by itself, absorbed by the flow; None after the last.

        Where all that is left waits, the flow is suspended until the first of them can go on.
        """
        while self._fresh or self._running or self._waiting:
            yield from self._begin()
            if not self._running:
                self._suspend()
            ended = yield AwaitBranch([branch.part for branch in self._running], self._patience())
            if ended is None:
                yield from self._wake()
                continue
            branch = self._take(cast(Ended, ended))
            if isinstance(branch.part.outcome, Suspended) and not isinstance(branch.performed, Returned):
                yield from self._park(branch)
                continue
            yield from self._check(branch)
            self._flow.is_replaying = False
            return branch
        return None

    def stop(self) -> Generator[Effect, Answer, None]:
        """Let nothing new begin in those that are running, and do not wait for them."""
        self._close()
        if self._running:
            yield Stop([branch.part for branch in self._running])

    def _close(self) -> None:
        for branch in self._running:
            branch.part.stop()

    def _begin(self) -> Decisions[None]:
        while self._fresh and len(self._running) + len(self._waiting) < self._limit:
            # What came before is durable before the first branch builds on it.
            if self._flow.pending:
                yield Persist()
            branch = self._fresh.pop()
            yield self._spawn(branch, self._is_replaying)

    def _spawn(self, branch: Branch, is_replaying: bool) -> Spawn:
        branch.part = self._flow.part(branch.path)
        branch.part.is_replaying = is_replaying
        self._running.append(branch)
        return Spawn(branch.part, branch.body)

    def _take(self, ended: Ended) -> Branch:
        branch = next(branch for branch in self._running if branch.part is ended.branch)
        self._running.remove(branch)
        branch.performed = ended.performed
        return branch

    # --- waiting -------------------------------------------------------------------------------

    def _park(self, branch: Branch) -> Decisions[None]:
        """It waits. While others work, that is made durable on its own, and this process looks after its wake."""
        self._waiting.append(branch)
        self._flow.pending.absorb(branch.part.take_pending())
        paths = set(cast(Suspended, branch.part.outcome).paths)
        branch.waits = [entry for entry in self._flow.journal.under(f"{branch.path}/") if entry.path in paths]
        if not (self._running or self._fresh):
            # The whole run is about to wait: the database counts, by a clock that is known here only roughly.
            return
        yield Persist()
        # Counted from after the commit: the database began to count no later.
        now = self._flow.journal.now()
        for entry in branch.waits:
            if entry.wake_at is None and entry.wake_after is not None:
                entry.wake_at = now + timedelta(seconds=entry.wake_after)

    def _patience(self) -> float | None:
        if not self._waiting:
            return None
        now = self._flow.journal.now()
        due = min((branch.wakes_at for branch in self._waiting if branch.wakes_at is not None), default=None)
        return LOOK_AGAIN if due is None else min(max((due - now).total_seconds(), 0.0), LOOK_AGAIN)

    def _wake(self) -> Decisions[None]:
        """Begin those anew whose time or event has come: they replay up to where they waited."""
        yield Refresh()
        now = self._flow.journal.now()
        for branch in list(self._waiting):
            if (branch.wakes_at is not None and branch.wakes_at <= now) or self._has_reason(branch):
                self._waiting.remove(branch)
                # The losers of the line that waited are no part of the one that begins now.
                self._flow.absorb(branch.part)
                yield self._spawn(branch, True)

    def _has_reason(self, branch: Branch) -> bool:
        return any(self._has_come(entry) for entry in branch.waits)

    def _has_come(self, entry: Entry) -> bool:
        inbox = self._flow.journal.inbox
        match entry.kind:
            case Kind.EVENT:
                return inbox.has_event(entry.awaits.split("\n"))
            case Kind.CHILD:
                child = inbox.child(entry.path)
                return child is not None and child.status in TERMINAL
            case Kind.MAP:
                # Its own replay looks whether all of its children have ended.
                return True
            case _:
                return False

    def _suspend(self) -> NoReturn:
        for branch in self._waiting:
            self._flow.absorb(branch.part)
        self._flow.end(together([branch.wait for branch in self._waiting], self._waiting_on))

    # --- ending --------------------------------------------------------------------------------

    def _check(self, branch: Branch) -> Decisions[None]:
        """Where a branch ended in a way that ends the run, the others come to their ends first."""
        try:
            self._flow.absorb(branch.part)
            settle(self._flow, branch.part, branch.performed)
        except BaseException:
            # A pause lets steps that are under way come to their ends; everything else interrupts what it can.
            if isinstance(branch.part.outcome, Paused):
                self._close()
            else:
                yield from self.stop()
            while self._running:
                ended = yield AwaitBranch([other.part for other in self._running])
                self._flow.absorb(self._take(cast(Ended, ended)).part)
            raise
