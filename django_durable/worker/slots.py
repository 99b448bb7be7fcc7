"""Who works in this process right now: at most ``limit`` runs, each under its claim.

A run whose code is over holds no slot while its outcome is on its way to the commit: others begin meanwhile, and
commits take more outcomes each. There are at most as many of these again.
"""

from __future__ import annotations

import threading
from math import inf

from ..core.flow.lease import Lease
from ..store.claiming import Claim


class Slots:
    """Claims take slots, endings free them; the claimer waits here for room, the drain for emptiness."""

    def __init__(self, limit: int, *, may_overlap: bool = True) -> None:
        self._limit = limit
        self._most = 2 * limit if may_overlap else limit
        self._claims: dict[Lease, Claim] = {}
        self._ending: set[Lease] = set()
        """Those whose outcome is being committed."""
        # The condition's own lock, entered as itself: by way of the condition takes three times as long.
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._wanted: float = inf
        """How much room whoever waits for some is waiting for; infinite while nobody is."""
        self.finished = 0
        """Attempts that have ended in this process."""

    def take(self, *claims: Claim) -> None:
        with self._mutex:
            for claim in claims:
                self._claims[claim.lease] = claim

    def end(self, lease: Lease) -> None:
        """The code is over, and the outcome on its way."""
        with self._mutex:
            self._ending.add(lease)
            self._tell()

    def free(self, lease: Lease) -> None:
        with self._mutex:
            self._claims.pop(lease, None)
            self._ending.discard(lease)
            self.finished += 1
            self._tell()

    def _tell(self) -> None:
        # Not of every ending: whoever is woken and finds too little takes this processor's turn from a run.
        if self._room() >= self._wanted or not self._claims:
            self._changed.notify_all()

    def _room(self) -> int:
        claimed = len(self._claims)
        return min(self._limit - claimed + len(self._ending), self._most - claimed)

    def leases(self) -> list[Lease]:
        with self._mutex:
            return [claim.lease for claim in self._claims.values()]

    def claim_of(self, lease: Lease) -> Claim | None:
        """The claim that works under ``lease``, while it does."""
        return self._claims.get(lease)

    @property
    def used(self) -> int:
        """How many runs are ours, those too whose outcome is being committed."""
        return len(self._claims)

    def wait_for_room(self, timeout: float, at_least: int = 1) -> int:
        """How many slots are free, once there are ``at_least`` so many or ``timeout`` seconds have passed."""
        with self._changed:
            self._wanted = at_least
            try:
                self._changed.wait_for(lambda: self._room() >= at_least, timeout)
            finally:
                self._wanted = inf
            return self._room()

    def wait_until_empty(self, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._claims, timeout)

    def ask_to_release(self) -> None:
        """Let every run end at its next ``ctx`` call."""
        for lease in self.leases():
            lease.release_requested = True
