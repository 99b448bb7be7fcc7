"""Code in a scope of its own: one after the other (``enter``), or side by side (``Branches``)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
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
from .outcomes import Stopped, Suspended, together
from .states import TERMINAL, Kind

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
    """Come by a scope that is over. Where the line only replays to see what there is to undo, its code runs again."""
    flow.seen.add(f"{path}/")
    if flow.is_stopped and any(entry.undo for entry in flow.journal.under(f"{path}/")):
        yield from replay(flow, flow.part(path), body)


def replay(flow: Flow, part: Flow, body: Body) -> Decisions[None]:
    """Run ``body`` as far as the journal goes and no further, for the compensations that it names."""
    part.stop()
    performed = yield Enter(part, body)
    flow.take_undos(part)
    if part.misuse is not None:
        flow.refuse(part.misuse)
    if part.outcome is not None and not isinstance(part.outcome, Suspended | Stopped):
        flow.end(part.outcome)
    if isinstance(performed, Raised) and isinstance(performed.error, FATAL):
        raise performed.error


def revisit_if_stopped(flow: Flow, branches: Sequence[Branch]) -> Decisions[None]:
    """A line that only replays comes by all branches, one after the other, and goes no further."""
    if flow.is_stopped:
        for branch in branches:
            yield from revisit(flow, branch.path, branch.body)
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
    wakes_at: datetime | None = None
    """While it waits: when its time has come."""
    waits: Sequence[Entry] = ()
    """While it waits: what for."""

    @property
    def wait(self) -> Suspended:
        return cast(Suspended, self.part.outcome)


class Branches:
    """Runs branches, at most ``limit`` of them at a time, and tells of one after the other as they end."""

    def __init__(self, flow: Flow, branches: Sequence[Branch], waiting_on: str, limit: int | None = None) -> None:
        self._flow = flow
        self._fresh = list(reversed(branches))
        self._running: list[Branch] = []
        self._waiting: list[Branch] = []
        self._waiting_on = waiting_on
        self._limit = limit or len(branches)

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
            return branch
        return None

    def stop(self) -> Generator[Effect, Answer, None]:
        """Let nothing new begin in those that are running, and do not wait for them."""
        for branch in self._running:
            branch.part.stop()
        if self._running:
            yield Stop([branch.part for branch in self._running])

    def _begin(self) -> Decisions[None]:
        while self._fresh and len(self._running) + len(self._waiting) < self._limit:
            # What came before is durable before the first branch builds on it.
            if self._flow.pending:
                yield Persist()
            branch = self._fresh.pop()
            branch.part = self._flow.part(branch.path)
            self._running.append(branch)
            yield Spawn(branch.part, branch.body)

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
        if self._running or self._fresh:
            yield Persist()
        paths = set(branch.wait.paths)
        branch.waits = [entry for entry in self._flow.journal.under(f"{branch.path}/") if entry.path in paths]
        # Counted from after the commit: the database began to count no later.
        now = self._flow.journal.now()
        for entry in branch.waits:
            if entry.wake_at is None and entry.wake_after is not None:
                entry.wake_at = now + timedelta(seconds=entry.wake_after)
        branch.wakes_at = min((entry.wake_at for entry in branch.waits if entry.wake_at is not None), default=None)

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
                branch.part = self._flow.part(branch.path)
                self._running.append(branch)
                yield Spawn(branch.part, branch.body)

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
            yield from self.stop()
            while self._running:
                ended = yield AwaitBranch([other.part for other in self._running])
                self._flow.absorb(self._take(cast(Ended, ended)).part)
            raise
