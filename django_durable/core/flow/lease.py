"""The right to work on one run, as the process that holds it sees it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from .. import clock


@dataclass(slots=True, eq=False)
class Lease:
    """``token`` fences every write; ``ends`` is local monotonic time, counted from before the claim was sent.

    A worker that was frozen or cannot reach the database sees ``is_over`` before anybody else may start:
    it then writes nothing more, although the fence in the database would refuse it anyway. Some time before that
    (``ends_within``) it begins nothing more: the code of a step would go on when somebody else has the run.
    """

    run_id: UUID
    token: UUID
    ends: float
    is_lost: bool = False
    cancel_requested: bool = False
    pause_requested: bool = False
    release_requested: bool = False
    is_suspect: bool = False
    """Whether the run is worked on alone since it may have killed a process: until it journals something new."""
    missed_beat: bool = False
    """Whether a heartbeat found the run's row held, and left it: before its next commit, but for an atomic step's, the
    lease is renewed."""

    @property
    def is_over(self) -> bool:
        return self.ends_within(0.0)

    def ends_within(self, seconds: float) -> bool:
        """Whether no more than ``seconds`` of it are left: too few for something that may take a while."""
        return self.is_lost or clock.monotonic() + seconds >= self.ends

    def is_free_for(self, seconds: float) -> bool:
        """Whether more than ``seconds`` of it are left, and nobody has asked for anything."""
        is_asked = self.cancel_requested or self.pause_requested or self.release_requested
        return not (is_asked or self.is_lost) and clock.monotonic() + seconds < self.ends

    def hear(self, *, cancelling: bool, pausing: bool) -> None:
        """What the run's row said a moment ago. A cancellation is final, a pause may have been withdrawn."""
        self.cancel_requested |= cancelling
        self.pause_requested = pausing

    def renew(self, ends: float, known: float | None = None) -> None:
        """``known``: the end that was known when the renewal was sent. Where another thread has renewed it since,
        nobody knows which of both came last to the row: the earlier end counts."""
        self.ends = ends if known in (None, self.ends) else min(ends, self.ends)
        self.missed_beat = False

    def lose(self) -> None:
        self.is_lost = True
