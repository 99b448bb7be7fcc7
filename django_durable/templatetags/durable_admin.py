"""What our templates in the admin share: some draw pages of Django's, for which no view of ours makes the context."""

from __future__ import annotations

from typing import Any

from django import template
from django.template import RequestContext

from ..admin import overview
from ..admin.tabs import tabs_for

register = template.Library()


@register.inclusion_tag("admin/django_durable/tabs.html", takes_context=True)
def durable_tabs(context: RequestContext, current: str) -> dict[str, Any]:
    """The tabs; ``current`` is the name of the one that the page belongs to."""
    return {"tabs": tabs_for(context.request, current)}


@register.inclusion_tag("admin/django_durable/overview/body.html", takes_context=True)
def durable_overview(context: RequestContext) -> dict[str, Any]:
    """The whole overview, for those who may look at runs; for others nothing."""
    return overview.context_of(context.request)
