"""Runs and the code that is deployed: blocked where nobody knows their workflow, queued for code that may fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import StrIndex

from ..core.journal.states import BlockReason, PayloadKind, Status
from ..models import Payload, Run
from ..models.run import IS_QUEUED
from ..queues.ready import Ready
from .clock import DatabaseNow
from .database import Database
from .locking import change, locked_now
from .owing import owed
from .recovery import wake_parents

MISFITS = (BlockReason.DIVERGED, BlockReason.UNDECODABLE)
"""What other code may be able to go on with. The run's ``fingerprint`` is that of the code which could not."""
BATCH = 1000


@dataclass(slots=True, frozen=True)
class Unknown:
    """Runs of workflows that nobody knows, each in its new status, and the ``woken`` parents of those that ended."""

    runs: list[Run]
    woken: list[Ready]


def block_unknown(db: Database, known: Sequence[str], limit: int, *, patience: float = 0.0) -> Unknown:
    """Runs that are startable or due for ``patience`` seconds, of workflows that no live worker knows →
    ``blocked: unknown_workflow``, or cancelled where that was asked for first and there is nothing to undo."""
    with db.transaction():
        since = DatabaseNow(ago=patience)
        # A claim from the database takes what is due as it is: nobody queues such runs there.
        due = Q(status__in=[Status.SCHEDULED, Status.WAITING], wake_at__lte=since)
        startable = Run.objects.filter(IS_QUEUED & Q(queued_at__lte=since) | due)
        runs = locked_now(db, startable.exclude(workflow__in=list(known)), limit)
        asked = [run for run in runs if run.cancel_requested_at is not None]
        owing = owed(db, asked)
        cancelling = [run for run in asked if run.pk not in owing]
        blocked = [run for run in runs if run not in cancelling]
        still: dict[str, Any] = {"suspect": False, "wake_at": None, "waiting_on": ""}
        change(db, cancelling, status=Status.CANCELLED, finished_at=DatabaseNow(), **still)
        change(db, blocked, status=Status.BLOCKED, block_reason=BlockReason.UNKNOWN_WORKFLOW, **still)
    for run in runs:
        run.status = Status.CANCELLED if run in cancelling else Status.BLOCKED
    return Unknown(runs, wake_parents(db, [(run.parent_id, run.parent_path) for run in cancelling]))


def unblock_known(db: Database, fingerprints: Mapping[str, str], queues: Sequence[str]) -> list[Run]:
    """Blocked runs that this worker's code may fit → queued: unknown names that it knows, and in its own ``queues``
    what code with other fingerprints could not go on with and this one has not tried yet.

    ``fingerprints``: those of the workflows that the worker knows. Whoever claims the run may be one of the others: it
    then blocks it once more under its own fingerprint, and ours is still to try.
    """
    fits = Q(block_reason=BlockReason.UNKNOWN_WORKFLOW, workflow__in=list(fingerprints))
    for fingerprint, workflows in _by_fingerprint(fingerprints).items():
        misfits = Q(block_reason__in=MISFITS, workflow__in=workflows, queue__in=list(queues))
        fits |= misfits & ~Q(fingerprint=fingerprint) & Q(~Exists(_tried(db, fingerprint)))
    with db.transaction():
        runs = locked_now(db, Run.objects.filter(fits, status=Status.BLOCKED), BATCH)
        _remember_tried(db, [run for run in runs if run.block_reason in MISFITS and run.fingerprint])
        change(db, runs, status=Status.QUEUED, queued_at=DatabaseNow(), block_reason="")
    return runs


def _by_fingerprint(fingerprints: Mapping[str, str]) -> dict[str, list[str]]:
    """The workflows of each fingerprint: those of one module share theirs."""
    names: dict[str, list[str]] = defaultdict(list)
    for workflow, fingerprint in fingerprints.items():
        names[fingerprint].append(workflow)
    return names


def _tried(db: Database, fingerprint: str) -> QuerySet[Payload]:
    """Whether code with this fingerprint is among those that could not go on with the run before the latest one.

    What it could not read then it cannot read now: a journal only grows.
    """
    lists = Payload.objects.using(db.alias).filter(run_id=OuterRef("pk"), kind=PayloadKind.TRIED)
    return lists.alias(found=StrIndex("data", Value(_line(fingerprint)))).filter(found__gt=0)


def _line(fingerprint: str) -> str:
    # Between line ends, so that none is found as a part of another.
    return f"\n{fingerprint}\n"


def _remember_tried(db: Database, misfits: Iterable[Run]) -> None:
    """Note the fingerprints that blocked these runs, before another may take their place in the row."""
    latest = {run.pk: run.fingerprint for run in misfits}
    if not latest:
        return
    lists = Payload.objects.using(db.alias).filter(run_id__in=list(latest), kind=PayloadKind.TRIED)
    tried: dict[UUID, str] = dict(lists.values_list("run_id", "data"))
    longer = {
        run_id: tried.get(run_id, "\n") + f"{fingerprint}\n"
        for run_id, fingerprint in latest.items()
        if _line(fingerprint) not in tried.get(run_id, "")
    }
    lists.filter(run_id__in=list(longer)).delete()
    Payload.objects.using(db.alias).bulk_create(
        Payload(run_id=run_id, kind=PayloadKind.TRIED, data=data) for run_id, data in longer.items()
    )
