"""How long recoveries may take: what is wanted, and what the machine allows, which is told anew in each round."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.chaos.recovery import Recovery
from tests.processes import FAST

START_SECONDS = 2.0
"""Of the wanted time, what is there for the start of the process that a suspect needs."""

WANTED_SECONDS = FAST["LEASE_SECONDS"] + FAST["REAP_SECONDS"] + START_SECONDS
LONGEST_START_SECONDS = 4.0
"""However long a start takes: a machine that needs more for two of them is too slow to show anything."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A recovery in which nothing else was hit, and what its round allows."""

    seconds: float
    allowed: float

    @property
    def excess(self) -> float:
        """By how much it took longer than that; none where it is negative."""
        return self.seconds - self.allowed


@dataclass(slots=True)
class Round:
    """What recovered in it. ``start``: what the slowest of its workers took to begin."""

    start: float
    recoveries: list[Recovery] = field(default_factory=list)

    @property
    def allowed(self) -> float:
        """Seconds within which a run goes on: where a start takes longer here than what is there for it, twice as long
        as that, up to a limit."""
        for_start = min(LONGEST_START_SECONDS, max(START_SECONDS, 2 * self.start))
        return WANTED_SECONDS - START_SECONDS + for_start

    @property
    def clear(self) -> list[Timed]:
        return [Timed(recovery.clear, self.allowed) for recovery in self.recoveries if recovery.clear is not None]
