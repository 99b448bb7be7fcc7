"""``run_until_idle``: a worker's work in the calling thread, on its connection."""

from __future__ import annotations

from uuid import UUID

from asgiref.sync import async_to_sync

from ..conf import durable_settings
from ..core.clock import DatabaseClock
from ..core.ids import uuid7
from ..executor.async_attempt import arun_attempt
from ..executor.commit import DirectCommit
from ..executor.sync_attempt import run_attempt
from ..store import recovery
from ..store.claiming import Claim, Claimant, claim_next
from ..store.database import Database
from ..workflows.registry import get_workflow, workflows

BATCH = 100


def run_until_idle(*, max_claims: int = 10_000) -> int:
    """Work whatever is due, in this thread, until nothing is; the number of claims.

    Raises RuntimeError after ``max_claims``: something keeps waking itself.
    """
    db = Database()
    commit = DirectCommit(db)
    claims = 0
    while True:
        recovery.sweep(db, BATCH)
        batch = _claim(db)
        if not batch:
            return claims
        for claim in batch:
            _work(claim, commit)
        claims += len(batch)
        if claims > max_claims:
            raise RuntimeError(f"Still not idle after {max_claims} claims: does a workflow wake itself?")


def _claim(db: Database) -> list[Claim]:
    queues = tuple(db_queues(db))
    if not queues:
        return []
    who = Claimant(_process_id(), queues, tuple(workflows()))
    return claim_next(db, who, 1, lease=durable_settings().LEASE_SECONDS, time=DatabaseClock())


def db_queues(db: Database) -> set[str]:
    """Every queue that a live run is in: a test should not have to name them."""
    from ..models import Run
    from ..models.run import RunQuerySet

    runs = Run.objects.using(db.alias).all()
    assert isinstance(runs, RunQuerySet)  # noqa: S101  (for the type checker)
    return set(runs.live().values_list("queue", flat=True).distinct())


def _process_id() -> UUID:
    return uuid7()


def _work(claim: Claim, commit: DirectCommit) -> None:
    workflow = get_workflow(claim.workflow)
    if workflow.is_async:
        async_to_sync(arun_attempt)(claim, workflow, commit)
    else:
        run_attempt(claim, workflow, commit)
