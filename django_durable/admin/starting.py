"""Starting a run by hand: a form made from the workflow's signature. Off unless the project turns it on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import Error
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..client.starting import KeyRequest
from ..client.starting import start as store
from ..conf import durable_settings
from ..core.kinds.sleeps import seconds_of
from ..exceptions import DurableError, IdempotencyConflict, InvalidInput, PayloadError, RunLocked
from ..models import Run
from ..store.auditing import Verb, audit
from ..store.database import Database
from ..store.meeting import lock_replaced
from ..workflows.definition import Workflow
from ..workflows.options import StartOptions
from ..workflows.registry import declared, workflows
from . import cells
from .confirming import page
from .errors import told, translated
from .permissions import may
from .start_again import form_like
from .start_form import StartForm
from .steering import run_url
from .tabs import address_of
from .text import cut, visible
from .verbs import write_down

START, PAYLOADS = "start_run", "view_payload"
"""The permissions."""
ERROR_SHOWN = 1_000
FORM = "admin/django_durable/workflows/start.html"
UNSEEN = gettext_lazy("A run that you cannot see is there already: no other was started.")


class Unseen(Exception):
    """The run that is there already, or that this one would cancel, is none of those that this site shows to whoever
    asks."""


def may_start(request: HttpRequest) -> bool:
    return durable_settings().ADMIN_START and may(request, START)


def start_url(request: HttpRequest, workflow: str) -> str:
    """Where the form is; nothing for those who may not start runs."""
    if not may_start(request):
        return ""
    return f"{address_of(request, 'django_durable_workflows_start')}?{urlencode({'workflow': workflow})}"


def again_url(request: HttpRequest, run: Run) -> str:
    """Where the form is with the run's input in it; nothing for those who may not start runs or may not see that, and
    where nobody here knows the workflow."""
    workflow = workflows().get(run.workflow)
    url = start_url(request, workflow.name) if workflow and may(request, PAYLOADS) else ""
    return f"{url}&{urlencode({'from': run.pk})}" if url else ""


def start(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """The form, and the run's page once it has been started. ``from`` is a run whose input stands in it at first."""
    request.current_app = model_admin.admin_site.name
    if request.method not in ("GET", "HEAD", "POST"):
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    if not model_admin.has_view_permission(request) or not may_start(request):
        raise PermissionDenied
    workflow = declared().get(request.GET.get("workflow", ""))
    if workflow is None:
        raise Http404
    form, note = _form(model_admin, request, workflow)
    if form.is_valid() and (started := _start(model_admin, request, workflow, form)) is not None:
        run, is_new = started
        text = _("The run was started.") if is_new else _("No other run was started: this one was there already.")
        model_admin.message_user(request, text, messages.SUCCESS if is_new else messages.WARNING)
        return HttpResponseRedirect(run_url(model_admin, run))
    context = {
        "tab": "workflows",
        "form": form,
        "note": note,
        "name": cells.name(workflow.name),
        "about": visible(cut(workflow.__doc__.strip(), ERROR_SHOWN)) if workflow.__doc__ else "",
        "zone": get_current_timezone_name(),
        "back": address_of(request, "django_durable_workflows"),
        "submit": _("Start the run"),
    }
    return page(model_admin, request, FORM, _("Start a run"), context)


def _form(model_admin: Any, request: HttpRequest, workflow: Workflow[Any, Any]) -> tuple[StartForm, str]:
    """And what is to be told of it. What was sent stands for itself, whatever has become of the earlier run."""
    if request.method == "POST":
        return StartForm(workflow, request.POST), ""
    if "from" not in request.GET:
        return StartForm(workflow), ""
    if not may(request, PAYLOADS):
        raise PermissionDenied
    run = model_admin.find(request, request.GET["from"])
    if run is None or run.workflow not in (workflow.name, *workflow.aliases):
        raise Http404
    link = format_html('<a href="{}"><code>{}</code></a>', run_url(model_admin, run), run.pk)
    return form_like(workflow, run, link)


def _start(
    model_admin: Any, request: HttpRequest, workflow: Workflow[Any, Any], form: StartForm
) -> tuple[Run, bool] | None:
    """The run, and whether there was none before that its key, or its workflow, gives in its place; None where the
    workflow or the database refused it, or that one is not to be seen, and the form says why."""
    db, user = Database(), request.user
    try:
        with db.transaction():
            run_id, is_new = _stored(db, model_admin, request, workflow, form)
            run: Run = Run.objects.using(db.alias).get(pk=run_id)
            reason = form.cleaned_data["reason"]
            verb, before = ("start", "") if is_new else ("found", run.status)
            audit(db, [(run.pk, before)], verb, Verb(user.get_username(), reason))
            label = _("Start by hand") if is_new else _("Found by a start by hand")
            write_down(user, [run], label, reason)  # type: ignore[arg-type]
    except InvalidInput as error:
        for problem in error.problems:
            form.add_problem(_shown(translated(problem)))
    except PayloadError as error:
        form.add_problem(_shown(f"{error.path.removeprefix('input').lstrip('.')}: {translated(error.reason)}"))
    except Unseen:
        form.add_error(None, UNSEEN)
    except IdempotencyConflict as error:
        # Its text has the id of whose the key is.
        form.add_error(None, _named(error) if _sees(model_admin, request, [error.run_id]) else UNSEEN)
    except RunLocked as error:
        is_seen = _sees(model_admin, request, error.run_ids)
        form.add_error(None, _named(error if is_seen else RunLocked([], error.seconds)))
    except Error:
        raise
    except Exception as error:
        # Options that the workflow leaves no sense, and what its concurrency_key may raise.
        form.add_error(None, _named(error))
    else:
        return run, is_new
    return None


def _stored(
    db: Database, model_admin: Any, request: HttpRequest, workflow: Workflow[Any, Any], form: StartForm
) -> tuple[UUID, bool]:
    """As ``enqueue``, which does not tell whether it has started one. Raises Unseen besides."""
    args, kwargs = form.given()
    options = StartOptions(**form.options())
    run, key = workflow.new_run(options, tuple(args), kwargs), None
    if options.idempotency_key is not None:
        ttl = seconds_of(options.idempotency_ttl, "idempotency_ttl")
        key = KeyRequest(options.idempotency_key, ttl, options.on_conflict)
    replaced = lock_replaced(db, run)
    if not _sees(model_admin, request, replaced or ()):
        raise Unseen
    [run_id] = store(workflow, [run], key, within=replaced)
    if run_id != run.id and not _sees(model_admin, request, [run_id]):
        raise Unseen
    return run_id, run_id == run.id


def _sees(model_admin: Any, request: HttpRequest, run_ids: Collection[UUID]) -> bool:
    """Whether this site shows all of these runs to whoever asks."""
    if not run_ids:
        return True
    seen = model_admin.get_queryset(request).filter(pk__in=run_ids).order_by().values_list("pk", flat=True)
    return set(run_ids) <= set(seen)


def _named(error: Exception) -> str:
    """Ours says all in a sentence; of what others raise the class tells most."""
    return _shown(told(error) if isinstance(error, DurableError) else translated(f"{type(error).__name__}: {error}"))


def _shown(text: str) -> str:
    return visible(cut(text, ERROR_SHOWN))
