"""What follows a commit: the queue hears of it, a parent is woken, signals are sent, a line is logged."""

from __future__ import annotations

from functools import partial

from ..core.journal import Write
from ..core.lease import Lease
from ..core.states import TERMINAL
from ..queues.base import Queue
from ..store.claiming import Claim
from ..store.committing import Receipt
from ..store.database import PrivateDatabase
from ..workflows.registry import get_workflow
from . import announcing
from .logs import log_commit, wants_logging
from .notifier import Announcer, Notifier
from .slots import Slots


class Aftermath:
    """Hears of every write of this process that became durable; does nothing itself but hand it on."""

    def __init__(self, queue: Queue, slots: Slots) -> None:
        self._slots = slots
        self._notifier = Notifier(PrivateDatabase(), queue, Notifier(PrivateDatabase(), queue))
        self._announcer = Announcer()

    def begin(self) -> None:
        self._notifier.begin()
        self._announcer.begin()

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
        for send in announcing.started(get_workflow(claim.workflow), claim):
            self._announcer.do(send)

    def committed(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        """Take note of a write that has become durable."""
        if receipt.ready:
            self._notifier.push(receipt.ready)
        if receipt.parent_id is not None and receipt.status in TERMINAL:
            self._notifier.wake(receipt.parent_id)
        is_logged, is_heard = wants_logging(write, receipt), announcing.is_heard()
        claim = self._slots.claim_of(lease) if is_logged or is_heard else None
        if claim is None:
            return
        if is_logged:
            self._announcer.do(partial(log_commit, claim, write, receipt))
        if is_heard:
            for send in announcing.committed(get_workflow(claim.workflow), claim, write, receipt):
                self._announcer.do(send)
