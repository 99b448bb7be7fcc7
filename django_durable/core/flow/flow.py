"""One attempt of a run as decisions: *value*, *run this* or *wait*. No I/O, no clock of its own.

The step kinds (``steps``, ``sleeps``, ``events``, ``children``, ``values`` …) ask the flow what is journaled, tell
it what to record, and yield effects that a driver executes. Once the flow has an outcome it is closed:
every further call unwinds again without acting.

A flow is one line of execution. The code of a nested scope (a branch, a turn of a loop, a block) has a flow of its own,
a ``part``: names, counters, what is pending and how it ended are its own; run, journal and lease are shared. So lines
that run side by side in threads never write to the same flow.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NoReturn

from ...exceptions import ContextMisuse
from ..journal.journal import Entry, Journal, Write
from ..journal.outcomes import Blocked, Outcome, Stopped, Suspended
from ..journal.paths import scopes_of
from ..journal.states import UNNAMED, BlockReason, EntryStatus, Kind
from ..payloads.codec import encode
from ..retries import Retry
from ..sizes import note_size
from ..unwinding import Unwind
from .answered import Answered
from .claimed import Claimed
from .halting import reason_to_halt
from .journal_bounds import JournalBounds
from .lease import Lease
from .looking import DECIDED, Looking, as_before
from .losers import Losers
from .redoing import Redoing
from .run_info import RunInfo
from .stepping import running_step
from .undoing import UNDO, Undo

BEGUN = (EntryStatus.OPEN, EntryStatus.WAITING)
ANEW = (Kind.POLL, Kind.EVENT, Kind.CHILD)
"""Kinds that begin as if for the first time when a resume has opened them: with a deadline or a child of that time."""


def begins_anew(entry: Entry) -> bool:
    """Whether the journal has ``entry`` for those only who look for what there is to undo."""
    return entry.is_anew and entry.kind in ANEW


class Flow:
    """``pending`` is what the next commit will carry, ``outcome`` how this line ended (None: it has not)."""

    __slots__ = (
        "_is_at_decided",
        "_is_stopped",
        "_parent",
        "answered",
        "before_call",
        "bounds",
        "claimed",
        "heeds_cancel",
        "is_closed",
        "is_replaying",
        "journal",
        "lease",
        "looking",
        "losers",
        "misuse",
        "outcome",
        "pending",
        "random",
        "redoing",
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
        self.bounds: JournalBounds = parent.bounds if parent is not None else run.bounds(journal.size)
        self.redoing: Redoing = parent.redoing if parent is not None else Redoing(journal)
        self.answered: Answered = parent.answered if parent is not None else Answered(journal)
        self.losers: Losers = parent.losers if parent is not None else Losers()
        self.misuse: ContextMisuse | None = None
        """What fails the run, whatever the workflow made of it and whatever else was recorded."""
        self.is_closed = False
        self.heeds_cancel: bool = parent.heeds_cancel if parent is not None else True
        """False while the run compensates: that a cancellation was asked for is a reason to, and not to stop."""
        self.before_call: Callable[[Flow, str], None] | None = None
        """What a driver has to say against the ``ctx`` call of this name, here and now; raises. It is told of the flow
        and knows none: what points at each other outlives the run until the garbage collector comes by."""
        self.claimed = Claimed()
        self.seen: set[str] = set()
        """Paths that this line, and the parts that it has absorbed, came to; one that ends with ``/`` or ``[`` stands
        for all that begin with it."""
        self.undos: list[Undo] = []
        """What there is to undo: found by lines that only look for it."""
        self.looking: Looking | None = parent.looking if parent is not None else None
        """Where this line only replays, for what there is to undo: how far. It changes nothing of the journal."""
        self._parent = parent
        self._is_stopped = False
        self._is_at_decided = False

    # --- parts ---------------------------------------------------------------------------------

    def part(self, path: str) -> Flow:
        """A flow for the code in the scope that ``path`` opens."""
        return Flow(self.run, self.journal, self.lease, self.step_retry, self.random, f"{path}/", self)

    def stop(self) -> None:
        """From here on this line, and every part of it, begins nothing: what is not journaled unwinds it. The step that
        is under way may journal its result: a branch that loses a race is stopped in the middle of its work."""
        self._is_stopped = True

    def look(self, looking: Looking) -> None:
        """This line, which has not begun, and every part of it only replays, as far as ``looking`` says."""
        self._is_stopped, self.looking = True, looking

    @property
    def is_looking(self) -> bool:
        return self.looking is not None

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped or (self._parent is not None and self._parent.is_stopped)

    def may_undo(self, path: str) -> bool:
        """Whether a step in the scope ``path`` was given a compensation."""
        return any(entry.undo for entry in self.journal.under(f"{path}/"))

    @property
    def says_again(self) -> bool:
        """Whether what the code says here was said before: in a replay, and where a resume has opened an entry behind
        the others, of which the journal still has what they came to."""
        return self.is_replaying or self._is_at_decided

    # --- identity ------------------------------------------------------------------------------

    def require_open(self, name: str) -> None:
        """Unwind again where the attempt is over. Raises ContextMisuse where a ctx call cannot work."""
        if running_step() is not None:
            raise ContextMisuse(
                f"ctx was used inside a step, at {name!r}. A step's function gets no ctx: call ctx from the workflow."
            )
        if self.before_call is not None:
            self.before_call(self, name)
        if self.outcome is not None or self.misuse is not None:
            raise Unwind
        if self.is_closed:
            raise ContextMisuse(
                f"ctx was used after the workflow's function had ended, at {name!r}. Await each ctx call."
            )

    def claim(self, name: str, key: object = None) -> str:
        """The path of this call, which nobody in this scope has used before. Raises StepNameReused, InvalidName."""
        self.require_open(name)
        return self.claimed.claim(self.scope, name, key)

    def find(self, path: str, kind: Kind) -> Entry | None:
        """What is journaled at ``path``. An entry of another kind ends the attempt as ``blocked: diverged``.

        Raises JournalFull where nothing is, and there is no room: an undoing always finds room.
        """
        journal = self.journal
        self.seen.add(path)
        entry = journal.ask(path)
        if self.looking is not None:
            self.looking.come_to(path)
        if entry is None:
            if journal.size >= self.bounds.near and not self.is_stopped:
                self.bounds.make_room(journal, at_any_size=kind == Kind.UNDO)
            # A line that only looks says nothing that an attempt has said, or will say.
            self.is_replaying, self._is_at_decided = self.looking is not None, False
            return None
        self._is_at_decided = entry.status in DECIDED
        if self.is_replaying:
            self.pending.unsay()
        if entry.is_wait:
            # What comes after a wait is new, although the wait itself was journaled.
            self.is_replaying = self.is_looking
        if entry.kind != kind:
            self._require_anew(entry, kind)
            return None
        if self.looking is not None:
            entry = self._as_before(self.looking, entry)
        elif entry.is_anew and kind in ANEW:
            return None
        return self._taken_up(entry) if entry.status == EntryStatus.ABANDONED else entry

    def _require_anew(self, entry: Entry, kind: Kind) -> None:
        """The code asks for another ``kind``: of what is to begin as if for the first time nothing is in its way."""
        if not begins_anew(entry):
            text = f"{entry.path!r} is a {entry.kind} in the journal, but the code now asks for a {kind}."
            self.end(Blocked(BlockReason.DIVERGED, text))
        self.forget([entry.path])

    def _as_before(self, looking: Looking, entry: Entry) -> Entry:
        if entry.status == EntryStatus.FAILED and entry.value is not None and self._is_before_undoing(looking, entry):
            return replace(entry, status=EntryStatus.SUCCEEDED)
        before = as_before(entry)
        if before.status == EntryStatus.FAILED != entry.status:
            self._pass_by(looking, is_known=True)
        return before

    def _is_before_undoing(self, looking: Looking, entry: Entry) -> bool:
        """Whether what lies ahead was done before ``entry`` was undone, to be done again, which failed then."""
        undo = self.journal.find(entry.path + UNDO)
        ahead = (self.journal.find(path) for path in looking.ahead)
        return undo is not None and any(step is not None and step.seq < undo.seq for step in ahead)

    def _taken_up(self, entry: Entry) -> Entry:
        """Changed code had passed this wait by, and this code waits for it again: from when it first did."""
        if self.is_looking and entry.kind in (Kind.STEP, Kind.SLEEP):
            return entry
        if self.is_stopped:
            self.end(Stopped())
        entry = replace(entry, status=EntryStatus.WAITING)
        self.record(entry)
        return entry

    def has_seen(self, path: str) -> bool:
        """Whether this line, or a part of it that is over, came to ``path``, or by the scope that it is in."""
        return path in self.seen or any(scope in self.seen for scope in scopes_of(path))

    def unvisited(self, scope: str = "") -> list[str]:
        """What is journaled in ``scope`` and this replay did not come to: the code went another way before."""
        entries = [entry for entry in self.journal.under(scope) if entry.kind not in UNNAMED and not begins_anew(entry)]
        return [entry.path for entry in entries if not self.has_seen(entry.path)]

    def encode(self, value: object, root: str) -> str:
        """``value`` as text within the run's limits; says in the log that it is large. Raises PayloadError."""
        text = encode(value, limit=self.run.max_payload_bytes, root=root)
        return note_size(text, self.run.warn_payload_bytes, self.run.run_id, root)

    # --- acting --------------------------------------------------------------------------------

    def require_live(self) -> None:
        """Unwind where this attempt may start nothing new: lease (nearly) over, asked to stop or pause, out of time."""
        run, lease = self.run, self.lease
        if self._is_stopped or (self._parent is not None and self.is_stopped):
            self.end(Stopped())
        if run.deadline_at is None and lease.is_free_for(run.lease_margin):
            return
        if (reason := reason_to_halt(lease, run, self.heeds_cancel, self.journal.now)) is not None:
            self.end(reason)

    def require_way(self) -> None:
        """As ``require_live``, of what takes nothing to be done: a line that only looks may go on without it."""
        if self.looking is None:
            self.require_live()
        else:
            self._pass_by(self.looking)

    def _pass_by(self, looking: Looking, *, is_known: bool = False) -> None:
        if not (looking.is_ahead if is_known else looking.may_pass()):
            self.end(Stopped())

    def record(self, entry: Entry) -> None:
        """Journal ``entry`` with the next commit. A line that only looks goes on without, or ends."""
        if self.looking is not None:
            self._pass_by(self.looking, is_known=self.journal.find(entry.path) is not None)
            return
        if entry.status in BEGUN and entry.error is None:
            self._keep_error(entry)
        self.journal.add(entry)
        self.pending.entries[entry.path] = entry

    def _keep_error(self, entry: Entry) -> None:
        """What it had come to before a resume, until it is decided again."""
        known = self.journal.find(entry.path)
        if known is not None and (known.status in BEGUN or known.is_anew):
            entry.error = known.error

    def forget(self, paths: Collection[str]) -> None:
        """Prune these entries with the next commit."""
        if self.looking is not None:
            self._pass_by(self.looking)
            return
        self.pending.forget(paths)
        self.bounds.forget(self.journal, paths)
        self.journal.forget(paths)

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
