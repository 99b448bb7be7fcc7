"""One batch and its commit: sent again, split, or lost, and told of once it is durable."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from ..conf import durable_settings
from ..core import clock
from ..core.flow.lease import Lease
from ..core.journal.journal import Write
from ..core.payloads.surviving import survive, warn
from ..queues.ready import Ready
from ..store.committing import write_batch, write_step_at_once
from ..store.database import PrivateDatabase
from ..store.reaching import is_out_of_reach, is_too_much
from ..store.receipts import Receipt
from ..store.recovery import renew_missed
from .submission import Submission

logger = logging.getLogger("django_durable.worker")

FIRST_BACK_OFF, LAST_BACK_OFF = 0.05, 1.0

After = Callable[[Lease, Write, Receipt], None]
"""Called for every durable write, off nobody's path for long."""
InDoubt = Callable[[Lease, Write], None]
"""Called for an outcome that is lost by all that can be seen here, and may yet be durable: the commit in which it was
sent was never answered, and it would have given up the lease."""


class BatchWriter:
    """Used by one thread at a time."""

    def __init__(self, db: PrivateDatabase, after: After, in_doubt: InDoubt) -> None:
        self._db = db
        self._after = after
        self._in_doubt = in_doubt
        self.seconds = 0.0
        """How long the last commit took."""
        self._alone: int | None = None
        """The run, by its number, for which alone the last commit was."""

    def commit(self, batch: Sequence[Submission]) -> None:
        """Settle all of the batch, each run in it once, but for those whose row somebody holds; never raises."""
        pause = FIRST_BACK_OFF
        while batch := self.try_once(batch):
            time.sleep(pause)
            pause = min(pause * 2, LAST_BACK_OFF)

    def expects(self, one: Submission) -> bool:
        """Whether the last commit was of this run alone."""
        return one.lease.run_id.int == self._alone

    def try_at_once(self, one: Submission) -> bool:
        """Settle a step of the run that commits alone, without a moment's sleep; False where that takes longer, or may.
        Then it is to be written as any other, whether it was sent or not: of that the database keeps account."""
        lease = one.lease
        if not self.expects(one) or lease.is_over or lease.missed_beat:
            return False
        began = clock.monotonic()
        if (receipt := write_step_at_once(self._db, lease, one.write)) is None:
            return False
        self.seconds = clock.monotonic() - began
        one.settle(receipt)
        self._tell_of(one, receipt)
        return True

    def try_once(self, batch: Sequence[Submission]) -> list[Submission]:
        """As ``commit``, but for those that are left: the database did not answer for them, and they are to be sent
        again. Never raises."""
        batch = self._still_ours(batch)
        if not batch:
            return []
        try:
            self._write(batch)
        except BaseException as error:
            if not is_out_of_reach(error):
                # Whatever it is, SystemExit of who hears of connections too: an error that left here would leave
                # everybody who submits waiting for ever.
                return self._split(batch, error)
            # Whether the commit happened is unknown: sent again, a row that is there under our token is success.
            warn(logger, "the database refused a commit, trying again: %s", error)
            for one in batch:
                one.is_in_doubt = True
            self._db.close()
            # What is too much for one commit would be so each time, and nobody here would get any further.
            return self._halve(batch) if is_too_much(error) and len(batch) > 1 else batch
        return []

    def _still_ours(self, batch: Sequence[Submission]) -> list[Submission]:
        ours = []
        for one in batch:
            if one.lease.is_over:
                # For good: an answer of a heartbeat that comes late must not revive a claim whose write was dropped.
                one.lease.lose()
                one.settle(Receipt(is_lost=True))
                self._tell_of_lost(one)
            else:
                ours.append(one)
        return ours

    def _write(self, batch: Sequence[Submission]) -> None:
        self._renew_missed(batch)
        self._note_company(batch)
        began = clock.monotonic()
        receipts = write_batch(self._db, [(one.lease, one.write) for one in batch])
        self.seconds = clock.monotonic() - began
        done = []
        # All of them first: the commit has happened, whatever becomes of what comes after it.
        for one in batch:
            receipt = receipts[one.lease.run_id]
            if receipt.is_held or receipt.is_lost:
                one.settle(receipt)
                done.append((one, receipt))
        for one, receipt in done:
            if receipt.is_lost:
                self._tell_of_lost(one)
            else:
                self._tell_of(one, receipt)

    def _note_company(self, batch: Sequence[Submission]) -> None:
        """Nobody but one run commits, time after time: this process has little else to do than to wait for it."""
        run = batch[0].lease.run_id.int if len(batch) == 1 else None
        self._db.polling.is_wanted = run is not None and run == self._alone
        self._alone = run

    def _renew_missed(self, batch: Sequence[Submission]) -> None:
        try:
            renew_missed(self._db, (one.lease for one in batch), lease=durable_settings().LEASE_SECONDS)
        except BaseException as error:
            if is_out_of_reach(error):
                raise
            # No fault of what is to be written.
            survive(error, logger, "leases that a heartbeat had missed could not be renewed")

    def _split(self, batch: Sequence[Submission], error: BaseException) -> list[Submission]:
        """A value that the database does not take must not fail its neighbours: halve until it is alone."""
        if len(batch) == 1:
            batch[0].settle(None, error)
            return []
        return self._halve(batch)

    def _halve(self, batch: Sequence[Submission]) -> list[Submission]:
        middle = len(batch) // 2
        return self.try_once(batch[:middle]) + self.try_once(batch[middle:])

    # --- telling -------------------------------------------------------------------------------

    def _tell_of(self, one: Submission, receipt: Receipt) -> None:
        try:
            if one.is_in_doubt:
                _add_children(receipt, one.write)
            self._after(one.lease, one.write, receipt)
        except BaseException as error:
            # Out of here it would pass for a failed commit, and what is durable would be written again.
            _note_failure(one, error)

    def _tell_of_lost(self, one: Submission) -> None:
        """Only an outcome gives up its lease: any other write that is lost now was not made before either."""
        if one.is_in_doubt and one.write.outcome is not None:
            try:
                self._in_doubt(one.lease, one.write)
            except BaseException as error:
                _note_failure(one, error)


def _note_failure(one: Submission, error: BaseException) -> None:
    survive(error, logger, "what follows a commit failed for run=%s", one.lease.run_id)


def _add_children(receipt: Receipt, write: Write) -> None:
    """If the first commit did happen, the second has inserted none of them, and its receipt tells of none."""
    told = {run.id for run in receipt.ready}
    receipt.ready += [Ready(one.id, one.queue, one.priority) for one in write.children if one.id not in told]
