"""How far a run is, for a project's own pages: a piece of HTML for ``refresh.js``, or JSON."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from .watching import Watched, may_watch, watched

DONE = "X-Durable-Done"
CACHE = "private, no-cache"


@require_safe
def run_fragment(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """What ``{% durable_run_progress %}`` shows, as it is now."""
    if (seen := _seen(request, run_id)) is None:
        return _nothing()
    text = render_to_string("django_durable/run_progress_body.html", {"seen": seen})
    return _answer(request, seen, text, "text/html; charset=utf-8")


@require_safe
def run_json(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """The same for programs: ``id, workflow, status, progress, started_at, finished_at, is_over``."""
    if (seen := _seen(request, run_id)) is None:
        return _nothing()
    return _answer(request, seen, json.dumps(seen.as_json()), "application/json")


def _seen(request: HttpRequest, run_id: UUID) -> Watched | None:
    """The run, if this person may watch it: whether there is one that they may not is nobody's business."""
    seen = watched(run_id)
    user: Any = getattr(request, "user", None)
    return seen if seen and may_watch(user, seen.run, request.GET.get("token", "")) else None


def _nothing() -> HttpResponse:
    return HttpResponseNotFound(headers={"Cache-Control": CACHE})


def _answer(request: HttpRequest, seen: Watched, text: str, content_type: str) -> HttpResponse:
    etag = f'"{sha256(text.encode()).hexdigest()[:32]}"'
    full = HttpResponse(text, content_type=content_type, headers={"ETag": etag})
    # A 304 takes over the ETag; the other headers are for either.
    answer = get_conditional_response(request, etag=etag, response=full)
    response = answer if isinstance(answer, HttpResponse) else full
    response["Cache-Control"] = CACHE
    if seen.is_over:
        response[DONE] = "1"
    return response
