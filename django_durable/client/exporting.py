"""Runs as documents of plain data, with all that is stored of them: for CI, for another machine, for a bug report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ..core.journal.states import PayloadKind, failure_kinds
from ..models import Event, JournalEntry, LogLine, Payload, Run, Tag
from ..models.run import RunQuerySet
from ..store.database import Database

FORMAT = "django_durable.run"
END = "django_durable.end"
"""What the last line of a file of lines is, and no other: a file without it was cut off on its way."""
VERSION = 1
"""Raised when a document of before would be read wrongly; new fields alone do not raise it."""

RUN_FIELDS = (
    *("id", "workflow", "queue", "priority", "status", "phase", "attempt", "max_attempts", "claims", "crashes"),
    *("block_reason", "fingerprint", "waiting_on", "created_at", "queued_at", "started_at", "finished_at", "wake_at"),
    *("deadline_at", "timeout", "cancel_requested_at", "parent_id", "parent_path", "root_id", "detached"),
)
"""Not the lease: its token is the right to write."""
ENTRY_FIELDS = (
    *("path", "seq", "kind", "status", "attempts", "value", "error"),
    *("started_at", "finished_at", "wake_at", "awaits", "undo"),
)
EVENT_FIELDS = ("id", "name", "payload", "idempotency_key", "sent_at", "consumed_at", "consumed_by")
LOG_FIELDS = ("at", "level", "scope", "message", "attempt")
CHILD_FIELDS = ("id", "workflow", "status", "parent_path", "detached")

Document = dict[str, Any]


def export_runs(run_ids: Sequence[UUID]) -> Iterator[Document]:
    """A document for each of these runs that exists, in the order of their ids. All are in memory at once."""
    alias = Database().alias
    documents = _documents(run_ids)
    ids = list(documents)
    tags = _grouped(Tag.objects.using(alias).filter(run_id__in=ids).order_by("name"), "run_id", ("name",))
    events = _grouped(Event.objects.using(alias).filter(run_id__in=ids).order_by("pk"), "run_id", EVENT_FIELDS)
    children = _grouped(Run.objects.using(alias).filter(parent_id__in=ids).order_by("pk"), "parent_id", CHILD_FIELDS)
    lines = _grouped(LogLine.objects.using(alias).filter(run_id__in=ids).order_by("number"), "run_id", LOG_FIELDS)
    for run_id, document in documents.items():
        document["tags"] = [row["name"] for row in tags[run_id]]
        document["events"] = events[run_id]
        document["log"] = lines[run_id]
        document["children"] = children[run_id]
        yield document


def export_end(count: int) -> Document:
    """What follows the last of ``count`` documents, where there is one on each line."""
    return {"format": END, "version": VERSION, "runs": count}


def export_journals(run_ids: Sequence[UUID]) -> list[Document]:
    """As ``export_runs``, with only what a replay needs: the run, its payloads and its journal."""
    return list(_documents(run_ids).values())


def _documents(run_ids: Sequence[UUID]) -> dict[UUID, Document]:
    alias = Database().alias
    runs = Run.objects.using(alias).filter(pk__in=run_ids).order_by("pk").values(*RUN_FIELDS)
    documents: dict[UUID, Document] = {
        row["id"]: {"format": FORMAT, "version": VERSION, "run": {name: _plain(row[name]) for name in RUN_FIELDS}}
        for row in runs
    }
    payloads: dict[UUID, dict[str, str]] = defaultdict(dict)
    texts = Payload.objects.using(alias).filter(run_id__in=run_ids).order_by("kind")
    for run_id, kind, data in texts.values_list("run_id", "kind", "data"):
        payloads[run_id][kind] = data
    journal = JournalEntry.objects.using(alias).filter(run_id__in=run_ids).order_by("seq")
    entries = _grouped(journal, "run_id", ENTRY_FIELDS)
    for run_id, document in documents.items():
        if PayloadKind.RETRY not in failure_kinds(document["run"]["status"]):
            payloads[run_id].pop(PayloadKind.RETRY, None)
        document["payloads"] = payloads[run_id]
        document["journal"] = entries[run_id]
    return documents


def _grouped(rows: Any, by: str, names: Iterable[str]) -> dict[UUID, list[dict[str, Any]]]:
    found: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    for row in rows.values(by, *names):
        found[row[by]].append({name: _plain(row[name]) for name in names})
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value) if isinstance(value, UUID) else value


# --- which runs ------------------------------------------------------------------------------


def live_runs(workflows: Sequence[str] = ()) -> Iterator[tuple[UUID, str]]:
    """Id and workflow of the runs that are not over, of these workflows if any are named; read by and by."""
    after = None
    while True:
        runs = Run.objects.using(Database().alias).all()
        assert isinstance(runs, RunQuerySet)  # noqa: S101  (for the type checker)
        found = runs.live().order_by("pk")
        if workflows:
            found = found.filter(workflow__in=workflows)
        if after is not None:
            found = found.filter(pk__gt=after)
        rows = list(found.values_list("pk", "workflow")[:IDS])
        yield from rows
        if len(rows) < IDS:
            return
        after = rows[-1][0]


IDS = 1_000
