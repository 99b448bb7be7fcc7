"""Renews the leases of this process and tells that it lives. In its own thread, on its own connection."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from django.db.utils import Error

from ..conf import durable_settings
from ..core import clock
from ..core.flow.lease import Lease
from ..core.payloads.surviving import survive, warn
from ..store.database import PrivateDatabase
from ..store.fencing import still_held
from ..store.recovery import renew
from .slots import Slots

logger = logging.getLogger("django_durable.worker")

BATCH = 500


def retry_seconds() -> float:
    """How long a process whose heartbeat failed waits before the next one."""
    return min(1.0, durable_settings().HEARTBEAT_SECONDS / 4)


class Heartbeat:
    """A beat that fails leaves the leases to run out: they are counted from before it was sent, so this process
    stops writing before anybody else may start."""

    def __init__(self, db: PrivateDatabase, slots: Slots, tell: Callable[[PrivateDatabase], None]) -> None:
        self._db = db
        self._slots = slots
        self._tell = tell
        self._stop = threading.Event()
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="durable-heartbeat", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stop.wait(self._pause()):
            try:
                self.beat()
                self._failed = False
            except Error as error:
                warn(logger, "the database refused a heartbeat, trying again: %s", error)
                self._failed = True
                self._db.close()
            except BaseException as error:
                survive(error, logger, "the heartbeat stumbled")
                self._failed = True

    def _pause(self) -> float:
        return retry_seconds() if self._failed else durable_settings().HEARTBEAT_SECONDS

    def beat(self) -> None:
        """Renew every lease of this process once, and the process's own row."""
        leases = self._slots.leases()
        for start in range(0, len(leases), BATCH):
            self._renew(leases[start : start + BATCH])
        self._tell(self._db)

    def _renew(self, leases: Sequence[Lease]) -> None:
        seconds = durable_settings().LEASE_SECONDS
        known = [(lease, lease.ends) for lease in leases]
        ends = clock.monotonic() + seconds
        renewed = renew(self._db, leases, lease=seconds)
        missing = [lease for lease in leases if lease.token not in renewed]
        for lease, before in known:
            if lease.token in renewed:
                lease.renew(ends, before)
                asked = renewed[lease.token]
                lease.hear(cancelling=asked.cancel, pausing=asked.pause)
        if missing:
            # Finished meanwhile, lost, or held: by a commit of ours as a rule. Told at once, for the one after that.
            for lease in missing:
                lease.missed_beat = True
            kept = still_held(self._db, missing)
            for lease in missing:
                if lease.token not in kept:
                    lease.lose()
