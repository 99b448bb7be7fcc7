"""A schedule's page: when it fires, what came of it, who turned its switch, what may be done about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from ..client import schedules
from ..core import clock
from ..exceptions import InvalidSchedule
from ..models import Fire, Run, Schedule
from ..store.database import Database
from ..store.scheduling import BACKFILLED, DEBOUNCED, FIRED, MANUAL, MISSED, OVERLAPS
from . import cells
from .journal import Listing, audit_of_schedule
from .payloads import shown_problem
from .permissions import may
from .schedule_form import names_in_code
from .schedule_preview import UPCOMING, Instant, Preview, instants_of, shown_expression, words_of
from .schedule_standing import Standing, pills, runs_by_id, standing_of, told_failures
from .schedule_verbs import FIRE, SWITCH
from .tabs import leads_to, runs_url
from .text import visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

FIRES_SHOWN = 20
OUTCOMES = {
    FIRED: pgettext_lazy("fire", "fired"),
    MANUAL: pgettext_lazy("fire", "manual"),
    BACKFILLED: pgettext_lazy("fire", "backfilled"),
    DEBOUNCED: pgettext_lazy("fire", "debounced"),
    OVERLAPS: pgettext_lazy("fire", "skipped: overlap"),
    MISSED: pgettext_lazy("fire", "skipped: missed"),
}


def context_of(request: HttpRequest, schedule: Schedule) -> dict[str, Any]:
    """All that the page shows, in a bounded number of queries. Its input is not shown: it may be secret."""
    now = clock.utcnow()
    standing = standing_of([schedule], now)[schedule.pk]
    return {
        "schedule": schedule,
        "name": cells.name(schedule.name),
        "pills": pills(schedule, standing),
        "zone": get_current_timezone_name(),
        "why": _why(schedule, standing, now),
        "facts": _facts(request, schedule),
        "preview": _preview(schedule, now),
        "no_instants": _no_instants(schedule),
        "fires": _fires(request, schedule),
        "audit": audit_of_schedule(schedule),
        "buttons": _buttons(request, schedule),
    }


def _why(schedule: Schedule, standing: Standing, now: datetime) -> str:
    parts = [_when(schedule, standing, now)]
    if standing.failures:
        parts.append(told_failures(standing.failures))
    if not schedule.app_label and schedule.name in names_in_code(schedule.workflow):
        parts.append(
            gettext(
                "The code declares a schedule of this name too, which does not fire as long as this one has it: give "
                "this one another name."
            )
        )
    return format_html_join(" ", "{}", ((part,) for part in parts))


def _when(schedule: Schedule, standing: Standing, now: datetime) -> str:
    if schedule.problem:
        return shown_problem(schedule)
    if not schedule.enabled:
        return gettext("It is disabled: it does not fire.")
    if schedule.next_fire_at is None:
        return gettext("A worker is to plan it.")
    due = cells.relative(schedule.next_fire_at, now)
    if standing.is_late:
        return format_html(
            gettext(
                "It is late: it was due {}. A worker that is alive, knows its workflow, and was not started with "
                "--no-loops fires it at once."
            ),
            due,
        )
    if schedule.next_fire_at <= now and schedule.overlap == "queue":
        return format_html(gettext("It was due {} and waits until the run of an earlier instant is over."), due)
    return format_html(gettext("It fires {}."), due)


def _facts(request: HttpRequest, schedule: Schedule) -> list[tuple[StrOrPromise, StrOrPromise]]:
    belongs_to: StrOrPromise = _("the operators")
    if schedule.app_label:
        whose = gettext("the code of {}, and is changed there; removed here, it would come back with the next worker")
        belongs_to = format_html(whose, cells.name(schedule.app_label))
    # There are those too that nobody counts here: of fires before the last ones, and started otherwise.
    runs = runs_url(request, workflow=schedule.workflow) if leads_to(request, "run") else ""
    return [
        (_("Workflow"), cells.linked(cells.name(schedule.workflow), runs)),
        (_("Fires"), shown_expression(schedule.expression)),
        (_("Zone"), cells.name(schedule.timezone)),
        (_("Overlap"), schedule.get_overlap_display()),
        (_("Catch-up"), schedule.get_catch_up_display()),
        (_("Jitter"), f"{number_format(f'{schedule.jitter:g}')} {gettext('s')}"),
        (_("Belongs to"), belongs_to),
        (_("Last"), cells.moment(schedule.last_scheduled_for)),
    ]


# --- the instants to come --------------------------------------------------------------------


def _preview(schedule: Schedule, now: datetime) -> Preview:
    """The instants to come; a schedule that is off or cannot fire has none."""
    return Preview(words_of(schedule.expression), visible(schedule.timezone), _instants(schedule, now))


def _instants(schedule: Schedule, now: datetime) -> Sequence[Instant]:
    if not schedule.enabled:
        return []
    try:
        overdue, following = schedules.upcoming(schedule, UPCOMING, now)
    except InvalidSchedule:  # its ``problem`` says why
        return []
    zone = schedule.timezone
    return [*instants_of(overdue, zone, now, are_overdue=True), *instants_of(following, zone, now)]


def _no_instants(schedule: Schedule) -> str:
    return gettext("None: it cannot fire.") if schedule.enabled else gettext("None: it is disabled.")


# --- the instants that are past --------------------------------------------------------------


def _fires(request: HttpRequest, schedule: Schedule) -> Listing:
    latest = Fire.objects.using(Database().alias).filter(schedule_id=schedule.pk).order_by("-scheduled_for")
    found = list(latest[: FIRES_SHOWN + 1])
    runs = runs_by_id(fire.run_id for fire in found[:FIRES_SHOWN] if fire.run_id)
    may_see = leads_to(request, "run")
    return Listing.of((_fire(fire, runs, may_see=may_see) for fire in found), FIRES_SHOWN)


def _fire(fire: Fire, runs: dict[UUID, Run], *, may_see: bool) -> dict[str, Any]:
    run = runs.get(fire.run_id) if fire.run_id else None
    return {
        "scheduled_for": cells.moment(fire.scheduled_for),
        "fired_at": cells.moment(fire.fired_at),
        "outcome": OUTCOMES.get(fire.outcome) or visible(fire.outcome),
        "run_id": fire.run_id,
        "run": cells.short_id(fire.run_id),
        "pills": cells.run_pills(run) if run else "",
        "is_linked": run is not None and may_see,
    }


def _buttons(request: HttpRequest, schedule: Schedule) -> list[dict[str, Any]]:
    """The verbs that fit this schedule and that this person may use."""
    offers = [
        ("fire", _("Fire now"), FIRE, True),
        ("backfill", _("Backfill"), FIRE, not schedule.problem),
        ("edit", _("Edit"), SWITCH, not schedule.app_label),
        ("enable", _("Enable"), SWITCH, not schedule.enabled or bool(schedule.problem)),
        ("disable", _("Disable"), SWITCH, schedule.enabled),
        ("remove", _("Remove"), SWITCH, not schedule.app_label),
    ]
    return [
        {"url": f"admin:django_durable_schedule_{verb}", "label": label, "verb": verb}
        for verb, label, permission, fits in offers
        if fits and may(request, permission)
    ]
