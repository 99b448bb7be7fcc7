"""Taking a schedule away: one of the operators' only."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from ..exceptions import ScheduleLocked
from ..models import Schedule
from . import schedule_verbs
from .errors import told
from .forms import ReasonForm
from .schedule_steering import ask_about, schedule_of
from .schedule_verbs import SWITCH
from .tabs import address_of
from .text import visible


def remove(model_admin: Any, request: HttpRequest, schedule_id: int) -> HttpResponse:
    """The question, and the list without it."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    the_list = HttpResponseRedirect(address_of(request, "django_durable_schedule_changelist"))
    try:
        schedule = schedule_of(model_admin, request, schedule_id, SWITCH)
    except Http404:
        # As after the second of two clicks.
        model_admin.message_user(request, _("It is gone."), messages.WARNING)
        return the_list
    if schedule.app_label:
        # The next worker would bring it back.
        raise PermissionDenied
    form = ReasonForm(request.POST if "confirmed" in request.POST else None)
    if form.is_valid() and _remove(form, model_admin, request, schedule):
        return the_list
    consequence = _(
        "It fires no more, also what is due by now, and cannot be brought back. Runs that it has started stay and go "
        "on; which instants they were started for is forgotten."
    )
    return ask_about(model_admin, request, [schedule], form, _("Remove this schedule?"), consequence, _("Yes, do it"))


def _remove(form: Form, model_admin: Any, request: HttpRequest, schedule: Schedule) -> bool:
    """Whether it is gone, by this answer or another."""
    try:
        schedule_verbs.remove(schedule, user=request.user, reason=form.cleaned_data["reason"])  # type: ignore[arg-type]
    except ScheduleLocked as error:
        form.add_error(None, told(error))
        return False
    except Schedule.DoesNotExist:
        model_admin.message_user(request, _("It is gone."), messages.WARNING)
        return True
    model_admin.message_user(request, _("The schedule %s was removed.") % visible(str(schedule)), messages.SUCCESS)
    return True
