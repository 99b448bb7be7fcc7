"""The runs that a run has started: those that its page lists, and those that entries of its timeline lead to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import BooleanField, Case, OuterRef, QuerySet, Subquery, UUIDField, Value, When

from ..core.journal.states import Kind, Status
from ..models import Run
from ..store.database import Database
from .confirming import named
from .journal import OTHERS_SHOWN, Listing
from .text import natural, visible
from .timeline import Entry

TROUBLED = (Status.BLOCKED, Status.FAILED, Status.PAUSED, Status.CANCELLED)
"""What one looks for among very many."""
RANK = Case(When(status__in=TROUBLED, then=0), When(status=Status.SUCCEEDED, then=2), default=1)
"""Who is left out last where there is no room for all."""
COLUMNS = (
    *("workflow", "status", "phase", "cancel_requested_at", "pause_requested_at", "parent_path"),
    *("created_at", "finished_at"),
)


@dataclass(slots=True, frozen=True)
class Children:
    """Rows of both. ``listed``: those that are not well first. ``by_path``: of each entry the one started last."""

    listed: Listing = field(default_factory=lambda: Listing([], False))
    by_path: Mapping[str, dict[str, Any]] = field(default_factory=dict)


def children_of(run: Run, entries: Iterable[Entry], *, are_listed: bool) -> Children:
    """Those of these entries; and where they are to be listed, as many as there is room for. At most one query."""
    paths = {entry["path"] for entry in entries if entry["kind"] == Kind.CHILD}
    runs = Run.objects.using(Database().alias)
    theirs, wanted = runs.filter(parent_id=run.pk), []
    if are_listed:
        first = theirs.order_by(RANK, "pk").values("pk")[: OTHERS_SHOWN + 1]
        wanted.append(_marked(runs.filter(pk__in=first), is_listed=True))
    if paths:
        wanted.append(_marked(theirs.filter(parent_path__in=sorted(paths)), is_listed=False))
    if not wanted:
        return Children()
    found = sorted(wanted[0].union(*wanted[1:], all=True), key=lambda child: child.pk)
    listed = sorted((child for child in found if child.is_listed), key=lambda child: child.rank)
    rows = [_row(child) for child in listed[:OTHERS_SHOWN]]
    rows.sort(key=lambda row: (not row["is_troubled"], natural(row["path"])))
    last = {child.parent_path: child for child in found if child.parent_path in paths}
    return Children(Listing(rows, len(listed) > OTHERS_SHOWN), {path: _row(child) for path, child in last.items()})


def _marked(children: QuerySet[Run], *, is_listed: bool) -> QuerySet[Any]:
    # Not as EXISTS: where most runs are children of one, PostgreSQL reads them all rather than the index.
    theirs = Run.objects.using(Database().alias).filter(parent_id=OuterRef("pk")).order_by("parent_path").values("pk")
    # Of very many that only entries lead to nobody needs to know it.
    any_child = Subquery(theirs[:1]) if is_listed else Value(None, UUIDField())
    return children.only(*COLUMNS).annotate(is_listed=Value(is_listed, BooleanField()), any_child=any_child, rank=RANK)


def _row(child: Any) -> dict[str, Any]:
    return {
        **named(child),
        "path": child.parent_path,
        "place": visible(child.parent_path),
        "is_parent": child.any_child is not None,
        "is_troubled": child.status in TROUBLED,
        "created_at": child.created_at,
        "finished_at": child.finished_at,
    }
