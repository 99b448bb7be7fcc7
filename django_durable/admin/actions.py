"""The list's actions: asked for a selection, confirmed on a page of their own, done to exactly what that page named."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from ..models import Run
from .confirming import Question, ask
from .forms import ACTION_MOST, SelectionForm
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


def _act(
    verb: RunVerb, action: str, model_admin: Any, request: HttpRequest, runs: QuerySet[Run]
) -> HttpResponse | None:
    if "confirmed" not in request.POST:
        return _ask(verb, action, model_admin, request, runs)
    form = SelectionForm(request.POST)
    form.full_clean()
    if "ids" in form.errors:
        messages.error(request, _("That is not a list of runs."))
        return None
    # Of what this person may see; what can still be done is asked again below.
    named = runs.filter(pk__in=form.cleaned_data["ids"])
    if not form.is_valid():
        return _ask(verb, action, model_admin, request, named, form)
    ids = list(eligible(verb, named).values_list("pk", flat=True))
    carry_out(verb, ids, model_admin, request, form.cleaned_data["reason"])
    return None


def _ask(
    verb: RunVerb,
    action: str,
    model_admin: Any,
    request: HttpRequest,
    runs: QuerySet[Run],
    refused: SelectionForm | None = None,
) -> HttpResponse | None:
    shown = eligible(verb, runs).order_by("-pk").only(*SHOWN)
    found = list(shown[: ACTION_MOST + 1])
    if not found:
        messages.warning(request, _("That can be done to none of these runs."))
        return None
    named, is_everything = found[:ACTION_MOST], request.POST.get("select_across") == "1"
    question = Question(
        verb=verb,
        runs=named,
        form=refused or SelectionForm(initial={"ids": ",".join(run.pk.hex for run in named)}),
        back=request.get_full_path(),
        # One checkbox, for Django's machinery; the ids say which runs are meant.
        hidden={"action": action, "select_across": "1", ACTION_CHECKBOX_NAME: str(named[0].pk)},
        left_out=0 if is_everything else max(len(request.POST.getlist(ACTION_CHECKBOX_NAME)) - len(found), 0),
        is_cut=len(found) > ACTION_MOST,
    )
    return ask(model_admin, request, question)
