"""What a resume costs: a run that has journaled so many steps is claimed, and replayed up to its first new step.

All of it happens in the calling process: the claim is the worker's own statement on the run's real rows, the attempt is
the executor's. What it would write is thrown away and the claim is handed back, so one run is resumed many times.
"""

from __future__ import annotations

import gc
import time
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID

from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.executor.sync_attempt import perform_attempt
from django_durable.store.claiming import Claimant, claim_ids, hand_back
from django_durable.store.database import PrivateDatabase
from django_durable.store.receipts import Receipt
from django_durable.workflows.registry import get_workflow

LEASE = 60.0


class Resumed(NamedTuple):
    """Seconds: of the claim with the loading of its journal, and from there to the first new step."""

    claim: float
    replay: float


class Nowhere:
    """A commit that keeps nothing."""

    is_stepwise = True
    """So that the last step is one like any other."""

    def write(self, lease: Any, write: Any) -> Receipt:
        return Receipt(is_held=True)

    def noted(self, lease: Any, write: Any, receipt: Receipt) -> None:
        pass

    def refresh(self, inbox: Any, lease: Any) -> None:
        pass


def resume(workflow: str, run_id: UUID, times: int) -> Resumed:
    """The medians of so many resumes of a queued run, which stays queued."""
    db = PrivateDatabase()
    who = Claimant(uuid7(), ("default",), (workflow,))
    try:
        found = [_resume_once(db, who, run_id) for _ in range(times)]
    finally:
        db.close()
    return Resumed(*map(median, zip(*found, strict=True)))


def _resume_once(db: PrivateDatabase, who: Claimant, run_id: UUID) -> Resumed:
    # What the one before has left behind is nobody's replay.
    gc.collect()
    began = time.perf_counter()
    [claim] = claim_ids(db, who, [run_id], lease=LEASE, time=DatabaseClock())
    loaded = time.perf_counter()
    outcome: Any = perform_attempt(claim, get_workflow(claim.workflow), Nowhere())[0]
    hand_back(db, [claim.lease])
    return Resumed(loaded - began, float(outcome.output) - loaded)
