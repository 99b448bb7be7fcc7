"""Holding and releasing a queue or a workflow: a button, a question with a reason, and that it is written down."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseNotAllowed, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ..client import holding
from ..conf import durable_settings
from ..core.names import NAME_MAX
from ..core.registry import names_of
from ..exceptions import DurableError
from ..models import Hold
from ..store.database import Database
from . import cells
from .confirming import page
from .errors import told
from .forms import ReasonForm
from .permissions import may
from .tabs import address_of
from .text import cut, visible
from .verbs import write_down

HOLD = "hold_queue"
"""The permission, for queues and workflows."""
REASON_SHOWN = 200
FORM = "admin/django_durable/workflows/hold.html"
ACTS = {
    ("hold", Hold.QUEUE): holding.hold_queue,
    ("hold", Hold.WORKFLOW): holding.hold_workflow,
    ("release", Hold.QUEUE): holding.release_queue,
    ("release", Hold.WORKFLOW): holding.release_workflow,
}


def button(request: HttpRequest, kind: str, name: str, *, is_held: bool, back: str = "") -> dict[str, str] | None:
    """What the form of a button needs; None for those who may not, and on a site that has no such page."""
    verb, label = ("release", _("Release")) if is_held else ("hold", _("Hold"))
    url = address_of(request, f"django_durable_workflows_{verb}")
    if not url or not may(request, HOLD):
        return None
    return {
        "url": url,
        "kind": kind,
        "name": name,
        "back": back,
        "label": label,
        "title": f"{label}: {visible(name)}",
    }


def line_of(held: Hold) -> dict[str, str]:
    """What is held, as one line: by whom and since when."""
    label = pgettext("queue", "held") if held.kind == Hold.QUEUE else pgettext("workflow", "held")
    since = cells.moment(held.since)
    by = format_html(_("by {}, since {}"), cells.name(held.actor), since) if held.actor else ""
    return {
        "pill": cells.pill("held", label),
        "kind": held.get_kind_display(),
        "name": cells.name(held.name),
        "told": by or format_html(_("since {}"), since),
        "reason": cut(visible(held.reason), REASON_SHOWN),
    }


def hold(model_admin: Any, request: HttpRequest) -> HttpResponse:
    return _turn("hold", model_admin, request)


def release(model_admin: Any, request: HttpRequest) -> HttpResponse:
    return _turn("release", model_admin, request)


def _turn(verb: str, model_admin: Any, request: HttpRequest) -> HttpResponse:
    """The question, and what was answered."""
    request.current_app = model_admin.admin_site.name
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    if not model_admin.has_view_permission(request) or not may(request, HOLD):
        raise PermissionDenied
    kind, name = request.POST.get("kind", ""), request.POST.get("name", "")
    # A name that is stored nowhere holds nothing, and the database may not even be able to compare it.
    if (verb, kind) not in ACTS or not 0 < len(name) <= NAME_MAX or "\0" in name:
        return HttpResponseBadRequest(_("There is nothing of that name."))
    form = ReasonForm(request.POST if "confirmed" in request.POST else None)
    is_from_overview = request.POST.get("back") == "overview"
    back = address_of(request, "django_durable_overview" if is_from_overview else "django_durable_workflows")
    if not form.is_valid():
        context = {
            "tab": "overview" if is_from_overview else "workflows",
            "name": cells.name(name),
            "kind": dict(Hold.KINDS)[kind],
            "hidden": [("kind", kind), ("name", name), *([("back", "overview")] if is_from_overview else [])],
            "form": form,
            "back": back,
            "consequence": _consequence(verb),
            "submit": _("Yes, do it"),
        }
        return page(model_admin, request, FORM, _question(verb, kind), context)
    _act(verb, kind, name, form.cleaned_data["reason"], model_admin, request)
    return HttpResponseRedirect(back)


def _question(verb: str, kind: str) -> str:
    return {
        ("hold", Hold.QUEUE): _("Hold this queue?"),
        ("hold", Hold.WORKFLOW): _("Hold this workflow?"),
        ("release", Hold.QUEUE): _("Release this queue?"),
        ("release", Hold.WORKFLOW): _("Release this workflow?"),
    }[verb, kind]


def _consequence(verb: str) -> str:
    beat = f"{durable_settings().HEARTBEAT_SECONDS:g}"
    if verb == "release":
        return _("Workers look for its runs with their next heartbeat, within %s seconds.") % beat
    return (
        _(
            "No run of it is taken up until it is released: workers hear of it with their next heartbeat, within %s "
            "seconds. What is being worked on goes on until it next waits or ends. Runs may be started meanwhile, "
            "events come and schedules fire; nothing is lost."
        )
        % beat
    )


def _act(verb: str, kind: str, name: str, reason: str, model_admin: Any, request: HttpRequest) -> None:
    user = request.user
    try:
        with Database().transaction():
            # Before a release, after which they are gone.
            rows = _rows(kind, name) if verb == "release" else []
            is_done = ACTS[verb, kind](name, reason=reason, actor=user.get_username())
            if is_done:
                label = _("Hold") if verb == "hold" else _("Release")
                write_down(user, rows or _rows(kind, name), label, reason)  # type: ignore[arg-type]
    except DurableError as error:
        model_admin.message_user(request, told(error), messages.ERROR)
        return
    shown = cut(visible(name), 100)
    if verb == "hold":
        text = _("Held: %s.") if is_done else _("Held already: %s.")
    else:
        text = _("Released: %s.") if is_done else _("Not held: %s.")
    model_admin.message_user(request, text % shown, messages.SUCCESS if is_done else messages.WARNING)


def _rows(kind: str, name: str) -> list[Hold]:
    # Of a workflow also under the names that it had. A queue of one of these names is another thing.
    names = names_of(name) if kind == Hold.WORKFLOW else (name,)
    return [hold for hold in holding.holds() if hold.kind == kind and hold.name in names]
