"""The runs that a run has started: those that its page lists, and those that entries of its timeline lead to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import BooleanField, Case, F, OuterRef, QuerySet, Subquery, UUIDField, Value, When

from ..core.journal.states import Kind, Status
from ..models import Run
from ..models.run import ALIVE
from ..store.database import Database
from .confirming import named
from .journal import OTHERS_SHOWN, Listing
from .text import natural, visible
from .timeline import Entry

TROUBLED = (Status.BLOCKED, Status.FAILED, Status.PAUSED, Status.CANCELLED)
"""What one looks for among very many."""
RANK = Case(When(status__in=TROUBLED, then=0), When(status=Status.SUCCEEDED, then=2), default=1)
"""Who is left out last where there is no room for all."""
LOOKED_AT = 150
"""Of very many children those that are looked at, and so many runs of each status of ``FOUND_BY_STATUS``. Of a table
with a hundred thousand runs PostgreSQL would rather read all than look for a thousand of them."""
FOUND_BY_STATUS = (Status.BLOCKED, Status.FAILED, Status.PAUSED)
"""Those that an index has by their status."""
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
    """Those of these entries; and where they are to be listed, as many as there is room for. At most one query, which
    reads a bounded number of runs."""
    paths = {entry["path"] for entry in entries if entry["kind"] == Kind.CHILD}
    runs = Run.objects.using(Database().alias)
    theirs, wanted = runs.filter(parent_id=run.pk), []
    if are_listed:
        first = runs.filter(pk__in=_looked_at(run, theirs)).order_by(RANK, "pk").values("pk")[: OTHERS_SHOWN + 1]
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


def _looked_at(run: Run, theirs: QuerySet[Run]) -> QuerySet[Any, Any]:
    """The first by their places, some that are not over, and those in trouble among the runs that were next to come
    after this one: of a hundred thousand children not all are read to find those."""
    runs = Run.objects.using(Database().alias)
    # Whose they are is asked of those found: as a condition it would be looked for among all that are in trouble.
    own = Case(When(parent_id=run.pk, then=F("pk")), output_field=UUIDField())
    looks: list[QuerySet[Any, Any]] = [
        theirs.order_by("parent", "parent_path").values("pk")[:LOOKED_AT],
        theirs.filter(status__in=ALIVE).order_by().values("pk")[: OTHERS_SHOWN + 1],
    ]
    for status in FOUND_BY_STATUS:
        since = runs.filter(status=status, pk__gt=run.pk).order_by("status", "pk")
        looks.append(since.values(own=own)[:LOOKED_AT])
    parts = [runs.filter(pk__in=look).values("pk") for look in looks]
    return parts[0].union(*parts[1:])


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
