"""A whole value of a run, which its page has cut: as plain text, which no browser takes for anything else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.html import format_html

from ..client.redacting import Withheld
from ..core.journal.states import PayloadKind
from ..models import Event, JournalEntry, Payload, Run
from ..store.database import Database
from .payloads import whole
from .permissions import may
from .tabs import address_of
from .text import visible

PIECE = 65_536
OF_RUN = (PayloadKind.INPUT, PayloadKind.OUTPUT, PayloadKind.ERROR, PayloadKind.RETRY, PayloadKind.NOTES)
ERRORS = (PayloadKind.ERROR, PayloadKind.RETRY)
"""Both are an ``error`` to who redacts them."""


class Addresses:
    """Those of a run's whole values; none for who may not view payloads. And of the pages of other runs."""

    def __init__(self, request: HttpRequest, run: Run, *, may_see: bool) -> None:
        self._request = request
        self._base = address_of(request, "django_durable_run_value", run.pk) if may_see else ""

    def of(self, kind: str, **where: str | int) -> str:
        return f"{self._base}?{urlencode({'of': kind, **where})}" if self._base else ""

    def of_run(self, run_id: UUID) -> str:
        return address_of(self._request, "django_durable_run_change", run_id)

    def link_to(self, run_id: UUID) -> str:
        """To a run that may be gone by now."""
        return format_html('<a href="{}"><code>{}</code></a>', self.of_run(run_id), run_id)


def value(model_admin: Any, request: HttpRequest, run_id: UUID) -> HttpResponseBase:
    """``of`` is a kind of payload; or ``value``, ``failure`` of the entry at ``path``; or ``event`` with its ``id``."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not model_admin.has_view_permission(request) or not may(request, "view_payload"):
        raise PermissionDenied
    run: Run | None = model_admin.get_queryset(request).filter(pk=run_id).first()
    found = None if run is None else _stored(run, request)
    if run is None or found is None:
        raise Http404
    kind, text = found
    try:
        text = whole(run, kind, text)
    except Withheld as refusal:
        return _plain(HttpResponse(str(refusal), status=403), request, run)
    pieces = _in_pieces_async(text) if hasattr(request, "scope") else _in_pieces(text)
    return _plain(StreamingHttpResponse(pieces), request, run)


def _stored(run: Run, request: HttpRequest) -> tuple[str, str] | None:
    """What is asked for as it is stored, and as what it is redacted."""
    of, alias = request.GET.get("of", ""), Database().alias
    found: str | None
    if of in OF_RUN:
        found = Payload.objects.using(alias).filter(run_id=run.pk, kind=of).values_list("data", flat=True).first()
        of = PayloadKind.ERROR if of in ERRORS else of
    elif of in ("value", "failure"):
        column = "error" if of == "failure" else "value"
        # No path holds a NUL, which PostgreSQL refuses in a comparison.
        path = request.GET.get("path", "").replace("\x00", "")
        entries = JournalEntry.objects.using(alias).filter(run_id=run.pk, path=path)
        found, of = entries.values_list(column, flat=True).first(), column
    elif of == "event" and (number := request.GET.get("id", "")).isdecimal() and len(number) < 19:
        events = Event.objects.using(alias).filter(run_id=run.pk, pk=int(number))
        found = events.values_list("payload", flat=True).first()
    else:
        return None
    return None if found is None else (str(of), found)


def _in_pieces(text: str) -> Iterator[str]:
    return (visible(text[start : start + PIECE]) for start in range(0, len(text), PIECE))


async def _in_pieces_async(text: str) -> AsyncIterator[str]:
    for piece in _in_pieces(text):
        yield piece


def _plain(response: HttpResponseBase, request: HttpRequest, run: Run) -> HttpResponseBase:
    response["Content-Type"] = "text/plain; charset=utf-8"
    response["X-Content-Type-Options"] = "nosniff"
    how = "attachment" if "download" in request.GET else "inline"
    response["Content-Disposition"] = f'{how}; filename="{run.pk}.txt"'
    return response
