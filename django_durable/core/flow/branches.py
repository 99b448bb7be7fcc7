"""Scopes side by side: how branches are begun, wait, are woken and come to their ends, in whatever order."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NoReturn, cast

from ..journal.fan_out import may_go_on
from ..journal.journal import Entry
from ..journal.outcomes import Outcome, Paused, Released, Stopped, Suspended, together
from ..journal.states import TERMINAL, Kind
from .effects import Answer, AwaitBranch, Decisions, Effect, Ended, Performed, Persist, Refresh, Returned, Spawn, Stop
from .flow import Flow
from .looking import Looking
from .parts import absorb, take_undos
from .scopes import Body, look, revisit, settle

LOOK_AGAIN = 1.0
"""Seconds between two looks at what the outside has sent, while some branches work and others wait for it."""

ASIDE = 500
"""Under a limit so many branches that wait leave their places to others: each is begun anew when the run goes on, and
where hundreds of them fail it is time to wait."""


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


def revisit_all(flow: Flow, branches: Sequence[Branch]) -> Decisions[None]:
    """Come by branches that are over."""
    for branch in branches:
        yield from revisit(flow, branch.path, branch.body)


def revisit_if_stopped(flow: Flow, branches: Sequence[Branch]) -> Decisions[None]:
    """A line that lost comes by all branches, and goes no further."""
    if flow.is_stopped:
        yield from revisit_all(flow, branches)
        flow.end(Stopped())


def look_through(flow: Flow, path: str, branches: Sequence[Branch], *, least: int) -> Decisions[list[Branch]]:
    """Look through branches of what is at ``path``, of which the journal does not say what they came to. Those that
    have come to their ends, with ``performed``; where these are fewer than ``least``, the flow goes no further."""
    ended: list[Branch] = []
    for branch in branches:
        branch.part = part = flow.part(branch.path)
        looking = cast(Looking, flow.looking).beside(f"{path}/", f"{branch.path}/")
        if flow.may_undo(branch.path) or looking.is_ahead:
            performed = yield from look(flow, part, branch.body, looking)
            take_undos(flow, part)
            if performed is not None:
                branch.performed = performed
                ended.append(branch)
        else:
            flow.seen.add(f"{branch.path}/")
    if len(ended) < least:
        flow.end(Stopped())
    return ended


class Branches:
    """Runs branches, at most ``limit`` of them at a time, and tells of one after the other as they end.

    One that waits takes no place: ``limit`` is on what is worked on.
    """

    def __init__(self, flow: Flow, branches: Sequence[Branch], waiting_on: str, limit: int | None = None) -> None:
        self._flow = flow
        self._fresh = list(reversed(branches))
        self.running: list[Branch] = []
        """Those whose code is running now."""
        self.waiting: list[Branch] = []
        """Those that were begun, and wait for something."""
        self._waiting_on = waiting_on
        self._limit = limit or len(branches)
        self._aside = ASIDE if limit else len(branches)
        self._is_replaying = flow.is_replaying
        """Whether those that are begun may have been begun before: what follows them is new in any case."""

    def next(self) -> Decisions[Branch | None]:
        """The next branch that has ended by itself, absorbed by the flow; None after the last.

        Where all that is left waits, the flow is suspended until the first of them can go on.
        """
        while self._fresh or self.running or self.waiting:
            yield from self._begin()
            if not self.running:
                self._suspend()
            ended = yield AwaitBranch([branch.part for branch in self.running], self._patience())
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
        yield from self._stop(at_once=False)

    def _stop(self, *, at_once: bool) -> Generator[Effect, Answer, None]:
        for branch in self.running:
            branch.part.stop()
        if self.running:
            yield Stop([branch.part for branch in self.running], at_once)

    def _begin(self) -> Decisions[None]:
        while self._fresh and self._has_room:
            # What came before is durable before the first branch builds on it.
            if self._flow.pending:
                yield Persist()
            # Whose time has come is first: else a retry would wait for all that have never been tried.
            if (due := next(filter(self._is_due, self.waiting), None)) is not None:
                yield self._go_on(due)
            elif len(self.waiting) < self._aside:
                yield self._spawn(self._fresh.pop(), self._is_replaying)
            else:
                return

    @property
    def _has_room(self) -> bool:
        return len(self.running) < self._limit

    def _go_on(self, branch: Branch) -> Spawn:
        """Begin one anew that waited: it replays up to there."""
        self.waiting.remove(branch)
        absorb(self._flow, branch.part)
        return self._spawn(branch, True)

    def _spawn(self, branch: Branch, is_replaying: bool) -> Spawn:
        branch.part = self._flow.part(branch.path)
        branch.part.is_replaying = is_replaying
        self.running.append(branch)
        return Spawn(branch.part, branch.body)

    def _take(self, ended: Ended) -> Branch:
        branch = next(branch for branch in self.running if branch.part is ended.branch)
        self.running.remove(branch)
        branch.performed = ended.performed
        return branch

    # --- waiting -------------------------------------------------------------------------------

    def _park(self, branch: Branch) -> Decisions[None]:
        """It waits. While others work, that is made durable on its own, and this process looks after its wake."""
        self.waiting.append(branch)
        self._flow.pending.absorb(branch.part.take_pending())
        branch.waits = self._waits_of(branch)
        if not (self.running or self._fresh):
            # The whole run is about to wait: the database counts, by a clock that is known here only roughly.
            return
        yield Persist()
        # Counted from after the commit: the database began to count no later.
        now = self._flow.journal.now()
        for entry in branch.waits:
            if entry.wake_at is None and entry.wake_after is not None:
                entry.wake_at = now + timedelta(seconds=entry.wake_after)

    def _waits_of(self, branch: Branch) -> list[Entry]:
        """What a branch waits for that has just been suspended. The item of a map is a step itself."""
        journal, paths = self._flow.journal, set(cast(Suspended, branch.part.outcome).paths)
        item = journal.find(branch.path) if branch.path in paths else None
        inside = [entry for entry in journal.under(f"{branch.path}/") if entry.path in paths]
        return inside if item is None else [item, *inside]

    def _patience(self) -> float | None:
        if not (self.waiting and self._has_room):
            return None
        now = self._flow.journal.now()
        due = min((branch.wakes_at for branch in self.waiting if branch.wakes_at is not None), default=None)
        return LOOK_AGAIN if due is None else min(max((due - now).total_seconds(), 0.0), LOOK_AGAIN)

    def _wake(self) -> Decisions[None]:
        """Let those go on whose time or event has come, as far as there is room."""
        yield Refresh()
        for branch in list(self.waiting):
            if self._has_room and (self._is_due(branch) or self._has_reason(branch)):
                yield self._go_on(branch)

    def _is_due(self, branch: Branch) -> bool:
        return branch.wakes_at is not None and branch.wakes_at <= self._flow.journal.now()

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
                return may_go_on(self._flow.journal, entry)
            case _:
                return False

    def _suspend(self) -> NoReturn:
        for branch in self.waiting:
            absorb(self._flow, branch.part)
        self._flow.end(together([branch.wait for branch in self.waiting], self._waiting_on))

    # --- ending --------------------------------------------------------------------------------

    def _check(self, branch: Branch) -> Decisions[None]:
        """Where a branch ended in a way that ends the run, the others come to their ends first."""
        try:
            absorb(self._flow, branch.part)
            settle(self._flow, branch.part, branch.performed)
        except BaseException:
            # A pause or a drain lets steps that are under way come to their ends, and waits for nothing else: code
            # between them may wait for what another branch does not do any more.
            yield from self._stop(at_once=not self._is_patient(branch.part.outcome))
            yield from self.take_over()
            raise

    def _is_patient(self, outcome: Outcome | None) -> bool:
        if isinstance(outcome, Released):
            # Where the lease is about to end, so is the time that a step may take.
            return not self._flow.lease.ends_within(self._flow.run.lease_margin)
        return isinstance(outcome, Paused)

    def take_over(self) -> Decisions[None]:
        """Take over what the others have done, once those that are running have ended."""
        while self.running:
            ended = yield AwaitBranch([other.part for other in self.running])
            absorb(self._flow, self._take(cast(Ended, ended)).part)
        for parked in self.waiting:
            absorb(self._flow, parked.part)
