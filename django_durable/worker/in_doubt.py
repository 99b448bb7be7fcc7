"""Outcomes whose COMMIT was never answered: what the database says of them now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..core.journal.journal import Write
from ..core.journal.outcomes import Released
from ..core.journal.states import BlockReason, Kind, Status
from ..models import JournalEntry, Run
from ..queues.ready import Ready
from ..store.claiming import Claim
from ..store.database import Database
from ..store.receipts import Receipt

UNTOLD = (Status.QUEUED, Status.PAUSED)


def find_receipt(claim: Claim, write: Write) -> Receipt:
    """What the outcome of ``claim`` has made of its run. It is held where the ``write`` that the outcome came in is
    certain to be durable, and without a status where that cannot be told.

    ``claims`` counts up with each claim, so that a run that nobody works on and whose count is ours is as our claim
    left it, or as whoever acts on resting runs did: the reaper leaves runs queued or paused, and suspects those that
    it ends; what it has queued may be blocked since, where nobody is left who knows the workflow. There, and where
    the run was claimed again, rows that only this write can have made prove it: a child of it, or a step as it says,
    under our token. What its steps have come to is then certain. Whether the run rested or went straight on is not:
    whoever woke or claimed it wrote over that, and to remember it would be a write more for every suspension. So no
    signal of the run is sent; nor is one of a step that was tried again meanwhile, under another token.
    """
    with _brief_database() as db:
        left = Run.objects.using(db.alias).filter(pk=claim.run_id, claims=claim.claims, lease_token=None)
        run = left.only("status", "suspect", "block_reason", "parent_id", "parent_path").first()
        is_told = run is not None and _is_as_an_outcome_leaves_it(run)
        is_proven = is_told or _is_proven(db, claim, write)
    if run is None:
        return Receipt(is_held=is_proven)
    told = run.status if is_told else None
    receipt = Receipt(is_held=is_proven, status=told, parent_id=run.parent_id, parent_path=run.parent_path)
    if run.status in (Status.QUEUED, Status.WAITING):
        # A waiting one may come due before the next sweep; a hint too many costs a look.
        is_under_way = isinstance(write.outcome, Released)
        receipt.ready = [Ready(claim.run_id, claim.queue, claim.priority, is_under_way=is_under_way)]
    return receipt


@contextmanager
def _brief_database() -> Iterator[Database]:
    db = Database()
    try:
        yield db
    finally:
        # This is rare: the thread keeps no connection of Django's for it.
        db.connection.close()


def _is_as_an_outcome_leaves_it(run: Run) -> bool:
    return run.status not in UNTOLD and not run.suspect and run.block_reason != BlockReason.UNKNOWN_WORKFLOW


def _is_proven(db: Database, claim: Claim, write: Write) -> bool:
    if Run.objects.using(db.alias).filter(pk__in=[child.id for child in write.children]).exists():
        return True
    # No two writes leave one step in the same state after the same attempt, as they may leave an entry that waits.
    steps = [entry for entry in write.entries.values() if entry.kind == Kind.STEP]
    ours = JournalEntry.objects.using(db.alias).filter(run_id=claim.run_id, token=claim.lease.token)
    states = (ours.filter(path=step.path, status=step.status, attempts=step.attempts) for step in steps)
    return any(state.exists() for state in states)
