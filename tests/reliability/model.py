"""What docs/state-machine.md says of runs, workers and leases, in dicts: nothing here knows of SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any
from uuid import UUID

from django_durable.core.journal.states import Status
from django_durable.store.claiming import Claim

TICK, LEASE, NAP = 20.0, 30.0, 30.0
"""Two ticks are over both of the others, one is not; an example may take the seconds between."""
MAX_CRASHES = 3
RUNS, WORKERS = 3, 2
"""Few, so that they meet."""
EVENT = "packed"
"""The only one that anybody waits for."""
LEASELESS: dict[str, Any] = {"token": None, "lease_ends": inf}
HANDED_BACK: dict[str, Any] = {"wake_at": inf, **LEASELESS}
RESTED: dict[str, Any] = {**HANDED_BACK, "is_suspect": False, "crashes": 0}


@dataclass
class ModelRun:
    """What the row of a run should say, and its journal."""

    id: UUID
    status: Status = Status.QUEUED
    wake_at: float = inf
    token: UUID | None = None
    lease_ends: float = inf
    owner: int = -1
    claims: int = 0
    crashes: int = 0
    is_suspect: bool = False
    is_cancelling: bool = False
    is_pausing: bool = False
    steps: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    taken: int = 0
    is_listening: bool = False
    """Whether its journal has an entry that waits for the event."""

    def set(self, status: Status, **columns: Any) -> None:
        self.status = status
        for name, value in columns.items():
            setattr(self, name, value)

    @property
    def has_reason(self) -> bool:
        """Why it need not wait any longer, time aside."""
        return self.is_cancelling or (self.is_listening and self.sent > self.taken)

    @property
    def comes_to_rest(self) -> bool:
        """Whether it is paused where it would else be queued."""
        return self.is_pausing and not self.is_cancelling


@dataclass
class ModelWorker:
    """A process that claims, and remembers each lease of its whole life."""

    number: int
    id: UUID
    heard_at: float = 0.0


@dataclass(eq=False)
class Held:
    """A claim as its worker keeps it: current, or stale without knowing."""

    claim: Claim
    run: ModelRun
    is_isolated: bool = False

    @property
    def is_current(self) -> bool:
        return self.run.token == self.claim.lease.token
