"""When an expression fires: in words, and the next instants. Of a schedule, or of one that somebody is typing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext as _

from ..core import clock
from ..core.schedules.cron import EXPRESSION_MAX, Cron
from ..core.schedules.zones import load_zone
from ..exceptions import InvalidSchedule
from . import cells
from .cron_words import in_words
from .errors import translated
from .fragments import fragment
from .permissions import may
from .text import cut, visible

UPCOMING = 5
ZONE_MAX = 64
TEMPLATE = "admin/django_durable/schedule/preview.html"


@dataclass(frozen=True, slots=True)
class Instant:
    """One that fires: by the clocks of its zone, in UTC, how far away."""

    local: str
    utc: str
    distance: str
    is_overdue: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    words: str = ""
    zone: str = ""
    instants: Sequence[Instant] = field(default_factory=list)
    complaint: str = ""

    @property
    def is_utc(self) -> bool:
        """Whether UTC would tell the same once more."""
        return self.zone in ("UTC", "Etc/UTC")


def preview(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """The fragment that a form shows while somebody types."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    may_type = may(request, "add_schedule") or may(request, "change_schedule")
    if not model_admin.has_view_permission(request) or not may_type:
        raise PermissionDenied
    shown = preview_of(request.GET.get("expression", ""), request.GET.get("timezone", ""))
    return fragment(request, TEMPLATE, {"preview": shown})


def preview_of(expression: str, timezone: str) -> Preview:
    """Of what somebody has typed; nothing of nothing."""
    if not expression.strip():
        return Preview()
    now = clock.utcnow()
    try:
        fires = Cron(expression[: EXPRESSION_MAX + 1], timezone[: ZONE_MAX + 1] or "UTC").next(UPCOMING, now)
    except InvalidSchedule as error:
        return Preview(complaint=visible(translated(error.reason)))
    return Preview(words_of(expression), visible(timezone), instants_of(fires, timezone or "UTC", now))


def words_of(expression: str) -> str:
    return in_words(expression) or _("as the expression says")


def instants_of(fires: Iterable[datetime], timezone: str, now: datetime, *, are_overdue: bool = False) -> list[Instant]:
    """``timezone`` is known."""
    zone = load_zone(timezone)
    return [_instant(fire, zone, now, are_overdue) for fire in fires]


def _instant(fire: datetime, zone: ZoneInfo, now: datetime, is_overdue: bool) -> Instant:
    local = fire.astimezone(zone)
    shown = f"{date_format(local, 'D')} {local:%Y-%m-%d %H:%M:%S} {local:%Z}"
    return Instant(
        local=format_html('<time datetime="{}">{}</time>', local.isoformat(), shown),
        utc=f"{fire.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
        distance=cells.relative(fire, now),
        is_overdue=is_overdue,
    )


def shown_expression(expression: str, timezone: str = "") -> str:
    """In words where there are any, and as it is written; with its zone where one is given."""
    words, code = in_words(expression), format_html("<code>{}</code>", visible(cut(expression, EXPRESSION_MAX)))
    zone = format_html(' <span class="durable-quiet">{}</span>', cells.name(timezone)) if timezone else ""
    return format_html('<span class="durable-cron">{} {}{}</span>', words, code, zone)
