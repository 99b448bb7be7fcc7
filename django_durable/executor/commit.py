"""What a driver needs to make a write durable."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from ..core.flow.flow import Flow
from ..core.flow.lease import Lease
from ..core.journal.inbox import Inbox
from ..core.journal.journal import Write
from ..core.journal.outcomes import Lost
from ..store.receipts import Receipt


class Commit(Protocol):
    """Writes are durable, or known to be lost, when these return. Raise what the write itself did wrong."""

    is_stepwise: bool
    """Whether somebody wants to see each call stored by itself: also the last one, after which the function only
    returns."""

    def write(self, lease: Lease, write: Write) -> Receipt: ...

    def awrite(self, lease: Lease, write: Write) -> Awaitable[Receipt]:
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
    if receipt.cancelling or receipt.pausing != flow.lease.pause_requested:
        flow.lease.hear(cancelling=receipt.cancelling, pausing=receipt.pausing)
