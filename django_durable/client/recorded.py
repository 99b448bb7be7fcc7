"""A run as it was exported, read back: what a replay needs of it, and no row of a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ..core.journal.journal import Entry
from ..core.journal.states import EntryStatus, Kind, PayloadKind, failure_kinds
from .exporting import FORMAT, VERSION


class ExportUnreadable(ValueError):
    """What was read is no export, or one of another version."""


@dataclass(slots=True, frozen=True)
class Recorded:
    """One run. ``input`` and ``error`` are encoded text."""

    run_id: UUID
    workflow: str
    phase: str
    attempt: int
    root_id: UUID
    created_at: datetime
    is_cancelling: bool
    input: str | None
    error: str | None
    """What the run ended with, or, where it is live, what the function raised the last time."""
    entries: Mapping[str, Entry]
    unreadable: str = ""
    """What of the journal this release cannot read."""


def read(document: Any) -> Recorded:
    """The run of a document that ``exporting`` made. Raises ExportUnreadable."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ExportUnreadable(f"it has no run in it: its format is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise ExportUnreadable(f"its version is {document.get('version')!r}, and this release reads {VERSION}")
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ExportUnreadable(f"it is damaged ({type(error).__name__}: {error})") from error


def _read(document: dict[str, Any]) -> Recorded:
    run, payloads = document["run"], document["payloads"]
    entries, unreadable = _entries(document["journal"])
    return Recorded(
        run_id=UUID(run["id"]),
        workflow=run["workflow"],
        phase=run["phase"],
        attempt=run["attempt"],
        root_id=UUID(run["root_id"]),
        created_at=datetime.fromisoformat(run["created_at"]),
        is_cancelling=run["cancel_requested_at"] is not None,
        input=payloads.get(PayloadKind.INPUT),
        error=next((payloads[kind] for kind in failure_kinds(run["status"]) if kind in payloads), None),
        entries=entries,
        unreadable=unreadable,
    )


def _entries(rows: list[dict[str, Any]]) -> tuple[dict[str, Entry], str]:
    entries: dict[str, Entry] = {}
    unreadable = ""
    for row in rows:
        try:
            entries[row["path"]] = _entry(row)
        except ValueError as error:
            # A kind or a status that a newer release has written.
            unreadable = unreadable or f"journal entry {row['path']!r}: {error}"
    return entries, unreadable


def _entry(row: dict[str, Any]) -> Entry:
    return Entry(
        path=row["path"],
        kind=Kind(row["kind"]),
        status=EntryStatus(row["status"]),
        seq=row["seq"],
        attempts=row["attempts"],
        value=row["value"],
        error=row["error"],
        wake_at=None if row["wake_at"] is None else datetime.fromisoformat(row["wake_at"]),
        awaits=row["awaits"],
        undo=row["undo"],
    )
