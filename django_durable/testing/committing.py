"""Commits of ``run_until_idle``: on the test's connection, in savepoints, and open to what a test wants to go wrong."""

from __future__ import annotations

from collections.abc import Iterable

from asgiref.sync import sync_to_async

from ..core.flow.executing import outside_run
from ..core.flow.lease import Lease
from ..core.journal.inbox import Inbox
from ..core.journal.journal import Entry, Write
from ..core.unwinding import Unwind
from ..executor.undisturbed import undisturbed
from ..store.claiming import Claim, load_news
from ..store.committing import write_batch
from ..store.database import Database
from ..store.receipts import Receipt
from ..store.unwanted import cancel_unwanted
from ..worker import announcing
from ..workflows.registry import get_workflow
from .hearing import HeardJournal
from .interrupting import Fate, active
from .savepoints import Savepoints


class AttemptCommit:
    """The commits of one attempt. ``fate`` says how it fared; once it is not alive, nothing more is written."""

    def __init__(self, db: Database, claim: Claim) -> None:
        self.fate = Fate.ALIVE
        self.is_stepwise = bool(active())
        self._db = db
        self._claim = claim
        self._savepoints = Savepoints()

    def __enter__(self) -> AttemptCommit:
        for interruption in active():
            interruption.begin(self._claim)
        self._claim.journal = HeardJournal(self._claim.journal, self)
        self._savepoints.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._savepoints.close()

    # --- as the executor sees it ---------------------------------------------------------------

    def write(self, lease: Lease, write: Write) -> Receipt:
        self._savepoints.close()
        try:
            receipt = self._write(lease, write)
        finally:
            self._savepoints.open()
        self._announce(write, receipt)
        return receipt

    async def awrite(self, lease: Lease, write: Write) -> Receipt:
        return await undisturbed(sync_to_async(self.write, thread_sensitive=True)(lease, write))

    def refresh(self, inbox: Inbox, lease: Lease) -> None:
        inbox.refresh(*load_news(self._db, lease.run_id))

    async def arefresh(self, inbox: Inbox, lease: Lease) -> None:
        await sync_to_async(self.refresh, thread_sensitive=True)(inbox, lease)

    def noted(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        self._suffer(interruption.after(self._claim, write) for interruption in active())
        self._announce(write, receipt)
        if self.fate is not Fate.ALIVE:
            # Nobody asks for the receipt of an atomic step. What the workflow makes of this is of no consequence:
            # its lease is lost.
            raise Unwind

    # --- what happens --------------------------------------------------------------------------

    def asked(self, path: str) -> None:
        self._suffer(interruption.asked(self._claim, path) for interruption in active())

    def recorded(self, entry: Entry) -> None:
        self._suffer(interruption.recorded(self._claim, entry) for interruption in active())

    def _write(self, lease: Lease, write: Write) -> Receipt:
        if self.fate is Fate.ALIVE:
            self._suffer(interruption.before(self._claim, write) for interruption in active())
        if self.fate is not Fate.ALIVE:
            return Receipt(is_lost=True)
        receipt = self._store(lease, write)
        if not receipt.is_lost:
            if write.unwanted:
                cancel_unwanted(self._db, lease.run_id, write.unwanted)
            self._suffer(interruption.after(self._claim, write) for interruption in active())
            receipt.is_lost = self.fate is not Fate.ALIVE
        return receipt

    def _suffer(self, opinions: Iterable[Fate]) -> None:
        self.fate = max([self.fate, *opinions])
        if self.fate is not Fate.ALIVE:
            self._claim.lease.lose()

    def _store(self, lease: Lease, write: Write) -> Receipt:
        with self._db.transaction():
            receipt = write_batch(self._db, [(lease, write)])[lease.run_id]
        if not receipt.is_held and not receipt.is_lost:
            raise RuntimeError(f"Another transaction holds the row of run {lease.run_id}: end it first.")
        return receipt

    def _announce(self, write: Write, receipt: Receipt) -> None:
        """Django's signals, here and now; a process that has died sends none."""
        if receipt.is_held and self.fate is not Fate.CRASHED:
            with outside_run():
                for send in announcing.committed(get_workflow(self._claim.workflow), self._claim, write, receipt):
                    send()
