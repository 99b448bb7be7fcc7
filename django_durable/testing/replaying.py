"""``force_replay``: every step is followed by a replay, which must take the same way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from ..core.journal.journal import Write
from ..core.journal.outcomes import Blocked, Completed, Suspended
from ..core.journal.states import BlockReason, EntryStatus, Phase
from ..store.claiming import Claim
from .errors import NotDeterministic
from .interrupting import Fate, Interruption, interrupting
from .watching import Watch, Way, is_item, way_through


class Replays(Interruption):
    """Unwinds after every commit that journals something, and compares each attempt with the one before it."""

    def __init__(self) -> None:
        self._ways: dict[tuple[UUID, int], Way | None] = {}
        self._watch: Watch | None = None

    def begin(self, claim: Claim) -> None:
        self._watch = None
        # Once a cancellation is seen, or in on_failure, other ways than before are right.
        if claim.phase == Phase.FORWARD and not claim.lease.cancel_requested:
            self._watch = Watch(self._way_before(claim))

    def _way_before(self, claim: Claim) -> Way | None:
        known = (claim.run_id, claim.attempt)
        if known in self._ways:
            return self._ways[known]
        entries = claim.journal.entries
        # Written before our time. A later attempt, or a run that failed and was resumed, may rightly go elsewhere.
        is_plain = claim.attempt == 1 and all(entry.status != EntryStatus.FAILED for entry in entries.values())
        return way_through(entries) if is_plain else None

    def asked(self, claim: Claim, path: str) -> Fate:
        if self._watch is None or is_item(path, claim.journal.entries):
            return Fate.ALIVE
        self._watch.asked(path)
        return self._judge()

    def before(self, claim: Claim, write: Write) -> Fate:
        if self._watch is None:
            return Fate.ALIVE
        match write.outcome:
            case Blocked(BlockReason.DIVERGED, text):
                self._watch.difference = self._watch.difference or text
            case Completed():
                self._watch.returned()
        return self._judge()

    def _judge(self) -> Fate:
        return Fate.UNWOUND if self._watch and self._watch.difference else Fate.ALIVE

    def after(self, claim: Claim, write: Write) -> Fate:
        goes_on = write.outcome is None or isinstance(write.outcome, Suspended)
        # What an operator resumes may go another way: a step that failed then succeeds now.
        self._ways[claim.run_id, claim.attempt] = self._watch.way if self._watch and goes_on else None
        return Fate.UNWOUND if write.outcome is None and write.entries else Fate.ALIVE

    def end(self, claim: Claim) -> None:
        if self._watch and self._watch.difference:
            raise NotDeterministic(claim.workflow, claim.run_id, self._watch.difference)


@contextmanager
def force_replay() -> Iterator[None]:
    """Within the block, ``run_until_idle`` unwinds and replays after every step.

    It raises NotDeterministic where a replay asks for other steps, for steps of another kind or in another order than
    the attempt before it.
    """
    with interrupting(Replays()):
        yield
