"""Who works in this process right now: at most ``limit`` runs, each under its claim."""

from __future__ import annotations

import threading
from uuid import UUID

from ..core.flow.lease import Lease
from ..store.claiming import Claim


class Slots:
    """Claims take slots, endings free them; the claimer waits here for room, the drain for emptiness."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._claims: dict[UUID, Claim] = {}
        self._changed = threading.Condition()
        self.finished = 0
        """Attempts that have ended in this process."""

    def take(self, claim: Claim) -> None:
        with self._changed:
            self._claims[claim.lease.token] = claim

    def free(self, lease: Lease) -> None:
        with self._changed:
            self._claims.pop(lease.token, None)
            self.finished += 1
            self._changed.notify_all()

    def leases(self) -> list[Lease]:
        with self._changed:
            return [claim.lease for claim in self._claims.values()]

    def claim_of(self, lease: Lease) -> Claim | None:
        """The claim that works under ``lease``, while it does."""
        return self._claims.get(lease.token)

    @property
    def used(self) -> int:
        return len(self._claims)

    def wait_for_room(self, timeout: float, at_least: int = 1) -> int:
        """How many slots are free, once there are ``at_least`` so many or ``timeout`` seconds have passed."""
        with self._changed:
            self._changed.wait_for(lambda: self._limit - len(self._claims) >= at_least, timeout)
            return self._limit - len(self._claims)

    def wait_until_empty(self, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._claims, timeout)

    def ask_to_release(self) -> None:
        """Let every run end at its next ``ctx`` call."""
        for lease in self.leases():
            lease.release_requested = True
