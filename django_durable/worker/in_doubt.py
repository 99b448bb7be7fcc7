"""Outcomes whose COMMIT was never answered: what the database says of them now."""

from __future__ import annotations

from ..core.states import Status
from ..models import Run
from ..queues.ready import Ready
from ..store.claiming import Claim
from ..store.committing import Receipt
from ..store.database import Database


def find_receipt(claim: Claim) -> Receipt | None:
    """What the outcome of ``claim`` has made of its run; None where the run has gone on since.

    ``claims`` counts up with each claim, so that a run that nobody works on and whose count is ours is as our claim
    left it, or as whoever acts on resting runs did. Only ``queued`` does not prove that it was our outcome: so is also
    left what the reaper takes away. Then the receipt is merely a hint, without a status.
    """
    db = Database()
    left = Run.objects.using(db.alias).filter(pk=claim.run_id, claims=claim.claims, lease_token=None)
    try:
        row = left.values_list("status", "parent_id").first()
    finally:
        # This is rare: the thread keeps no connection of Django's for it.
        db.connection.close()
    if row is None:
        return None
    status, parent_id = row
    receipt = Receipt(is_held=True, status=None if status == Status.QUEUED else status, parent_id=parent_id)
    if status in (Status.QUEUED, Status.WAITING):
        # A waiting one may come due before the next sweep; a hint too many costs a look.
        receipt.ready = [Ready(claim.run_id, claim.queue, claim.priority)]
    return receipt
