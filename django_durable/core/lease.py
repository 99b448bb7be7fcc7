"""The right to work on one run, as the process that holds it sees it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from . import clock


@dataclass(slots=True, eq=False)
class Lease:
    """``token`` fences every write; ``ends`` is local monotonic time, counted from before the claim was sent.

    A worker that was frozen or cannot reach the database sees ``is_over`` before anybody else may start:
    it then writes nothing more, although the fence in the database would refuse it anyway.
    """

    run_id: UUID
    token: UUID
    ends: float
    is_lost: bool = False
    cancel_requested: bool = False
    release_requested: bool = False

    @property
    def is_over(self) -> bool:
        return self.is_lost or clock.monotonic() >= self.ends

    def renew(self, ends: float) -> None:
        self.ends = ends

    def lose(self) -> None:
        self.is_lost = True
