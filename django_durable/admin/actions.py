"""The list's actions: asked for a selection, confirmed on a page of their own, done to exactly what that page named."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_lazy as _

from ..models import Run
from . import exports, sweeping
from .confirming import Asked, Question, ask
from .exports import EXPORT
from .forms import ACTION_MOST, SelectionForm, SweepForm
from .once import once
from .verbs import CANCEL, PAUSE, RERUN, RESUME, RunVerb, carry_out, eligible

SHOWN = ("workflow", "status", "phase", "cancel_requested_at", "pause_requested_at")


@admin.action(permissions=[CANCEL.permission], description=_("Cancel selected %(verbose_name_plural)s"))
def cancel_selected(model_admin: Any, request: HttpRequest, runs: QuerySet[Run]) -> HttpResponse | None:
    return _act(CANCEL, "cancel_selected", model_admin, request, runs)


@admin.action(permissions=[PAUSE.permission], description=_("Pause selected %(verbose_name_plural)s"))
def pause_selected(model_admin: Any, request: HttpRequest, runs: QuerySet[Run]) -> HttpResponse | None:
    return _act(PAUSE, "pause_selected", model_admin, request, runs)


@admin.action(permissions=[RESUME.permission], description=_("Resume selected %(verbose_name_plural)s"))
def resume_selected(model_admin: Any, request: HttpRequest, runs: QuerySet[Run]) -> HttpResponse | None:
    return _act(RESUME, "resume_selected", model_admin, request, runs)


@admin.action(permissions=[RERUN.permission], description=_("Run selected %(verbose_name_plural)s again"))
def rerun_selected(model_admin: Any, request: HttpRequest, runs: QuerySet[Run]) -> HttpResponse | None:
    return _act(RERUN, "rerun_selected", model_admin, request, runs)


@admin.action(permissions=["view"], description=_("Export selected %(verbose_name_plural)s"))
def export_selected(model_admin: Any, request: HttpRequest, runs: QuerySet[Run]) -> HttpResponseBase | None:
    action = "export_selected"
    if "confirmed" not in request.POST:
        return _first(EXPORT, action, model_admin, request, runs)
    if "upto" in request.POST:
        sweep = SweepForm(request.POST)
        if sweep.is_valid():
            return exports.everything(sweep, model_admin, request)
        return sweeping.refuse(EXPORT, action, model_admin, request, sweep)
    named = _named(EXPORT, action, model_admin, request, runs)
    return exports.selected(named, model_admin, request) if isinstance(named, SelectionForm) else named


def _act(
    verb: RunVerb, action: str, model_admin: Any, request: HttpRequest, runs: QuerySet[Run]
) -> HttpResponse | None:
    if "confirmed" not in request.POST:
        return _first(verb, action, model_admin, request, runs)
    if "upto" in request.POST:
        return sweeping.sweep(once(verb, request), action, model_admin, request)
    named = _named(verb, action, model_admin, request, runs)
    if not isinstance(named, SelectionForm):
        return named
    # Of what this person may see.
    ids = eligible(verb, runs.filter(pk__in=named.cleaned_data["ids"])).values_list("pk", flat=True)
    carry_out(once(verb, request), list(ids), model_admin, request, named.cleaned_data["reason"])
    return None


def _first(
    verb: Asked, action: str, model_admin: Any, request: HttpRequest, runs: QuerySet[Run]
) -> HttpResponse | None:
    if request.POST.get("select_across") == "1":
        return sweeping.ask(verb, action, model_admin, request)
    return _ask(verb, action, model_admin, request, runs)


def _named(
    verb: Asked, action: str, model_admin: Any, request: HttpRequest, runs: QuerySet[Run]
) -> SelectionForm | HttpResponse | None:
    """The form that names the runs; an answer in its place where it does not, or is wrong."""
    form = SelectionForm(request.POST)
    if form.is_valid():
        return form
    if "ids" in form.errors:
        messages.error(request, _("That is not a list of runs."))
        return None
    return _ask(verb, action, model_admin, request, runs.filter(pk__in=form.cleaned_data["ids"]), form)


def _ask(
    verb: Asked,
    action: str,
    model_admin: Any,
    request: HttpRequest,
    runs: QuerySet[Run],
    refused: SelectionForm | None = None,
) -> HttpResponse | None:
    found = list(runs.filter(verb.eligible).order_by("-pk").only(*SHOWN)[:ACTION_MOST])
    if not found:
        return sweeping.nothing(request)
    question = Question(
        verb=verb,
        runs=found,
        form=refused or SelectionForm(initial={"ids": ",".join(run.pk.hex for run in found)}),
        back=request.get_full_path(),
        # One checkbox, for Django's machinery; the ids say which runs are meant.
        hidden={"action": action, "select_across": "1", ACTION_CHECKBOX_NAME: str(found[0].pk)},
        left_out=0 if refused else max(len(request.POST.getlist(ACTION_CHECKBOX_NAME)) - len(found), 0),
    )
    return ask(model_admin, request, question)
