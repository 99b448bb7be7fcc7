"""Commits of ``run_until_idle``: on the test's connection, in savepoints, and open to what a test wants to go wrong."""

from __future__ import annotations

from asgiref.sync import sync_to_async

from ..core.journal import Write
from ..core.lease import Lease
from ..store.claiming import Claim
from ..store.committing import Receipt, write_batch
from ..store.database import Database
from .interrupting import Fate, active
from .savepoints import Savepoints


class AttemptCommit:
    """The commits of one attempt. ``fate`` says how it fared; once it is not alive, nothing more is written."""

    def __init__(self, db: Database, claim: Claim, *, is_suspect: bool) -> None:
        self.fate = Fate.ALIVE
        self._db = db
        self._claim = claim
        self._is_suspect = is_suspect
        self._savepoints = Savepoints()

    def __enter__(self) -> AttemptCommit:
        self._savepoints.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._savepoints.close()

    def write(self, lease: Lease, write: Write) -> Receipt:
        self._savepoints.close()
        try:
            return self._write(lease, write)
        finally:
            self._savepoints.open()

    async def awrite(self, lease: Lease, write: Write) -> Receipt:
        return await sync_to_async(self.write, thread_sensitive=True)(lease, write)

    def _write(self, lease: Lease, write: Write) -> Receipt:
        if self.fate is Fate.ALIVE:
            self._suffer([interruption.before(self._claim, write) for interruption in active()])
        if self.fate is not Fate.ALIVE:
            return Receipt(is_lost=True)
        receipt = self._store(lease, write)
        if not receipt.is_lost:
            self._suffer([interruption.after(self._claim, write) for interruption in active()])
            receipt.is_lost = self.fate is not Fate.ALIVE
        return receipt

    def _suffer(self, opinions: list[Fate]) -> None:
        self.fate = max(opinions, default=Fate.ALIVE)

    def _store(self, lease: Lease, write: Write) -> Receipt:
        with self._db.transaction():
            receipt = write_batch(self._db, [(lease, write)], clears_suspicion=self._is_suspect)[lease.run_id]
        if not receipt.is_held and not receipt.is_lost:
            raise RuntimeError(
                f"Another transaction holds the row of run {lease.run_id}: end it before run_until_idle()."
            )
        return receipt
