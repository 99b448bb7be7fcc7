"""Commits without a worker."""

from __future__ import annotations

from asgiref.sync import sync_to_async

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.inbox import Inbox
from django_durable.core.journal.journal import Write
from django_durable.executor.undisturbed import undisturbed
from django_durable.store.claiming import load_news
from django_durable.store.committing import write_batch
from django_durable.store.database import Database
from django_durable.store.receipts import Receipt
from django_durable.store.unwanted import cancel_unwanted
from django_durable.worker.submission import Then


class DirectCommit:
    """Each write a batch of its own, on the caller's connection: for tests and for reading along."""

    is_stepwise = False

    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, lease: Lease, write: Write) -> Receipt:
        receipt = write_batch(self._db, [(lease, write)])[lease.run_id]
        if write.unwanted and not receipt.is_lost:
            cancel_unwanted(self._db, lease.run_id, write.unwanted)
        return receipt

    async def awrite(self, lease: Lease, write: Write) -> Receipt:
        return await undisturbed(sync_to_async(self.write, thread_sensitive=True)(lease, write))

    def send(self, lease: Lease, write: Write, then: Then, *, may_lead: bool) -> None:
        then(self.write(lease, write), None)

    def noted(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        pass

    def refresh(self, inbox: Inbox, lease: Lease) -> None:
        inbox.refresh(*load_news(self._db, lease.run_id))

    async def arefresh(self, inbox: Inbox, lease: Lease) -> None:
        await sync_to_async(self.refresh, thread_sensitive=True)(inbox, lease)
