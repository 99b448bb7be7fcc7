"""The buttons of a run's page: each a POST, each confirmed on a page of its own, each with its own permission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from ..core.journal.states import LIVE, EntryStatus, Kind
from ..exceptions import CannotFork, IllegalTransition, PayloadError, RunLocked, RunNotFound, TooManyEvents
from ..models import Audit, JournalEntry, Run
from ..store.database import Database
from ..store.locking import brief_lock, locked
from . import verbs
from .confirming import Question, ask, named, page
from .errors import told
from .forms import AWAITED_SHOWN, EventForm, ForkForm, ReasonForm
from .once import made_since, once
from .permissions import may
from .text import visible
from .verbs import CANCEL, PAUSE, RERUN, RESUME, RunVerb, carry_out, eligible, send_event, tell

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


def cancel(model_admin: Any, request: HttpRequest, run_id: UUID) -> HttpResponse:
    return _steer(CANCEL, model_admin, request, run_id)


def resume(model_admin: Any, request: HttpRequest, run_id: UUID) -> HttpResponse:
    return _steer(RESUME, model_admin, request, run_id)


def pause(model_admin: Any, request: HttpRequest, run_id: UUID) -> HttpResponse:
    return _steer(PAUSE, model_admin, request, run_id)


def rerun(model_admin: Any, request: HttpRequest, run_id: UUID) -> HttpResponse:
    return _steer(RERUN, model_admin, request, run_id)


def fork(model_admin: Any, request: HttpRequest, run_id: UUID) -> HttpResponse:
    """The form that asks from which step on, and the fork, whose page comes next."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    run = _run(model_admin, request, run_id, RERUN.permission)
    initial = {"from_step": request.POST.get("from_step", "")}
    form = ForkForm(request.POST if "confirmed" in request.POST else None, initial=initial)
    if form.is_valid() and (new := _fork(form, run, request)) is not None:
        model_admin.message_user(request, _("This run was forked from %s.") % run.pk, messages.SUCCESS)
        return HttpResponseRedirect(run_url(model_admin, new))
    return _form(model_admin, request, run, form, _("Fork this run"), submit=_("Fork the run"))


def event(model_admin: Any, request: HttpRequest, run_id: UUID) -> HttpResponse:
    """The form of an event, and its sending."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    run = _run(model_admin, request, run_id, "send_event")
    if run.status not in LIVE:
        model_admin.message_user(request, _("The run is over: it takes no events."), messages.WARNING)
        return HttpResponseRedirect(run_url(model_admin, run))
    form = EventForm(request.POST if "confirmed" in request.POST else None, awaited=_awaited(run))
    if form.is_valid() and _send(form, run, request):
        model_admin.message_user(request, _("The event was sent."), messages.SUCCESS)
        return HttpResponseRedirect(run_url(model_admin, run))
    return _form(model_admin, request, run, form, _("Send an event to this run"), submit=_("Send the event"))


def _form(
    model_admin: Any, request: HttpRequest, run: Run, form: Form, title: StrOrPromise, *, submit: StrOrPromise
) -> HttpResponse:
    back = run_url(model_admin, run)
    crumb = {"url": back, "text": visible(run.workflow)}
    context = {"form": form, "run": named(run), "crumb": crumb, "back": back, "submit": submit}
    return page(model_admin, request, "admin/django_durable/run/form.html", title, context)


def run_url(model_admin: Any, run: Run | UUID) -> str:
    pk = run if isinstance(run, UUID) else run.pk
    return reverse("admin:django_durable_run_change", args=[pk], current_app=model_admin.admin_site.name)


def _steer(verb: RunVerb, model_admin: Any, request: HttpRequest, run_id: UUID) -> HttpResponse:
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    run = _run(model_admin, request, run_id, verb.permission)
    form = ReasonForm(request.POST if "confirmed" in request.POST else None)
    if not eligible(verb, Run.objects.using(Database().alias).filter(pk=run.pk)).exists():
        tell(verb, request, 0)
        return HttpResponseRedirect(run_url(model_admin, run))
    if not form.is_valid():
        question = Question(verb, [run], form, back=run_url(model_admin, run), hidden={})
        return ask(model_admin, request, question)
    carry_out(once(verb, request), [run.pk], model_admin, request, form.cleaned_data["reason"])
    return HttpResponseRedirect(run_url(model_admin, run))


def _run(model_admin: Any, request: HttpRequest, run_id: UUID, permission: str) -> Run:
    if not model_admin.has_view_permission(request) or not may(request, permission):
        raise PermissionDenied
    run: Run | None = model_admin.get_queryset(request).filter(pk=run_id).first()
    if run is None:
        raise Http404
    return run


def _send(form: EventForm, run: Run, request: HttpRequest) -> bool:
    data = form.cleaned_data
    try:
        send_event(
            run,
            name=data["name"],
            payload=data["payload"],
            key=f"admin-{data['key'].hex}",
            user=request.user,  # type: ignore[arg-type]
            reason=data["reason"],
        )
    except PayloadError as error:
        form.add_error("payload", told(error))
    except (RunLocked, TooManyEvents) as error:
        form.add_error(None, told(error))
    except IllegalTransition:
        form.add_error(None, str(_("The run is over: it takes no events.")))
    except RunNotFound:
        form.add_error(None, str(_("The run is gone: it takes no events.")))
    else:
        return True
    return False


def _fork(form: ForkForm, run: Run, request: HttpRequest) -> UUID | None:
    data, user, db = form.cleaned_data, request.user, Database()
    step = data["from_step"]
    forks = Audit.objects.filter(run_id=run.pk, verb="fork")
    try:
        with brief_lock(db, [run.pk]):
            locked(db, Run.objects.filter(pk=run.pk))
            made = made_since(data["asked_after"], user, forks, f"{{}} from {step!r}")  # type: ignore[arg-type]
            return made or verbs.fork(run, from_step=step, user=user, reason=data["reason"])  # type: ignore[arg-type]
    except RunLocked as error:
        form.add_error(None, told(error))
    except CannotFork as error:
        form.add_error("from_step", told(error))
    except RunNotFound:
        form.add_error(None, str(_("Its input is gone: it cannot be done again.")))
    return None


def _awaited(run: Run) -> list[str]:
    """The events that the run waits for: of one wait there may be several, and each branch has its own."""
    waits = JournalEntry.objects.using(Database().alias).filter(
        run_id=run.pk, kind=Kind.EVENT, status=EntryStatus.WAITING
    )
    found = waits.order_by("seq").values_list("awaits", flat=True)[: AWAITED_SHOWN + 1]
    return list(dict.fromkeys(name for names in found for name in names.split("\n") if name))
