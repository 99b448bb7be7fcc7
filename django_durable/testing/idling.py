"""What ``run_until_idle`` does where nothing can be claimed: sweeps, and jumps to the next time that is waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from unittest.mock import patch
from uuid import UUID

from django.db.models import F

from ..client import pushing
from ..conf import durable_settings
from ..core.journal.states import Status
from ..core.registry import limits
from ..queues.ready import Ready
from ..store import recovery
from ..store.claiming import Claim
from ..store.clock import DatabaseNow
from ..store.database import Database
from ..store.limiting import KeyWalk, seconds_to_opening
from .errors import NotIdle
from .travelling import MILLISECOND, shift

BATCH = 100


class NullQueue:
    """Takes every hint and tells nobody."""

    gives_hints = False

    def push(self, runs: Sequence[Ready]) -> None:
        pass

    def pop(self, queues: Sequence[str], limit: int, timeout: float) -> list[UUID]:
        return []

    def length(self, queue: str) -> int:
        return 0

    def close(self) -> None:
        pass


def without_queue() -> AbstractContextManager[object]:
    """Within this context, what is started or woken in this process is pushed nowhere."""
    return patch.object(pushing, "current_queue", NullQueue)


def sweep(db: Database) -> bool:
    """Wake what has a reason to go on, and reap what has lapsed: the on-commit wakes of a TestCase never come."""
    settings = durable_settings()
    taken = recovery.reap(db, BATCH, lease=settings.LEASE_SECONDS, max_crashes=settings.MAX_CRASHES)
    return bool(recovery.sweep(db, BATCH) or taken)


def skip_wait(db: Database, workflows: Sequence[str]) -> bool:
    """Move the clock to the next instant that a run of these workflows waits for, or at which the rate of queued ones
    opens; False where there is none."""
    from ..models import Run

    waiting = Run.objects.using(db.alias).filter(
        status__in=[Status.SCHEDULED, Status.WAITING], wake_at__isnull=False, workflow__in=workflows
    )
    # By the database's clock, which need not be this machine's.
    left = waiting.order_by("wake_at").values_list(F("wake_at") - DatabaseNow(), flat=True).first()
    keys = KeyWalk().next(db)
    opening = seconds_to_opening(db, keys, limits())
    times = [time for time in (left, None if opening is None else timedelta(seconds=opening)) if time is not None]
    if not times:
        # The rate of a key may have opened since the last claim: the clock goes on ticking.
        return bool(keys)
    shift(max(min(times), timedelta(0)) + MILLISECOND)
    return True


class Limit:
    """Tells work that is much from work that never ends."""

    def __init__(self, most: int) -> None:
        self.claims = 0
        self._most = most
        self._of_run: Counter[UUID] = Counter()

    def count(self, claim: Claim) -> None:
        """Raises NotIdle after so many claims, or after a tenth of them of one run."""
        self.claims += 1
        self._of_run[claim.run_id] += 1
        of_run = self._of_run[claim.run_id]
        if self.claims > self._most or of_run > max(self._most // 10, 1):
            raise NotIdle(self.claims, claim.workflow, claim.run_id, of_run)
