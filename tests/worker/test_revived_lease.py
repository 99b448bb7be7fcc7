"""What a process was told to be lost stays lost, also when the answer of a heartbeat comes late."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.store.database import PrivateDatabase
from django_durable.worker.committer import Committer
from django_durable.worker.heartbeat import Heartbeat
from django_durable.worker.slots import Slots
from tests.store.rows import entries, running, step_entry

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_write_that_was_dropped_is_not_followed_by_others_of_its_claim(
    db: PrivateDatabase, connect: Callable[[], PrivateDatabase], travel: Callable[[float], None]
) -> None:
    """Found by chaos, seed 17: the step whose result was dropped ran again."""
    slots, claim = Slots(4), running(db)
    slots.take(claim)
    lease: Lease = claim.lease
    committer = Committer(connect(), lambda *_: None)
    # The lease is over by this process's clock; nobody has reaped it, and the heartbeat's answer is yet to come.
    lease.ends -= 1000
    try:
        assert committer.write(lease, Write(entries(step_entry("dropped")))).is_lost
        Heartbeat(connect(), slots, lambda db: None).beat()
        receipt = committer.write(lease, Write(entries(step_entry("later"))))
    finally:
        committer.close()
    assert receipt.is_lost, "the result of `dropped` is gone, and its claim goes on as if it had never been executed"
