"""One attempt of a run as decisions: *value*, *run this* or *wait*. No I/O, no clock of its own.

The step kinds (``steps``, ``sleeps``, ``events``, ``children``, ``values`` …) ask the flow what is journaled, tell
it what to record, and yield effects that a driver executes. Once the flow has an outcome it is closed:
every further call unwinds again without acting.

A flow is one line of execution. The code of a nested scope (a branch, a turn of a loop, a block) has a flow of its own,
a ``part``: names, counters, what is pending and how it ended are its own; run, journal and lease are shared. So lines
that run side by side in threads never write to the same flow.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NoReturn
from uuid import UUID

from ..exceptions import ContextMisuse, RunTimeout, StepNameReused
from .bounds import Bounds
from .codec import encode
from .failures import describe
from .journal import Entry, Journal, Write
from .lease import Lease
from .names import make_path
from .outcomes import Blocked, Cancelled, Failed, Lost, Outcome, Paused, Released, Stopped, Suspended
from .paths import scopes_of
from .retries import Retry
from .states import BlockReason, EntryStatus, Kind
from .stepping import running_step
from .undoing import UNDO, Loser, Undo
from .unwinding import Unwind

logger = logging.getLogger("django_durable.payloads")


@dataclass(slots=True, frozen=True)
class RunInfo:
    """What the flow needs to know of its run.

    ``deadline_at`` is the database's time, ``lease_margin`` how many seconds before the end of its lease the run
    begins nothing new.
    """

    run_id: UUID
    workflow: str
    attempt: int = 1
    root_id: UUID | None = None
    deadline_at: datetime | None = None
    max_payload_bytes: int | None = None
    warn_payload_bytes: int | None = None
    lease_margin: float = 0.0
    warn_entries: int | None = None
    max_entries: int | None = None

    def bounds(self, size: int) -> Bounds:
        """What bounds its journal, which has ``size`` entries to begin with."""
        is_told = self.warn_entries is not None and size > self.warn_entries
        return Bounds(self.warn_entries, self.max_entries, is_told)


class Flow:
    """``pending`` is what the next commit will carry, ``outcome`` how this line ended (None: it has not)."""

    __slots__ = (
        "_claimed",
        "_is_stopped",
        "_parent",
        "_undone",
        "before_call",
        "bounds",
        "counters",
        "heeds_cancel",
        "is_closed",
        "is_replaying",
        "journal",
        "lease",
        "losers",
        "misuse",
        "outcome",
        "pending",
        "random",
        "run",
        "scope",
        "seen",
        "step_retry",
        "undos",
    )

    def __init__(
        self,
        run: RunInfo,
        journal: Journal,
        lease: Lease,
        step_retry: Retry | None = None,
        chance: Callable[[], float] = random.random,
        scope: str = "",
        parent: Flow | None = None,
    ) -> None:
        self.scope = scope
        """What every path of this line begins with: empty, or ending with a slash."""
        self.run = run
        self.journal = journal
        self.lease = lease
        self.step_retry = step_retry or Retry()
        self.random = chance
        self.pending = Write()
        self.outcome: Outcome | None = None
        self.is_replaying = journal.size > 0
        self.bounds: Bounds = parent.bounds if parent is not None else run.bounds(journal.size)
        self.misuse: ContextMisuse | None = None
        """What fails the run, whatever the workflow made of it and whatever else was recorded."""
        self.is_closed = False
        self.heeds_cancel: bool = parent.heeds_cancel if parent is not None else True
        """False while the run compensates: that a cancellation was asked for is a reason to, and not to stop."""
        self.before_call: Callable[[str], None] | None = None
        """What a driver has to say against the ``ctx`` call of this name, here and now; raises."""
        self.counters: dict[str, int] = {}
        self.seen: set[str] = set()
        """Paths that this line, and the parts that it has absorbed, came to; one that ends with ``/`` or ``[`` stands
        for all that begin with it."""
        self.undos: list[Undo] = []
        """What there is to undo: found by lines that only replay."""
        self.losers: list[Loser] = []
        """Branches that lost a race: what they did is undone at the end of the attempt, whatever that is."""
        self._claimed: set[str] = set()
        self._undone: list[str] | None = None
        self._parent = parent
        self._is_stopped = False

    # --- parts ---------------------------------------------------------------------------------

    def part(self, path: str) -> Flow:
        """A flow for the code in the scope that ``path`` opens."""
        return Flow(self.run, self.journal, self.lease, self.step_retry, self.random, f"{path}/", self)

    def absorb(self, part: Flow) -> None:
        """Take over what a part has done, once its code is over for good."""
        self.pending.absorb(part.close())
        for loser in part.losers:
            # A part is over when the code of its branches is.
            if loser.running is not None:
                self.pending.absorb(loser.running.close())
            self.abandon(loser.path)
        self.take_undos(part)

    def take_undos(self, part: Flow) -> None:
        """Take over what a part has found to undo, and nothing that it would write."""
        if not self.has_seen(part.scope):
            self.seen |= part.seen
        self.undos += part.undos
        # One that has nothing to undo is forgotten: an endless loop may have a race in every turn.
        self.losers += [replace(loser, running=None) for loser in part.losers if self.may_undo(loser.path)]

    def may_undo(self, path: str) -> bool:
        """Whether a step in the scope ``path`` was given a compensation."""
        return any(entry.undo for entry in self.journal.under(f"{path}/"))

    def stop(self) -> None:
        """From here on this line, and every part of it, only replays: what is not journaled unwinds it."""
        self._is_stopped = True

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped or (self._parent is not None and self._parent.is_stopped)

    def has_undone(self, scope: str) -> bool:
        """Whether a step in ``scope`` is to be done again, since it was undone before the run was resumed."""
        return any(path.startswith(scope) and not self._is_done(path) for path in self._to_be_done_again())

    def _to_be_done_again(self) -> list[str]:
        # Once for each attempt: as a rule there are none, and every scope that is over asks.
        if self._parent is not None:
            return self._parent._to_be_done_again()
        if self._undone is None:
            undos = [entry for entry in self.journal.under("") if entry.kind == Kind.UNDO]
            self._undone = [entry.path.removesuffix(UNDO) for entry in undos if entry.status == EntryStatus.OPEN]
        return self._undone

    def _is_done(self, path: str) -> bool:
        entry = self.journal.find(path)
        return entry is not None and entry.status == EntryStatus.SUCCEEDED

    def forget_undos(self) -> None:
        """A point of no return: nothing that was done so far is undone, here or in the lines around."""
        self.undos.clear()
        if self._parent is not None:
            self._parent.forget_undos()

    # --- identity ------------------------------------------------------------------------------

    def require_open(self, name: str) -> None:
        """Unwind again where the attempt is over. Raises ContextMisuse where a ctx call cannot work."""
        if running_step() is not None:
            raise ContextMisuse(
                f"ctx was used inside a step, at {name!r}. A step's function gets no ctx: call ctx from the workflow."
            )
        if self.before_call is not None:
            self.before_call(name)
        if self.outcome is not None or self.misuse is not None:
            raise Unwind
        if self.is_closed:
            raise ContextMisuse(
                f"ctx was used after the workflow's function had ended, at {name!r}. Await each ctx call."
            )

    def claim(self, name: str, key: object = None) -> str:
        """The path of this call, which nobody in this scope has used before. Raises StepNameReused, InvalidName."""
        self.require_open(name)
        path = make_path(self.scope, name, key)
        if path in self._claimed:
            raise StepNameReused(path)
        if key is not None:
            self._claim_key(path)
        self._claimed.add(path)
        return path

    def _claim_key(self, path: str) -> None:
        keyed = path[: path.rindex("[") + 1]
        if f"{keyed}]" in self._claimed:
            raise StepNameReused(path)
        self._claimed.add(keyed)

    def claim_indexes(self, path: str) -> None:
        """``path[…]`` belongs to what is at ``path``: its items, its turns. Raises StepNameReused where a call with a
        key has one of these paths, or is to get it."""
        if f"{path}[" in self._claimed:
            raise StepNameReused(path)
        self._claimed.add(f"{path}[]")

    def count(self, name: str) -> int:
        """How many unnamed values of this sort were asked for in this scope, this one included."""
        self.counters[name] = turn = self.counters.get(name, 0) + 1
        return turn

    def find(self, path: str, kind: Kind) -> Entry | None:
        """What is journaled at ``path``. An entry of another kind ends the attempt as ``blocked: diverged``.

        Raises JournalFull where nothing is, and there is no room: an undoing always finds room.
        """
        entry = self.journal.find(path)
        self.seen.add(path)
        if entry is None and self.journal.size >= self.bounds.near and kind != Kind.UNDO and not self.is_stopped:
            self.bounds.make_room(self.run.run_id, self.run.workflow, self.journal.size)
        if entry is None or entry.status in (EntryStatus.WAITING, EntryStatus.RETRYING):
            # What comes after a wait is new, although the wait itself was journaled.
            self.is_replaying = False
        if entry is not None and entry.kind != kind:
            text = f"{path!r} is a {entry.kind} in the journal, but the code now asks for a {kind}."
            self.end(Blocked(BlockReason.DIVERGED, text))
        if entry is not None and entry.status == EntryStatus.ABANDONED:
            if self.is_stopped:
                self.end(Stopped())
            # Changed code had passed it by, and this code waits for it again: from when it first did.
            entry = replace(entry, status=EntryStatus.WAITING)
            self.record(entry)
        return entry

    def has_seen(self, path: str) -> bool:
        """Whether this line, or a part of it that is over, came to ``path``, or by the scope that it is in."""
        return path in self.seen or any(scope in self.seen for scope in scopes_of(path))

    def unvisited(self, scope: str = "") -> list[str]:
        """What is journaled in ``scope`` and this replay did not come to: the code went another way before."""
        entries = self.journal.under(scope)
        return [entry.path for entry in entries if entry.kind != Kind.UNDO and not self.has_seen(entry.path)]

    def encode(self, value: object, root: str) -> str:
        """``value`` as text within the run's limits; says in the log that it is large. Raises PayloadError."""
        text = encode(value, limit=self.run.max_payload_bytes, root=root)
        warn_at = self.run.warn_payload_bytes
        if warn_at is not None and len(text) > warn_at:
            logger.warning("large payload run=%s what=%r bytes=%d", self.run.run_id, root, len(text))
        return text

    # --- acting --------------------------------------------------------------------------------

    def require_live(self) -> None:
        """Unwind where this attempt may start nothing new: lease (nearly) over, asked to stop or pause, out of time."""
        if self._is_stopped or (self._parent is not None and self.is_stopped):
            self.end(Stopped())
        lease, deadline_at = self.lease, self.run.deadline_at
        if lease.is_over:
            self.end(Lost())
        if lease.cancel_requested and self.heeds_cancel:
            self.end(Cancelled())
        if lease.pause_requested:
            self.end(Paused())
        if lease.release_requested:
            self.end(Released())
        if deadline_at is not None and self.journal.now() >= deadline_at:
            self.end(Failed(describe(RunTimeout(self.run.run_id))))
        if lease.ends_within(self.run.lease_margin):
            # Nobody renews it. As long as it lasts the run can still be handed back, so that it need not lapse.
            self.end(Released())

    def record(self, entry: Entry) -> None:
        """Journal ``entry`` with the next commit."""
        self.journal.add(entry)
        self.pending.entries[entry.path] = entry

    def leave_waits(self, paths: Collection[str]) -> None:
        """The run comes to a rest and waits at ``paths``: whatever else was waited for once, nobody is there now."""
        for entry in self.journal.waits():
            if entry.path not in paths:
                self.record(replace(entry, status=EntryStatus.ABANDONED))

    def abandon(self, path: str) -> None:
        """Close the waits in the scope ``path``, and cancel the children that were waited for there."""
        for entry in self.journal.under(f"{path}/"):
            # A map is open while it starts its children.
            if entry.is_wait or (entry.kind == Kind.MAP and entry.status == EntryStatus.OPEN):
                if entry.kind in (Kind.CHILD, Kind.MAP):
                    self.pending.unwanted.append(entry.path)
                self.record(replace(entry, status=EntryStatus.ABANDONED))

    def take_pending(self) -> Write:
        """What is to be committed now; the next commit starts empty."""
        write, self.pending = self.pending, Write()
        return write

    # --- ending --------------------------------------------------------------------------------

    def suspend(self, entry: Entry) -> NoReturn:
        """End the attempt: the run waits for ``entry``, whose time (if it has one) bounds the wait."""
        what = "retry" if entry.status == EntryStatus.RETRYING else entry.kind
        self.end(Suspended(f"{what}:{entry.path}", entry.wake_at, entry.wake_after))

    def end(self, outcome: Outcome) -> NoReturn:
        """Close the flow with ``outcome`` (the first one stands) and unwind the workflow."""
        if self.outcome is None:
            self.outcome = outcome
        raise Unwind

    def refuse(self, misuse: ContextMisuse) -> NoReturn:
        """Fail the run for a misuse that depends on timing: a replay might not meet it, and go another way."""
        self.misuse = self.misuse or misuse
        raise misuse

    def close(self) -> Write:
        """The attempt is over: what is left to be committed. Whoever still has the ``ctx`` is refused."""
        self.is_closed = True
        return self.take_pending()
