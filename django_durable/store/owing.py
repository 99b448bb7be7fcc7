"""What runs have done that a compensation would undo: asked where a run may end without code that could do it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Value
from django.db.models.functions import Concat

from ..core.flow.undoing import UNDO
from ..core.journal.states import EntryStatus, Kind, PayloadKind
from ..core.payloads.codec import decode, encode
from ..exceptions import PayloadUndecodable
from ..models import JournalEntry, Payload, Run
from .database import Database

GIVEN_UP = {
    "type": "RunCancelled",
    "message": "Not tried: the run was blocked, and cancelled for good.",
    "traceback": "",
}


def owed(db: Database, runs: Sequence[Run]) -> dict[UUID, list[str]]:
    """Those of the runs that have something to undo: the paths of the steps, in their order."""
    journal = JournalEntry.objects.using(db.alias)
    tried = journal.filter(
        run_id=OuterRef("run_id"),
        path=Concat(OuterRef("path"), Value(UNDO)),
        status__in=[EntryStatus.SUCCEEDED, EntryStatus.FAILED],
    )
    steps = journal.filter(~Exists(tried), run_id__in=[run.pk for run in runs], undo=True).order_by("run_id", "seq")
    found: dict[UUID, list[str]] = defaultdict(list)
    for run_id, path in steps.values_list("run_id", "path"):
        found[run_id].append(path)
    return dict(found)


def tell_not_undone(db: Database, runs: Sequence[Run]) -> None:
    """Add to the errors of runs that end as they are what they did and what still stands. Their rows are locked."""
    left = owed(db, runs)
    if not left:
        return
    errors = Payload.objects.using(db.alias).filter(run_id__in=list(left), kind=PayloadKind.ERROR)
    before = dict(errors.values_list("run_id", "data"))
    failed = _failed(db, list(left))
    errors.delete()
    Payload.objects.using(db.alias).bulk_create(
        Payload(run_id=run_id, kind=PayloadKind.ERROR, data=_told(before.get(run_id), failed[run_id], paths))
        for run_id, paths in left.items()
    )


def _failed(db: Database, run_ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """The errors of compensations that failed, by the paths of their steps."""
    undos = JournalEntry.objects.using(db.alias).filter(run_id__in=run_ids, kind=Kind.UNDO, status=EntryStatus.FAILED)
    found: dict[UUID, dict[str, Any]] = defaultdict(dict)
    for run_id, path, text in undos.order_by("seq").values_list("run_id", "path", "error"):
        found[run_id][path.removesuffix(UNDO)] = _read(text)
    return found


def _told(before: str | None, failed: dict[str, Any], paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    ended = {"type": "CompensationFailed", "message": f"{paths[0]!r}{more} was not undone", "traceback": ""}
    error = _read(before) or ended
    return encode({**error, "not_undone": {**failed, **dict.fromkeys(paths, GIVEN_UP)}})


def _read(text: str | None) -> dict[str, Any]:
    try:
        error = decode(text) if text else {}
    except PayloadUndecodable:
        # What this code cannot read must not keep the run from ending.
        return {}
    return error if isinstance(error, dict) else {}
