"""Django signals for what the outside did to runs without a worker: sent after its transaction has committed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from django.dispatch import Signal

from ..core.journal.journal import NewRun
from ..core.registry import find
from ..models import Run
from ..signals import run_enqueued
from ..store.database import Database
from .after_commit import after_commit


def announce_enqueued(db: Database, workflow: object, runs: Iterable[NewRun]) -> None:
    """Send ``run_enqueued`` for each run. ``workflow``: the sender, None where this process does not know it."""
    # Asked first: as a rule nobody listens at all, and to learn that of a sender takes far longer.
    if run_enqueued.receivers and run_enqueued.has_listeners(workflow):
        for run in runs:
            after_commit(db, partial(run_enqueued.send_robust, sender=workflow, run_id=run.id))


def announce_after_commit(db: Database, signal: Signal, runs: Iterable[Run]) -> None:
    """Send ``signal`` for each run, with its workflow as sender (None where this process does not know it)."""
    if not signal.receivers:
        return
    for run in runs:
        after_commit(db, partial(signal.send_robust, sender=find(run.workflow), run_id=run.pk, attempt=run.attempt))
