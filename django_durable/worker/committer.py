"""Group commit: whoever runs side by side in this process shares statements and commits.

A thread that finds nobody committing leads the commit itself, so that a lone run does not pay for company; what
gathers meanwhile goes into the next batch, led by the first thread that waits in it. Event loops cannot lead:
the committer's own thread does it for them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from django.db.utils import InterfaceError, OperationalError

from ..core.journal import Write
from ..core.lease import Lease
from ..store.committing import Receipt, write_batch
from ..store.database import PrivateDatabase

logger = logging.getLogger("django_durable.worker")

BATCH = 256
HELD_PAUSE = 0.005
"""Seconds before a write is tried again whose row somebody held."""
FIRST_BACK_OFF, LAST_BACK_OFF = 0.05, 1.0


class _Item:
    """One run's write, and how its submitter is told."""

    __slots__ = ("_waits", "error", "future", "is_done", "lease", "loop", "receipt", "write")

    def __init__(self, lease: Lease, write: Write, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.lease = lease
        self.write = write
        self.receipt: Receipt | None = None
        self.error: BaseException | None = None
        self.is_done = False
        self.loop = loop
        self.future: asyncio.Future[Receipt] | None = loop.create_future() if loop else None
        self._waits = threading.Lock()
        self._waits.acquire()

    def wait(self) -> None:
        """Sleep until the write is done, or until this thread is to lead."""
        self._waits.acquire()

    def rouse(self) -> None:
        self._waits.release()

    def settle(self, receipt: Receipt | None, error: BaseException | None = None) -> None:
        self.receipt, self.error, self.is_done = receipt, error, True

    def answer(self) -> Receipt:
        if self.error is not None:
            raise self.error
        assert self.receipt is not None  # noqa: S101  (settled without an error)
        return self.receipt


class Committer:
    """``after(lease, write, receipt)`` is called for every durable write, off nobody's path for long."""

    def __init__(
        self,
        db: PrivateDatabase,
        after: Callable[[Lease, Write, Receipt], None],
        *,
        clears_suspicion: bool = False,
    ) -> None:
        self._db = db
        self._after = after
        self._clears_suspicion = clears_suspicion
        self._mutex = threading.Lock()
        self._items: list[_Item] = []
        self._is_led = False
        self._for_loops = threading.Semaphore(0)
        self._closing = False
        self._thread = threading.Thread(target=self._serve_loops, name="durable-committer", daemon=True)
        self._thread.start()

    # --- submitting ----------------------------------------------------------------------------

    def write(self, lease: Lease, write: Write) -> Receipt:
        """Make ``write`` durable, in company where there is some; returns after the commit."""
        item = _Item(lease, write)
        if not self._join(item):
            item.wait()
        if not item.is_done:
            self._lead(item)
        return item.answer()

    async def awrite(self, lease: Lease, write: Write) -> Receipt:
        """The same for coroutines, answered on their own loop."""
        item = _Item(lease, write, asyncio.get_running_loop())
        if self._join(item):
            self._for_loops.release()
        assert item.future is not None  # noqa: S101  (made with a loop)
        return await item.future

    def noted(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        """Take note of a write that was committed elsewhere: with an atomic step's own transaction."""
        self._after(lease, write, receipt)

    def close(self) -> None:
        self._closing = True
        self._for_loops.release()
        self._thread.join(timeout=5)
        self._db.close()

    def _join(self, item: _Item) -> bool:
        """Whether the caller is to see to it that somebody leads."""
        with self._mutex:
            self._items.append(item)
            if self._is_led:
                return False
            self._is_led = True
            return True

    # --- leading -------------------------------------------------------------------------------

    def _serve_loops(self) -> None:
        while not self._closing:
            self._for_loops.acquire()
            if not self._closing:
                self._lead(None)

    def _lead(self, own: _Item | None) -> None:
        """Commit batches until the own write is done (without one: until nothing is left), then hand on."""
        while True:
            batch = self._take()
            self._commit(batch)
            self._answer(batch)
            with self._mutex:
                if not self._items:
                    self._is_led = False
                    return
                if own is None or not own.is_done:
                    continue
                heir = self._items[0]
            # Still led: the heir takes over without anybody else joining as a leader in between.
            if heir.loop is None:
                heir.rouse()
            else:
                self._for_loops.release()
            return

    def _take(self) -> list[_Item]:
        """The next batch: each run once, the others stay for the batch after it."""
        with self._mutex:
            batch: dict[object, _Item] = {}
            later: list[_Item] = []
            for item in self._items:
                if len(batch) < BATCH and item.lease.run_id not in batch:
                    batch[item.lease.run_id] = item
                else:
                    later.append(item)
            self._items = later
        return list(batch.values())

    def _answer(self, batch: Sequence[_Item]) -> None:
        for_loops: dict[asyncio.AbstractEventLoop, list[_Item]] = defaultdict(list)
        again = [item for item in batch if not item.is_done]
        for item in batch:
            if item.is_done and item.loop is not None:
                for_loops[item.loop].append(item)
            elif item.is_done:
                item.rouse()
        for loop, items in for_loops.items():
            loop.call_soon_threadsafe(_resolve, items)
        if again:
            time.sleep(HELD_PAUSE)
            with self._mutex:
                self._items = again + self._items

    # --- committing ----------------------------------------------------------------------------

    def _commit(self, batch: Sequence[_Item]) -> None:
        pause = FIRST_BACK_OFF
        while batch := self._still_ours(batch):
            try:
                self._write(batch)
                return
            except Exception as error:
                if not _is_out_of_reach(error):
                    # Whatever it is: an error that left here would leave everybody who submits waiting for ever.
                    self._split(batch, error)
                    return
                # Whether the commit happened is unknown: sent again, a row that is there under our token is success.
                logger.warning("the database refused a commit, trying again: %s", error)
                self._db.close()
                time.sleep(pause)
                pause = min(pause * 2, LAST_BACK_OFF)

    def _still_ours(self, batch: Sequence[_Item]) -> list[_Item]:
        ours = []
        for item in batch:
            if item.lease.is_over:
                item.settle(Receipt(is_lost=True))
            else:
                ours.append(item)
        return ours

    def _write(self, batch: Sequence[_Item]) -> None:
        writes = [(item.lease, item.write) for item in batch]
        receipts = write_batch(self._db, writes, clears_suspicion=self._clears_suspicion)
        done = [(item, receipts[item.lease.run_id]) for item in batch]
        done = [(item, receipt) for item, receipt in done if receipt.is_held or receipt.is_lost]
        # All of them first: the commit has happened, whatever becomes of what comes after it.
        for item, receipt in done:
            item.settle(receipt)
        for item, receipt in done:
            self._tell(item, receipt)

    def _tell(self, item: _Item, receipt: Receipt) -> None:
        try:
            self._after(item.lease, item.write, receipt)
        except Exception:
            # Out of here it would pass for a failed commit, and what is durable would be written again.
            logger.exception("what follows a commit failed for run=%s", item.lease.run_id)

    def _split(self, batch: Sequence[_Item], error: BaseException) -> None:
        """A value that the database does not take must not fail its neighbours: halve until it is alone."""
        if len(batch) == 1:
            batch[0].settle(None, error)
            return
        middle = len(batch) // 2
        self._commit(batch[:middle])
        self._commit(batch[middle:])


def _is_out_of_reach(error: Exception) -> bool:
    """The connection, or what it was connected to: the same batch may do next time."""
    state = str(getattr(error.__cause__, "sqlstate", None) or "")
    if isinstance(error, OperationalError | InterfaceError):
        # SQLSTATE class 54, "program limit exceeded", would come back for ever.
        return not state.startswith("54")
    # We froze in a transaction, and the server ended it.
    return state == "25P03"


def _resolve(items: Sequence[_Item]) -> None:
    for item in items:
        future = item.future
        if future is None or future.done():
            continue
        if item.error is not None:
            future.set_exception(item.error)
        else:
            assert item.receipt is not None  # noqa: S101  (settled without an error)
            future.set_result(item.receipt)
