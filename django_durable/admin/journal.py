"""What happened in a run: its journal, its events, what was asked of it. Bounded; payloads only on request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.html import format_html
from django.utils.translation import gettext

from ..core.journal.states import EntryStatus
from ..models import Audit, Event, JournalEntry, Run, Schedule
from ..store.database import Database
from . import cells
from .payloads import ERROR_EXCERPT, Shown, ShownError, excerpt_of, shown, shown_error, with_excerpt
from .text import visible

ENTRIES_SHOWN = 500
OTHERS_SHOWN = 100
"""Events, children and audit entries on a run's page."""


@dataclass(slots=True, frozen=True)
class Listing:
    """Rows of a table, and whether there are more than it shows."""

    rows: list[Any]
    is_cut: bool

    @classmethod
    def of(cls, rows: Iterable[Any], most: int) -> Listing:
        """``rows`` were asked for with one more than ``most``."""
        found = list(rows)
        return cls(found[:most], len(found) > most)


@dataclass(slots=True, frozen=True)
class JournalRow:
    seq: int
    path: str
    kind: str
    status: str
    attempts: int
    started: str
    duration: str
    waits: str
    value: Shown | None
    error: ShownError | None
    child: Run | None


@dataclass(slots=True, frozen=True)
class EventRow:
    name: str
    sent: str
    taken: str
    taken_by: str
    key: str
    payload: Shown | None


@dataclass(slots=True, frozen=True)
class AuditRow:
    at: str
    verb: str
    actor: str
    reason: str
    status_before: str


def journal_of(run: Run, children: Iterable[Run], *, with_values: bool) -> Listing:
    """The journal in its order; the first ``ENTRIES_SHOWN`` entries."""
    entries = JournalEntry.objects.using(Database().alias).filter(run_id=run.pk).order_by("seq")
    entries = with_excerpt(entries, "error", ERROR_EXCERPT)
    columns = [
        "seq", "path", "kind", "status", "attempts", "started_at", "finished_at", "wake_at", "awaits",
        "error_text", "error_size",
    ]  # fmt: skip
    if with_values:
        entries = with_excerpt(entries, "value")
        columns += ["value_text", "value_size"]
    listing = Listing.of(entries.values(*columns)[: ENTRIES_SHOWN + 1], ENTRIES_SHOWN)
    by_path = {child.parent_path: child for child in children}
    return Listing([_entry(row, by_path.get(row["path"]), with_values) for row in listing.rows], listing.is_cut)


def _entry(row: dict[str, Any], child: Run | None, with_values: bool) -> JournalRow:
    is_open = row["status"] in (EntryStatus.WAITING, EntryStatus.RETRYING)
    return JournalRow(
        seq=row["seq"],
        path=visible(row["path"]),
        kind=row["kind"],
        status=cells.pill(row["status"], cells.ENTRY_LABELS.get(row["status"], row["status"])),
        attempts=row["attempts"],
        started=cells.moment(row["started_at"]),
        duration=cells.duration(row["started_at"], row["finished_at"]),
        waits=_waits(row) if is_open else "",
        value=shown(excerpt_of(row, "value")) if with_values else None,
        error=shown_error(excerpt_of(row, "error")),
        child=child,
    )


def _waits(row: dict[str, Any]) -> str:
    parts = []
    if row["awaits"] and row["kind"] == "event":
        parts.append(format_html("{} {}", gettext("for"), cells.name(row["awaits"].replace("\n", ", "))))
    if row["wake_at"]:
        parts.append(format_html("{} {}", gettext("until"), cells.moment(row["wake_at"])))
    return format_html("{} {}", *parts, *[""] * (2 - len(parts)))


def events_of(run: Run, *, with_payloads: bool) -> Listing:
    events = Event.objects.using(Database().alias).filter(run_id=run.pk).order_by("pk")
    columns = ["name", "sent_at", "consumed_at", "consumed_by", "idempotency_key"]
    if with_payloads:
        events = with_excerpt(events, "payload")
        columns += ["payload_text", "payload_size"]
    listing = Listing.of(events.values(*columns)[: OTHERS_SHOWN + 1], OTHERS_SHOWN)
    return Listing([_event(row, with_payloads) for row in listing.rows], listing.is_cut)


def _event(row: dict[str, Any], with_payloads: bool) -> EventRow:
    return EventRow(
        name=cells.name(row["name"]),
        sent=cells.moment(row["sent_at"]),
        taken=cells.moment(row["consumed_at"]),
        taken_by=visible(row["consumed_by"]),
        key=visible(row["idempotency_key"]),
        payload=shown(excerpt_of(row, "payload")) if with_payloads else None,
    )


def audit_of(run: Run) -> Listing:
    """The latest verbs, newest first."""
    return _audits(Audit.objects.filter(run_id=run.pk))


def audit_of_schedule(schedule: Schedule) -> Listing:
    """Likewise, also of a row that was there before under the same name."""
    return _audits(Audit.objects.filter(run=None, workflow=schedule.workflow, schedule=schedule.name))


def _audits(entries: QuerySet[Audit]) -> Listing:
    latest = entries.using(Database().alias).order_by("-pk")[: OTHERS_SHOWN + 1]
    return Listing.of((_audit(entry) for entry in latest), OTHERS_SHOWN)


def _audit(entry: Audit) -> AuditRow:
    return AuditRow(
        at=cells.moment(entry.at),
        verb=visible(entry.verb),
        actor=visible(entry.actor),
        reason=visible(entry.reason),
        status_before=visible(entry.status_before),
    )
