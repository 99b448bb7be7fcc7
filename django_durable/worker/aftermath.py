"""What follows a commit: the queue hears of it, a parent is woken, counts go up, signals are sent, a line is logged."""

from __future__ import annotations

import logging
from functools import partial

from ..core import clock
from ..core.flow.lease import Lease
from ..core.journal.journal import Write
from ..core.journal.states import TERMINAL
from ..queues.base import Queue
from ..store.claiming import Claim
from ..store.database import PrivateDatabase
from ..store.receipts import Receipt
from ..workflows.registry import get_workflow
from . import announcing
from .announcer import Announcer
from .in_doubt import find_receipt
from .logs import log_commit, wants_logging
from .notifier import Notifier
from .slots import Slots
from .tallies import Tallies

logger = logging.getLogger("django_durable.worker")


class Aftermath:
    """Hears of every write of this process that became durable; does nothing itself but hand it on."""

    def __init__(self, queue: Queue, slots: Slots) -> None:
        self._slots = slots
        self._notifier = Notifier(PrivateDatabase(), PrivateDatabase(), queue)
        self._announcer = Announcer()
        self.tallies = Tallies()

    def begin(self) -> None:
        self._notifier.begin()
        self._announcer.begin()

    def flush(self, within: float) -> None:
        """Give what has happened ``within`` seconds to be told; the log says how much was not."""
        ends = clock.monotonic() + within
        hints, signals = self._notifier.flush(ends), self._announcer.flush(ends)
        if hints or signals:
            logger.warning("not told in time: hints=%d signals=%d; the sweep finds the runs", hints, signals)

    def stop(self) -> None:
        """Finish what is there, then end."""
        self._notifier.stop()
        self._announcer.stop()

    @property
    def is_idle(self) -> bool:
        """Whether everybody has been told, so that nothing is queued any more by what has happened."""
        return self._notifier.is_idle

    def started(self, claim: Claim) -> None:
        """Take note of a claim that is about to be worked on."""
        self.tallies.started(claim)
        if announcing.is_start_heard():
            for send in announcing.started(get_workflow(claim.workflow), claim):
                self._announcer.do(send)

    def committed(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        """Take note of a write that has become durable."""
        if receipt.ready or receipt.status is not None:
            self._notify(receipt)
        if write.unwanted and not receipt.is_lost:
            self._notifier.cancel(lease.run_id, write.unwanted)
        if (claim := self._slots.claim_of(lease)) is not None:
            if receipt.status is not None:
                self._release(claim)
            self._announce(claim, write, receipt)

    def in_doubt(self, lease: Lease, write: Write) -> None:
        """Take note of an outcome that may have become durable, although nobody was told so."""
        if (claim := self._slots.claim_of(lease)) is not None:
            self._notifier.do(partial(self._look_at, claim, write))

    def _look_at(self, claim: Claim, write: Write) -> None:
        receipt = find_receipt(claim, write)
        self._notify(receipt)
        if receipt.status is not None:
            self._release(claim)
        if receipt.is_held:
            self._announce(claim, write, receipt)

    def _notify(self, receipt: Receipt) -> None:
        if receipt.ready:
            self._notifier.push(receipt.ready)
        if receipt.parent_id is not None and receipt.status in TERMINAL:
            self._notifier.wake_parent(receipt.parent_id, receipt.parent_path)

    def _release(self, claim: Claim) -> None:
        if claim.limit_key is not None:
            self._notifier.release(claim.limit_key)

    def _announce(self, claim: Claim, write: Write, receipt: Receipt) -> None:
        if receipt.status is not None:
            self.tallies.ended(claim, receipt.status, write.outcome)
        if wants_logging(write, receipt):
            self._announcer.do(partial(log_commit, claim, write, receipt))
        if announcing.is_heard():
            for send in announcing.committed(get_workflow(claim.workflow), claim, write, receipt):
                self._announcer.do(send)
