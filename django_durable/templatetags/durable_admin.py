"""What our templates in the admin share: some draw pages of Django's, for which no view of ours makes the context.

Django's checks import the tags of every app, in projects without the admin too: so these import it when they are used.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.template import RequestContext

register = template.Library()


@register.inclusion_tag("admin/django_durable/tabs.html", takes_context=True)
def durable_tabs(context: RequestContext, current: str) -> dict[str, Any]:
    """The tabs; ``current`` is the name of the one that the page belongs to."""
    from ..admin.tabs import tabs_for

    return {"tabs": tabs_for(context.request, current)}


@register.inclusion_tag("admin/django_durable/overview/body.html", takes_context=True)
def durable_overview(context: RequestContext) -> dict[str, Any]:
    """The whole overview, for those who may look at runs; for others nothing."""
    from ..admin import overview

    return overview.context_of(context.request)
