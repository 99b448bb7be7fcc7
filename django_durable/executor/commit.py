"""What a driver needs to make a write durable."""

from __future__ import annotations

from typing import Protocol

from asgiref.sync import sync_to_async

from ..core.flow import Flow
from ..core.journal import Inbox, Write
from ..core.lease import Lease
from ..core.outcomes import Lost
from ..store.claiming import load_news
from ..store.committing import Receipt, write_batch
from ..store.database import Database
from ..store.unwanted import cancel_unwanted
from .undisturbed import undisturbed


class Commit(Protocol):
    """Writes are durable, or known to be lost, when these return. Raise what the write itself did wrong."""

    def write(self, lease: Lease, write: Write) -> Receipt: ...

    async def awrite(self, lease: Lease, write: Write) -> Receipt:
        """Likewise when cancelled meanwhile: the write is not abandoned, and CancelledError is raised after it."""

    def noted(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        """Hear of a write that was committed elsewhere: with an atomic step's own transaction."""

    def refresh(self, inbox: Inbox, lease: Lease) -> None:
        """Put into the inbox what the outside has sent to the run by now."""

    async def arefresh(self, inbox: Inbox, lease: Lease) -> None: ...


def heed(flow: Flow, receipt: Receipt) -> None:
    """What a commit in the midst of an attempt has told; unwinds where the lease is lost."""
    if receipt.is_lost:
        flow.end(Lost())
    flow.lease.hear(cancelling=receipt.cancelling, pausing=receipt.pausing)


class DirectCommit:
    """Each write a batch of its own, on the caller's connection: for tests and for reading along."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, lease: Lease, write: Write) -> Receipt:
        receipt = write_batch(self._db, [(lease, write)])[lease.run_id]
        if write.unwanted and not receipt.is_lost:
            cancel_unwanted(self._db, lease.run_id, write.unwanted)
        return receipt

    async def awrite(self, lease: Lease, write: Write) -> Receipt:
        return await undisturbed(sync_to_async(self.write, thread_sensitive=True)(lease, write))

    def noted(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        pass

    def refresh(self, inbox: Inbox, lease: Lease) -> None:
        inbox.refresh(*load_news(self._db, lease.run_id))

    async def arefresh(self, inbox: Inbox, lease: Lease) -> None:
        await sync_to_async(self.refresh, thread_sensitive=True)(inbox, lease)
