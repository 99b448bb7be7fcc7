"""Which worker had a run, and when."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import DateTimeField, F, IntegerField, OuterRef, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Cast, JSONObject
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from ..core.journal.states import Status
from ..models import ClaimRecord, Run, Worker
from ..store.database import Database
from . import cells
from .permissions import may_look
from .tabs import address_of

CLAIMS_SHOWN = 50
CLAIM = "%claim"
"""Claims are read with the payloads, and are no kind of these."""


@dataclass(slots=True, frozen=True)
class ClaimRow:
    number: int
    worker: str
    since: str
    until: str


@dataclass(slots=True, frozen=True)
class Claims:
    """The latest claims, newest first. ``unknown``: how many more there were, which are too old or were not kept."""

    rows: list[ClaimRow]
    unknown: int


class _Known(NamedTuple):
    worker_id: UUID
    claimed_at: datetime
    lost_at: datetime | None
    host: str | None
    pid: int | None
    version: str | None


def claims_as_text(run: Run) -> QuerySet[Any, Any]:
    """What is known of its claims, with the workers that still are: rows of CLAIM, a text and the claim's number, to be
    read together with other texts of the run."""
    alias = Database().alias
    kept = ClaimRecord.objects.using(alias).filter(run_id=run.pk).order_by()
    first = Run.objects.using(alias).filter(pk=run.pk, started_by__isnull=False).annotate(
        number=Value(1, IntegerField()),
        worker_id=F("started_by"),
        claimed_at=F("started_at"),
        lost_at=Value(None, DateTimeField()),
    )  # fmt: skip
    return _as_text(kept).union(_as_text(first), all=True)


def _as_text(claims: QuerySet[Any]) -> QuerySet[Any, Any]:
    workers = Worker.objects.filter(pk=OuterRef("worker_id"))
    known = {name: Subquery(workers.values(name)) for name in ("host", "pid", "version")}
    row = JSONObject(worker_id="worker_id", claimed_at="claimed_at", lost_at="lost_at", **known)
    texts: QuerySet[Any, Any] = claims.annotate(kind=Value(CLAIM), text=Cast(row, TextField()))
    return texts.values_list("kind", "text", "number")


def claims_of(request: HttpRequest, run: Run, texts: Iterable[tuple[int, str]]) -> Claims:
    """As the page shows them. ``texts``: of ``claims_as_text`` the number and the text of each."""
    known: dict[int, _Known] = {}
    for number, text in texts:
        claim = _read(json.loads(text))
        # The first one stands in the run's row, and beside that once it was lost.
        if number not in known or claim.lost_at:
            known[number] = claim
    rows = [
        ClaimRow(
            number=number,
            worker=_worker(request, known[number]),
            since=cells.moment(known[number].claimed_at),
            until=_until(run, number, known),
        )
        for number in sorted(known, reverse=True)[:CLAIMS_SHOWN]
    ]
    return Claims(rows, max(run.claims - len(rows), 0))


def _read(row: dict[str, Any]) -> _Known:
    return _Known(
        worker_id=UUID(row["worker_id"]),
        claimed_at=instant(row["claimed_at"]),
        lost_at=None if row["lost_at"] is None else instant(row["lost_at"]),
        host=row["host"],
        pid=row["pid"],
        version=row["version"],
    )


def instant(text: str) -> datetime:
    """An instant out of a row that the database wrote as JSON."""
    # In the zone of the connection, or without one: then in UTC.
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _worker(request: HttpRequest, claim: _Known) -> str:
    """Its host and process; those that are long gone are called by the end of their id."""
    if claim.host is None:
        return format_html("<code>{}</code>", cells.short_id(claim.worker_id))
    name = cells.name(f"{claim.host}:{claim.pid}")
    url = address_of(request, "django_durable_worker_change", claim.worker_id)
    if may_look(request, "worker"):
        name = cells.linked(name, url)
    if not claim.version:
        return name
    return format_html('{} <span class="durable-quiet">{}</span>', name, cells.name(claim.version))


def _until(run: Run, number: int, known: dict[int, _Known]) -> str:
    """When it was over at the latest: nobody writes down when a run begins to wait."""
    if known[number].lost_at:
        lost = _("lost: its lease lapsed, or its process died")
        return format_html("{} <span>{}</span>", cells.moment(known[number].lost_at), lost)
    if number + 1 in known:
        return cells.moment(known[number + 1].claimed_at)
    if number < run.claims:
        return cells.NOTHING
    if run.status == Status.RUNNING:
        return str(_("it has the run now"))
    return cells.moment(run.finished_at)
