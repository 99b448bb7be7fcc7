"""Making a schedule, and changing one: those of the operators' only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.utils import IntegrityError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext_lazy as _

from ..exceptions import ScheduleLocked
from ..models import Schedule
from . import schedule_verbs
from .confirming import page
from .errors import told
from .permissions import may
from .schedule_form import COLUMNS, NewScheduleForm, OldScheduleForm, ScheduleForm
from .schedule_preview import preview_of
from .schedule_steering import schedule_of, schedule_url
from .schedule_verbs import ADD, SWITCH, ScheduleChanged, state_of
from .tabs import address_of
from .text import visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TEMPLATE = "admin/django_durable/schedule/edit.html"


def add(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """The form of a new schedule, and the schedule."""
    form = NewScheduleForm(request.POST if request.method == "POST" else None)
    if _is_final(request) and form.is_valid():
        schedule = Schedule(**form.columns)
        if _save(form, model_admin, request, schedule, {}):
            return HttpResponseRedirect(schedule_url(model_admin, schedule))
    back = address_of(request, "django_durable_schedule_changelist")
    return _page(model_admin, request, form, _("New schedule"), _("Create it"), back)


def edit(model_admin: Any, request: HttpRequest, schedule_id: int) -> HttpResponse:
    """The form of a schedule as it is, and its change."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    schedule = schedule_of(model_admin, request, schedule_id, SWITCH)
    if schedule.app_label:
        raise PermissionDenied
    is_answer = "confirmed" in request.POST
    form = _form(request, schedule, request.POST if is_answer else None)
    url = schedule_url(model_admin, schedule)
    if is_answer and _is_final(request) and form.is_valid():
        try:
            if _save(form, model_admin, request, schedule, form.initial):
                return HttpResponseRedirect(url)
        except ScheduleChanged as changed:
            form = _again(request, changed.row)
    return _page(model_admin, request, form, _("Change a schedule"), _("Save"), url, schedule)


def _form(request: HttpRequest, schedule: Schedule, data: QueryDict | None) -> OldScheduleForm:
    stands = {**{name: getattr(schedule, name) for name in COLUMNS}, "seen": state_of(schedule)}
    return OldScheduleForm(data, initial=stands, workflow=schedule.workflow, may_start=may(request, ADD))


def _again(request: HttpRequest, schedule: Schedule) -> OldScheduleForm:
    """What was entered, with what another person has made of the schedule meanwhile: to be saved by who knows of it."""
    data = request.POST.copy()
    data["seen"] = state_of(schedule)
    form = _form(request, schedule, data)
    other = [f"{form[name].label}: {_shown(schedule, name)}" for name in COLUMNS if name in form.changed_data]
    text = _("Somebody has changed this schedule since you opened it. Saved again, what stands here takes its place.")
    now = _("It is now otherwise in this: %s.") % "; ".join(other) if other else ""
    form.add_error(None, f"{text} {now}".rstrip())
    return form


def _shown(schedule: Schedule, name: str) -> str:
    """A column as the form has it: a choice by its label."""
    label = getattr(schedule, f"get_{name}_display", None)
    return visible(str(label() if label else getattr(schedule, name)))


def _is_final(request: HttpRequest) -> bool:
    """Not asked for by the button that shows what the form would come to."""
    return request.method == "POST" and "look" not in request.POST


def _save(
    form: ScheduleForm, model_admin: Any, request: HttpRequest, schedule: Schedule, stands: Mapping[str, Any]
) -> bool:
    by: dict[str, Any] = {"user": request.user, "reason": form.cleaned_data["reason"]}
    try:
        if stands:
            schedule_verbs.change(schedule, form.columns, seen=form.cleaned_data["seen"], **by)
        else:
            schedule_verbs.create(schedule, **by)
    except IntegrityError:
        form.add_error("name", _("This workflow has another schedule of that name."))
        return False
    except (Schedule.DoesNotExist, ScheduleLocked) as error:
        form.add_error(None, told(error) or _("It is gone."))
        return False
    text = _("The schedule was changed.") if stands else _("The schedule was created.")
    model_admin.message_user(request, text, messages.SUCCESS)
    return True


def _page(
    model_admin: Any,
    request: HttpRequest,
    form: ScheduleForm,
    title: StrOrPromise,
    submit: StrOrPromise,
    back: str,
    schedule: Schedule | None = None,
) -> HttpResponse:
    expression, timezone = (str(form[name].value() or "") for name in ("expression", "timezone"))
    context = {
        "form": form,
        "subject": visible(str(schedule)) if schedule else "",
        "submit": submit,
        "back": back,
        "preview": preview_of(expression, timezone),
        "zones": _zones(),
    }
    return page(model_admin, request, TEMPLATE, title, context)


@lru_cache(maxsize=1)
def _zones() -> list[str]:
    """Of the world's parts; the others are old names of these."""
    return [
        "UTC",
        *sorted(key for key in available_timezones() if "/" in key and not key.startswith(("Etc/", "SystemV"))),
    ]
