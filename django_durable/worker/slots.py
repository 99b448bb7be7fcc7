"""Who works in this process right now: at most ``limit`` runs, each under its claim."""

from __future__ import annotations

import threading

from ..core.flow.lease import Lease
from ..store.claiming import Claim


class Slots:
    """Claims take slots, endings free them; the claimer waits here for room, the drain for emptiness."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._claims: dict[Lease, Claim] = {}
        self._changed = threading.Condition()
        self._wanted = 1
        """How much room whoever waits for some is waiting for."""
        self.finished = 0
        """Attempts that have ended in this process."""

    def take(self, claim: Claim) -> None:
        with self._changed:
            self._claims[claim.lease] = claim

    def free(self, lease: Lease) -> None:
        with self._changed:
            self._claims.pop(lease, None)
            self.finished += 1
            # Not for every ending: whoever is woken and finds too little takes this processor's turn from a run.
            if self._limit - len(self._claims) >= self._wanted or not self._claims:
                self._changed.notify_all()

    def leases(self) -> list[Lease]:
        with self._changed:
            return [claim.lease for claim in self._claims.values()]

    def claim_of(self, lease: Lease) -> Claim | None:
        """The claim that works under ``lease``, while it does."""
        return self._claims.get(lease)

    @property
    def used(self) -> int:
        return len(self._claims)

    def wait_for_room(self, timeout: float, at_least: int = 1) -> int:
        """How many slots are free, once there are ``at_least`` so many or ``timeout`` seconds have passed."""
        with self._changed:
            self._wanted = at_least
            self._changed.wait_for(lambda: self._limit - len(self._claims) >= at_least, timeout)
            return self._limit - len(self._claims)

    def wait_until_empty(self, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._claims, timeout)

    def ask_to_release(self) -> None:
        """Let every run end at its next ``ctx`` call."""
        for lease in self.leases():
            lease.release_requested = True
