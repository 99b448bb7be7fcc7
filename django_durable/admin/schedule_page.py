"""A schedule's page: when it fires, what came of it, who turned its switch, what may be done about it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext_lazy as _

from ..client import schedules
from ..core import clock
from ..exceptions import InvalidSchedule
from ..models import Fire, Schedule
from ..store.database import Database
from . import cells
from .journal import Listing, audit_of_schedule
from .permissions import may
from .schedule_verbs import FIRE, SWITCH
from .text import visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

UPCOMING = 5
FIRES_SHOWN = 20


def context_of(request: HttpRequest, schedule: Schedule) -> dict[str, Any]:
    """All that the page shows, in a bounded number of queries. Its input is not shown: it may be secret."""
    return {
        "schedule": schedule,
        "name": cells.name(schedule.name),
        "pill": cells.switch_pill(schedule),
        "zone": get_current_timezone_name(),
        "why": _why(schedule),
        "facts": _facts(schedule),
        "upcoming": [cells.moment(instant) for instant in _upcoming(schedule)],
        "fires": _fires(schedule),
        "audit": audit_of_schedule(schedule),
        "buttons": _buttons(request, schedule),
    }


def _why(schedule: Schedule) -> str:
    if schedule.problem:
        return visible(schedule.problem)
    if not schedule.enabled:
        return str(_("It is disabled: it does not fire."))
    if schedule.next_fire_at is None:
        return str(_("A worker is to plan it."))
    return format_html("{} {}.", _("It fires"), cells.relative(schedule.next_fire_at, clock.utcnow()))


def _facts(schedule: Schedule) -> list[tuple[StrOrPromise, StrOrPromise]]:
    belongs_to = cells.name(schedule.app_label) if schedule.app_label else _("the operators")
    return [
        (_("Workflow"), cells.name(schedule.workflow)),
        (_("Expression"), format_html("<code>{}</code>", visible(schedule.expression))),
        (_("Zone"), cells.name(schedule.timezone)),
        (_("Overlap"), schedule.get_overlap_display()),
        (_("Catch-up"), schedule.get_catch_up_display()),
        (_("Jitter"), f"{schedule.jitter:g} s"),
        (_("Belongs to"), belongs_to),
        (_("Last"), cells.moment(schedule.last_scheduled_for)),
    ]


def _upcoming(schedule: Schedule) -> list[datetime]:
    """The instants to come; a schedule that is off or cannot fire has none."""
    try:
        return schedules.next_fires(schedule, UPCOMING) if schedule.enabled else []
    except InvalidSchedule:  # its ``problem`` says why
        return []


def _fires(schedule: Schedule) -> Listing:
    found = Fire.objects.using(Database().alias).filter(schedule_id=schedule.pk).order_by("-scheduled_for")
    return Listing.of((_fire(fire) for fire in found[: FIRES_SHOWN + 1]), FIRES_SHOWN)


def _fire(fire: Fire) -> dict[str, Any]:
    return {
        "scheduled_for": cells.moment(fire.scheduled_for),
        "fired_at": cells.moment(fire.fired_at),
        "outcome": visible(fire.outcome),
        "run_id": fire.run_id,
        "run": cells.short_id(fire.run_id),
    }


def _buttons(request: HttpRequest, schedule: Schedule) -> list[dict[str, Any]]:
    """The verbs that fit this schedule and that this person may use."""
    offers = [
        ("fire", _("Fire now"), FIRE, True),
        ("backfill", _("Backfill"), FIRE, not schedule.problem),
        ("enable", _("Enable"), SWITCH, not schedule.enabled or bool(schedule.problem)),
        ("disable", _("Disable"), SWITCH, schedule.enabled),
    ]
    return [
        {"url": f"admin:django_durable_schedule_{verb}", "label": label, "verb": verb}
        for verb, label, permission, fits in offers
        if fits and may(request, permission)
    ]
