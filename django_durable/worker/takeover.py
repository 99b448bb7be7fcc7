"""What a supervisor does for the runs of a child that is dead: handed back after a drain, else taken away at once."""

from __future__ import annotations

import logging
import time
from uuid import UUID

from django.db.utils import Error

from ..conf import durable_settings
from ..core.journal.states import Status
from ..core.payloads.surviving import survive, warn
from ..exceptions import RunLocked
from ..queues.current import current_queue
from ..queues.ready import Ready
from ..store import recovery, workers
from ..store.database import PrivateDatabase
from .child import DONE, DONE_BUSY, DRAINED, STILL_BUSY
from .loops.reap import tell_of_taken
from .spawning import Child

logger = logging.getLogger("django_durable.worker")

SOON_SECONDS = 5.0
"""So soon a broken session is noticed. Where it takes longer something hangs, and would hang a second time."""
AGAIN_SECONDS = 3.0
"""Between two tries to hand back what a process held, where somebody holds one of the rows: each waits for that one."""


class Takeover:
    """``db`` is closed after each use. What cannot be done here the reaper does, once the leases have lapsed."""

    def __init__(self, db: PrivateDatabase) -> None:
        self._db = db
        self._held_up: dict[UUID, tuple[Child, float]] = {}
        """Dead children that nothing could be taken over from yet, and until when it is tried."""
        self._next_try = 0.0
        self._suspects = 0

    @property
    def is_pending(self) -> bool:
        return bool(self._held_up)

    def of(self, child: Child) -> int:
        """Take over from a child that is dead; how many runs wait now for a process of their own."""
        code = child.process.returncode
        if code in (DONE, DRAINED):
            return 0
        if not _has_drained(child) and child.id not in self._held_up:
            # Before anything is asked of the database: that a process has died is told also where this is away.
            logger.error("died worker=%s pid=%d exit=%d", child.id, child.process.pid, code)
        self._suspects = 0
        if not self._try(child):
            self._try(child, is_last=True)
        return self._suspects

    def try_again(self) -> None:
        """Come back to those whose rows somebody held."""
        now = time.monotonic()
        if not self._held_up or now < self._next_try:
            return
        for child, ends in list(self._held_up.values()):
            if now < ends:
                # None is suspected: of what is taken away no row is waited for.
                self.of(child)
            else:
                del self._held_up[child.id]

    def _try(self, child: Child, *, is_last: bool = False) -> bool:
        """Whether nothing is to be gained by another try at once, as where the session was lost in this one."""
        began = time.monotonic()
        try:
            current_queue().push(self._release(child) if _has_drained(child) else self._take_away(child))
            workers.stop(self._db, child.id)
        except RunLocked as error:
            self._come_back_to(child, error)
            return True
        except Error as error:
            if not is_last and time.monotonic() - began < SOON_SECONDS and not self._db.connection.is_usable():
                return False
            warn(logger, "could not take over from worker=%s: %s", child.id, error)
        except BaseException as error:
            # Of who hears of connections, say.
            survive(error, logger, "could not take over from worker=%s", child.id)
        finally:
            self._db.close()
        self._held_up.pop(child.id, None)
        return True

    def _release(self, child: Child) -> list[Ready]:
        ready = recovery.release_worker(self._db, child.id)
        logger.info("released worker=%s runs=%d", child.id, len(ready))
        return ready

    def _take_away(self, child: Child) -> list[Ready]:
        settings = durable_settings()
        taken = recovery.reap_worker(self._db, child.id, lease=settings.LEASE_SECONDS, max_crashes=settings.MAX_CRASHES)
        tell_of_taken(taken)
        # Of all tries: the first may lose its session after this.
        self._suspects += sum(run.suspect and run.status == Status.QUEUED for run in taken)
        return recovery.startable(taken)

    def _come_back_to(self, child: Child, error: RunLocked) -> None:
        """Until its leases lapse: the reaper would make suspects of runs that have done nothing."""
        now = time.monotonic()
        if child.id not in self._held_up:
            warn(logger, "could not take over from worker=%s, trying again: %s", child.id, error)
        self._held_up.setdefault(child.id, (child, now + durable_settings().LEASE_SECONDS))
        self._next_try = now + AGAIN_SECONDS


def _has_drained(child: Child) -> bool:
    return child.process.returncode in (DONE_BUSY, STILL_BUSY)
