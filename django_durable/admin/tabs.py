"""The tabs that lead from one page of ours to the others: of those that this site has and this person may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy as _

from .permissions import may_look

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TABS: list[tuple[str, str, StrOrPromise, str]] = [
    ("overview", "run", _("Overview"), "django_durable_overview"),
    ("run", "run", _("Runs"), "django_durable_run_changelist"),
    ("schedule", "schedule", _("Schedules"), "django_durable_schedule_changelist"),
    ("workflows", "run", _("Workflows"), "django_durable_workflows"),
    ("worker", "worker", _("Workers"), "django_durable_worker_changelist"),
]
"""Name, the model that one has to be allowed to look at, label, address."""


def tabs_for(request: HttpRequest, current: str) -> list[dict[str, Any]]:
    return [
        {"url": url, "label": label, "is_current": name == current}
        for name, model, label, address in TABS
        if may_look(request, model) and (url := address_of(request, address))
    ]


def address_of(request: HttpRequest, name: str, *arguments: object) -> str:
    """The address of a page in the site that the request is for; nothing where it has none."""
    site = getattr(request, "current_app", None) or (request.resolver_match and request.resolver_match.namespace)
    try:
        return reverse(f"admin:{name}", args=arguments, current_app=site or None)
    except NoReverseMatch:
        return ""


def leads_to(request: HttpRequest, model: str) -> bool:
    """Whether this site has pages of this model of ours, and the user may look at them."""
    return bool(address_of(request, f"django_durable_{model}_changelist")) and may_look(request, model)


def runs_url(request: HttpRequest, **filters: str) -> str:
    """The list of runs, of those that meet the filters."""
    query = urlencode(filters)
    return address_of(request, "django_durable_run_changelist") + (f"?{query}" if query else "")
