"""The buttons of a schedule's page and the list's actions: each confirmed on a page of its own, each with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db import Error
from django.db.models import QuerySet
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from ..client import schedules
from ..exceptions import ScheduleLocked
from ..models import Audit, Schedule
from ..store.database import Database
from ..store.locking_schedules import brief_schedule_lock
from . import cells, schedule_verbs
from .confirming import page
from .errors import told
from .forms import BackfillForm, OnceForm, ReasonForm
from .once import made_since
from .payloads import shown_problem, shown_refusal
from .permissions import may
from .schedule_verbs import DISABLE, ENABLE, FIRE, SWITCH, SWITCHED_MOST, Switch
from .steering import run_url
from .tabs import leads_to
from .text import visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

T = TypeVar("T")
FORM = "admin/django_durable/schedule/form.html"
BACKFILL = "admin/django_durable/schedule/backfill.html"


@admin.action(permissions=[SWITCH], description=_("Enable selected %(verbose_name_plural)s"))
def enable_selected(model_admin: Any, request: HttpRequest, selected: QuerySet[Schedule]) -> HttpResponse | None:
    return _act(ENABLE, "enable_selected", model_admin, request, selected)


@admin.action(permissions=[SWITCH], description=_("Disable selected %(verbose_name_plural)s"))
def disable_selected(model_admin: Any, request: HttpRequest, selected: QuerySet[Schedule]) -> HttpResponse | None:
    return _act(DISABLE, "disable_selected", model_admin, request, selected)


def _act(
    switch: Switch, action: str, model_admin: Any, request: HttpRequest, selected: QuerySet[Schedule]
) -> HttpResponse | None:
    eligible = list(selected.filter(switch.eligible).order_by("pk"))
    found = eligible[:SWITCHED_MOST]
    hidden = [("action", action), *((ACTION_CHECKBOX_NAME, str(schedule.pk)) for schedule in found)]
    more = {"left_out": selected.count() - len(eligible), "is_cut": len(eligible) > len(found)}
    return _switch(switch, model_admin, request, found, hidden=hidden, back=request.get_full_path(), **more)


# --- the buttons -----------------------------------------------------------------------------


def enable(model_admin: Any, request: HttpRequest, schedule_id: int) -> HttpResponse:
    return _turn(ENABLE, model_admin, request, schedule_id)


def disable(model_admin: Any, request: HttpRequest, schedule_id: int) -> HttpResponse:
    return _turn(DISABLE, model_admin, request, schedule_id)


def fire(model_admin: Any, request: HttpRequest, schedule_id: int) -> HttpResponse:
    """The question, and the fire, whose run's page comes next."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    schedule = schedule_of(model_admin, request, schedule_id, FIRE)
    form = OnceForm(request.POST if "confirmed" in request.POST else None)
    if form.is_valid() and (url := _fire(form, model_admin, request, schedule)):
        return HttpResponseRedirect(url)
    consequence = _(
        "A run starts at once, whether the schedule is enabled or not, and beside a run that is live. "
        "The instants that are planned stay."
    )
    return ask_about(model_admin, request, [schedule], form, _("Fire this schedule now?"), consequence, _("Yes, do it"))


