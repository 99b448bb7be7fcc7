"""``{% load django_durable %}``: runs on a project's own pages. The admin's templates load ``durable_admin``."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import template
from django.template import Context
from django.urls import NoReverseMatch, reverse

from ..watching import token_for, watched

register = template.Library()


@register.inclusion_tag("django_durable/run_progress.html", takes_context=True)
def durable_run_progress(context: Context, run: Any, every: int = 5) -> dict[str, Any]:
    """Status and progress of the run (a handle, a ``Run`` or an id), asked for anew each ``every`` seconds by
    ``refresh.js`` until it is over, where the project has our urls. Nothing where there is no such run.

    Who may see the page may see this: the page has decided that.
    """
    run_id = _id_of(run)
    seen = watched(run_id) if run_id else None
    url = _url(context, "run_fragment", run_id) if seen and run_id and not seen.is_over else ""
    return {"seen": seen, "url": url, "every": every}


@register.simple_tag(takes_context=True)
def durable_run_json(context: Context, run: Any) -> str:
    """The address of the run's JSON for whom the page is made; nothing without our urls."""
    run_id = _id_of(run)
    return _url(context, "run_json", run_id) if run_id else ""


@register.inclusion_tag("admin/django_durable/object_panel.html", takes_context=True)
def durable_object_runs(context: Context, row: Any) -> dict[str, Any]:
    """The newest runs of a row of the project's, as ``RunsInline`` has them, for other pages of the admin. Nothing for
    those who may not look at runs (``view_run``).

    The page links ``django_durable/admin.css`` and ``django_durable/object_runs.css``.
    """
    # Not with the module: a project without the admin loads these tags too.
    from ..admin.object_runs import panel_for

    request = context.get("request")
    return panel_for(request, row) if request is not None else {}


def _id_of(run: Any) -> UUID | None:
    value = getattr(run, "id", run)
    try:
        return value if isinstance(value, UUID) else UUID(str(value))
    except ValueError:
        return None


def _url(context: Context, name: str, run_id: UUID) -> str:
    request = getattr(context, "request", None) or context.get("request")
    if request is None:
        # For whom? A token for nobody in particular would be one for everybody.
        return ""
    try:
        url = reverse(f"django_durable:{name}", args=[run_id])
    except NoReverseMatch:
        return ""
    token = token_for(getattr(request, "user", None), run_id)
    return f"{url}?{urlencode({'token': token})}" if token else url
