"""What a driver needs to make a write durable."""

from __future__ import annotations

from typing import Protocol

from asgiref.sync import sync_to_async

from ..core.flow import Flow
from ..core.journal import Write
from ..core.lease import Lease
from ..core.outcomes import Lost
from ..store.committing import Receipt, write_batch
from ..store.database import Database
from .undisturbed import undisturbed


class Commit(Protocol):
    """Writes are durable, or known to be lost, when these return. Raise what the write itself did wrong."""

    def write(self, lease: Lease, write: Write) -> Receipt: ...

    async def awrite(self, lease: Lease, write: Write) -> Receipt:
        """Likewise when cancelled meanwhile: the write is not abandoned, and CancelledError is raised after it."""

    def noted(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        """Hear of a write that was committed elsewhere: with an atomic step's own transaction."""


def heed(flow: Flow, receipt: Receipt) -> None:
    """What a commit in the midst of an attempt has told; unwinds where the lease is lost."""
    if receipt.is_lost:
        flow.end(Lost())
    flow.lease.cancel_requested |= receipt.cancelling


class DirectCommit:
    """Each write a batch of its own, on the caller's connection: for tests and for reading along."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, lease: Lease, write: Write) -> Receipt:
        return write_batch(self._db, [(lease, write)])[lease.run_id]

    async def awrite(self, lease: Lease, write: Write) -> Receipt:
        return await undisturbed(sync_to_async(self.write, thread_sensitive=True)(lease, write))

    def noted(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        pass