def backfill(model_admin: Any, request: HttpRequest, schedule_id: int) -> HttpResponse:
    """The form that asks for a window, what it would start, and its runs: no more than were told."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    schedule = schedule_of(model_admin, request, schedule_id, FIRE)
    form = BackfillForm(request.POST if "confirmed" in request.POST else None)
    counted: dict[str, Any] = {}
    if form.is_valid():
        most = _told(form, request.POST.get("counted", ""))
        if most and _backfill(form, most, model_admin, request, schedule):
            return HttpResponseRedirect(schedule_url(model_admin, schedule))
        if not most:
            counted = _count(form, schedule)
    text = _(
        "A run starts for each due instant of the window that has started none, all of them at once and side by side, "
        "the oldest first. Times are in %s."
    )
    consequence = text % get_current_timezone_name()
    more = {"submit": _("Count the runs"), "template": BACKFILL, **counted}
    return ask_about(model_admin, request, [schedule], form, _("Fill a window that is past"), consequence, **more)


def _count(form: Form, schedule: Schedule) -> dict[str, Any]:
    """What the window would start, and the button that does so."""
    data = form.cleaned_data
    window = data["since"], data["until"], data["limit"]
    found = _unless_refused(form, lambda: schedules.missing(schedule, *window))
    if found is None:
        return {}
    count = len(found.instants)
    counted: dict[str, Any] = {"missing": count, "is_cut": not found.is_complete}
    if count:
        label = ngettext("Start %(count)d run", "Start %(count)d runs", count) % {"count": count}
        ends = {"first": cells.moment(found.instants[0]), "last": cells.moment(found.instants[-1])}
        counted |= ends | {"submit": label, "hidden": [("counted", f"{_window(form)} {count}")]}
    return counted


def _told(form: Form, counted: str) -> int:
    """How many runs the page has said that this window would start; 0 where it has said nothing of it."""
    window, _blank, count = counted.rpartition(" ")
    if window != _window(form) or not count.isdecimal():
        return 0
    return min(int(count[:9]), int(form.cleaned_data["limit"]))


def _window(form: Form) -> str:
    data = form.cleaned_data
    return f"{data['since'].isoformat()} {data['until'].isoformat()} {data['limit']}"


def _turn(switch: Switch, model_admin: Any, request: HttpRequest, schedule_id: int) -> HttpResponse:
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    schedule = schedule_of(model_admin, request, schedule_id, SWITCH)
    back = schedule_url(model_admin, schedule)
    found = Schedule.objects.using(schedule._state.db).filter(switch.eligible, pk=schedule.pk)
    return _switch(switch, model_admin, request, list(found), hidden=[], back=back) or HttpResponseRedirect(back)


def _switch(
    switch: Switch,
    model_admin: Any,
    request: HttpRequest,
    found: Sequence[Schedule],
    *,
    hidden: Iterable[tuple[str, str]],
    back: str,
    **more: Any,
) -> HttpResponse | None:
    """The question about these schedules; None when it was answered, or there is nothing to ask."""
    form = ReasonForm(request.POST if "confirmed" in request.POST else None)
    if found and not form.is_valid():
        title = switch.question % {"count": len(found)}
        more |= {"hidden": hidden, "back": back}
        return ask_about(model_admin, request, found, form, title, switch.consequence, _("Yes, do it"), **more)
    try:
        ids = [schedule.pk for schedule in found]
        done = switch.perform(ids, user=request.user, reason=form.cleaned_data["reason"]) if ids else []  # type: ignore[arg-type]
    except ScheduleLocked as error:
        model_admin.message_user(request, told(error), messages.ERROR)
        return None
    level = messages.SUCCESS if done else messages.WARNING
    model_admin.message_user(request, switch.done % {"count": len(done)}, level)
    for schedule in done:
        if schedule.problem:
            model_admin.message_user(request, f"{visible(str(schedule))}: {shown_problem(schedule)}", messages.WARNING)
    return None


def _fire(form: Form, model_admin: Any, request: HttpRequest, schedule: Schedule) -> str:
    """Where to look at what came of it; empty where it was refused, and the form says why."""
    data, user = form.cleaned_data, request.user
    fires = Audit.objects.filter(run=None, workflow=schedule.workflow, schedule=schedule.name, verb="fire")

    def fired() -> UUID:
        with brief_schedule_lock(Database(), Schedule.objects.filter(pk=schedule.pk)):
            made = made_since(data["asked_after"], user, fires, "run {}")  # type: ignore[arg-type]
            return made or schedule_verbs.fire(schedule, user=user, reason=data["reason"])  # type: ignore[arg-type]

    if (run_id := _unless_refused(form, fired)) is None:
        return ""
    model_admin.message_user(request, _("Run %s was started.") % run_id, messages.SUCCESS)
    return run_url(model_admin, run_id) if leads_to(request, "run") else schedule_url(model_admin, schedule)


def _backfill(form: Form, most: int, model_admin: Any, request: HttpRequest, schedule: Schedule) -> bool:
    data = form.cleaned_data
    window = data["since"], data["until"], most
    told_as: dict[str, Any] = {"user": request.user, "reason": data["reason"]}
    done = _unless_refused(form, lambda: schedule_verbs.backfill(schedule, *window, **told_as))
    if done is None:
        return False
    count = len(done.run_ids)
    text = ngettext("%(count)d run was started.", "%(count)d runs were started.", count) % {"count": count}
    rest = "" if done.is_complete else f" {_('There are more: the same window again goes on.')}"
    model_admin.message_user(request, f"{text}{rest}", messages.SUCCESS if count else messages.WARNING)
    return True


# --- what they share -------------------------------------------------------------------------


def _unless_refused(form: Form, act: Callable[[], T]) -> T | None:
    """What it returns. None where nothing of it was done, and the form says why: also what the project's
    ``concurrency_key`` raised."""
    try:
        return act()
    except Schedule.DoesNotExist:
        form.add_error(None, _("It is gone."))
    except Error:
        raise
    except Exception as error:
        form.add_error(None, shown_refusal(error))
    return None


def schedule_url(model_admin: Any, schedule: Schedule) -> str:
    site = model_admin.admin_site.name
    return reverse("admin:django_durable_schedule_change", args=[schedule.pk], current_app=site)


def schedule_of(model_admin: Any, request: HttpRequest, schedule_id: int, permission: str) -> Schedule:
    """The one that somebody with the permission means. Raises PermissionDenied, Http404."""
    if not model_admin.has_view_permission(request) or not may(request, permission):
        raise PermissionDenied
    schedule: Schedule | None = model_admin.get_queryset(request).filter(pk=schedule_id).first()
    if schedule is None:
        raise Http404
    return schedule


def ask_about(
    model_admin: Any,
    request: HttpRequest,
    found: Sequence[Schedule],
    form: Form,
    title: StrOrPromise,
    consequence: StrOrPromise,
    submit: StrOrPromise,
    *,
    template: str = FORM,
    **more: Any,
) -> HttpResponse:
    """The page that asks whether it is to be done to these."""
    context = {
        "schedules": [_named(model_admin, schedule) for schedule in found],
        "count": len(found),
        "form": form,
        "consequence": consequence,
        "submit": submit,
        "back": schedule_url(model_admin, found[0]),
        **more,
    }
    return page(model_admin, request, template, title, context)


def _named(model_admin: Any, schedule: Schedule) -> dict[str, Any]:
    """A schedule as a line that links to its page."""
    return {
        "url": schedule_url(model_admin, schedule),
        "pill": cells.switch_pill(schedule),
        "name": cells.name(schedule.name),
        "workflow": cells.name(schedule.workflow),
    }
