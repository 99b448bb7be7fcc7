"""A verb for all runs that match: asked about once, then done in batches for as long as a request may take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.timezone import localtime
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from ..client.standing import Bounded
from ..core import clock
from ..core.journal.states import Status
from ..exceptions import RunLocked
from ..models import Run
from ..models.run import STATUS_LABELS
from . import cells
from .confirming import Asked, consequence_of, named, page
from .finding import Chosen, Found, find, frozen, moment_of, walk
from .forms import SweepForm
from .look_only import CappedPaginator
from .once import mark_of
from .tabs import address_of
from .text import visible
from .troubles import LABELS, REASON_LABELS
from .verbs import AT_ONCE, RunVerb, tell

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NAMED = 5
"""Of very many: how many there are and what was chosen has to be seen before them."""
SECONDS = 20.0
"""For which one request works: servers commonly end one after thirty."""
ASKED_ON, OVERVIEW = "asked_on", "overview"
NAMES = "named"
ID_DIGITS = 32


def chosen_by(request: HttpRequest) -> Chosen:
    """What the list's address asks for."""
    return Chosen.of(request.GET.dict(), request.GET.get(SEARCH_VAR, ""))


def ask(
    verb: Asked, action: str, model_admin: Any, request: HttpRequest, refused: SweepForm | None = None
) -> HttpResponse:
    """The question, which names the newest of them, how many they are, and what was chosen.

    What is done after it is done to runs that are there now; where it says exactly how many, to no others than these.
    """
    runs, chosen = model_admin.get_queryset(request), chosen_by(request)
    upto = refused.cleaned_data["upto"] if refused else runs.order_by("-pk").values_list("pk", flat=True).first()
    if upto is None:
        return nothing(request)
    chosen = frozen(chosen, None, upto)
    found = find(runs, chosen, CappedPaginator.most, slice(0, CappedPaginator.most), verb.of_its_row)
    if refused and isinstance(verb, RunVerb) and (names := _names(request)) is not None:
        ids = [one for one in found.ids if one in names]
        found = Found(ids, len(ids), ids[-1] if ids else None)
    if not found.ids and found.is_whole:
        return nothing(request)
    form = refused or SweepForm(initial={"upto": upto})
    is_exact = found.is_whole and found.count <= CappedPaginator.most
    since = found.oldest if is_exact else chosen.since
    which = found.ids if is_exact else None
    return _page(verb, action, model_admin, request, form, frozen(chosen, since, upto), _asked(runs, found), which)


def nothing(request: HttpRequest) -> HttpResponse:
    messages.warning(request, _("That can be done to none of these runs."))
    return HttpResponseRedirect(_back(request))


def _back(request: HttpRequest) -> str:
    """Where the button stood: the list has nothing left to show where all were resumed that it was asked for."""
    overview = address_of(request, "django_durable_overview") if _is_from_overview(request) else ""
    return overview or request.get_full_path()


def _is_from_overview(request: HttpRequest) -> bool:
    return request.POST.get(ASKED_ON) == OVERVIEW


def sweep(verb: RunVerb, action: str, model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Do it, or go on with it; where the time is over first, a page from which to go on again."""
    form = SweepForm(request.POST)
    try:
        names = _names(request)
    except ValueError:
        return _no_list(request)
    if not form.is_valid():
        return refuse(verb, action, model_admin, request, form)
    data, runs = form.cleaned_data, model_admin.get_queryset(request)
    if names is not None:
        runs = runs.filter(pk__in=names)
    chosen = frozen(chosen_by(request), None, data["upto"])
    ends_at, done, held = clock.monotonic() + SECONDS, data["done"], data["held"]
    for ids, place in walk(runs, chosen, verb.of_its_row, AT_ONCE, data["place"]):
        some, locked = _perform(verb, ids, request, data["reason"])
        done, held = done + some, held + locked
        if clock.monotonic() >= ends_at:
            again = SweepForm(initial={**data, "place": str(place), "done": done, "held": held})
            more = {"done": verb.done % {"count": done}}
            return _page(verb, action, model_admin, request, again, chosen, more, names)
    if held:
        messages.warning(request, _left(held))
    if held and not done:
        # Why to none was said just now.
        messages.warning(request, verb.done % {"count": 0})
    else:
        tell(verb, request, done)
    return HttpResponseRedirect(_back(request))


def _left(count: int) -> str:
    text = ngettext(
        "%(count)s run was left as it is: another transaction holds it.",
        "%(count)s runs were left as they are: other transactions hold them.",
        count,
    )
    return text % {"count": cells.grouped(count)}


def refuse(verb: Asked, action: str, model_admin: Any, request: HttpRequest, form: SweepForm) -> HttpResponse:
    """Asks again, where it is only the reason that is wrong."""
    if set(form.errors) == {"reason"}:
        return ask(verb, action, model_admin, request, form)
    return _no_list(request)


def _no_list(request: HttpRequest) -> HttpResponse:
    messages.error(request, _("That is not a list of runs."))
    return HttpResponseRedirect(_back(request))


def _names(request: HttpRequest) -> frozenset[UUID] | None:
    """The runs that the question was about; None where it could not say which. Raises ValueError."""
    text = request.POST.get(NAMES)
    if text is None:
        return None
    if len(text) > CappedPaginator.most * (ID_DIGITS + 1):
        raise ValueError(NAMES)
    return frozenset(map(UUID, text.split(",")))


def _perform(verb: RunVerb, ids: list[UUID], request: HttpRequest, reason: str) -> tuple[int, int]:
    """To how many it was done, and how many others held for so long that they are passed by."""
    try:
        return verb.perform(ids, user=request.user, reason=reason), 0  # type: ignore[arg-type]
    except RunLocked as error:
        free = [one for one in ids if one not in error.run_ids]
    try:
        return verb.perform(free, user=request.user, reason=reason), len(ids) - len(free)  # type: ignore[arg-type]
    except RunLocked:
        return 0, len(ids)


def _asked(runs: QuerySet[Run], found: Found) -> dict[str, Any]:
    ids = found.ids[:NAMED]
    shown = runs.filter(pk__in=ids).order_by("-pk") if ids else []
    is_more = not found.is_whole or found.count > CappedPaginator.most
    return {
        "number": Bounded(min(found.count, CappedPaginator.most), is_more),
        "count": cells.bounded(Bounded(min(found.count, CappedPaginator.most), is_more)),
        "is_exact": not is_more,
        "is_whole": found.is_whole,
        "runs": [named(run) for run in shown],
        "is_more": found.count > len(ids) or is_more,
    }


def _page(
    verb: Asked,
    action: str,
    model_admin: Any,
    request: HttpRequest,
    form: SweepForm,
    chosen: Chosen,
    more: dict[str, Any],
    names: Iterable[UUID] | None,
) -> HttpResponse:
    # One checkbox, for Django's machinery.
    hidden = {"action": action, "select_across": "1", ACTION_CHECKBOX_NAME: "all", **mark_of(verb)}
    if _is_from_overview(request):
        hidden[ASKED_ON] = OVERVIEW
    # A file of runs changes none of them.
    if names is not None and isinstance(verb, RunVerb):
        hidden[NAMES] = ",".join(one.hex for one in names)
    context = {
        "form": form,
        "consequence": consequence_of(verb),
        "chosen": list(described(chosen)),
        "hidden": hidden.items(),
        "target": target_of(request, chosen),
        "back": _back(request),
        "submit": _("Go on") if "done" in more else _("Yes, do it"),
        "is_dangerous": verb.name == "cancel",
        **more,
    }
    title = _("%s: all runs that match") % verb.label
    return page(model_admin, request, "admin/django_durable/run/sweep.html", title, context)


def target_of(request: HttpRequest, chosen: Chosen) -> str:
    """The list's address with what was chosen as it is now: "the last hour" is another one in a minute."""
    asked = {name: value for name, value in request.GET.items() if name not in ("p", "all", "created")}
    if chosen.since:
        asked["created"] = str(chosen.since)
    return f"{request.path}?{urlencode(asked)}"


def described(chosen: Chosen, *, as_text: bool = False) -> Iterator[tuple[StrOrPromise, StrOrPromise]]:
    """What was chosen in words, label and value; the values as HTML, or as text."""
    name = visible if as_text else cells.name
    if chosen.status:
        yield _("Status"), STATUS_LABELS[Status(chosen.status)] if chosen.status in set(Status) else name(chosen.status)
    if len(chosen.kinds) > 1:
        yield _("Status"), _("needs attention")
    elif chosen.kinds:
        yield _("What is wrong"), LABELS.get(chosen.kinds[0]) or name(chosen.kinds[0])
    if chosen.reason:
        yield _("Why it is blocked"), REASON_LABELS.get(chosen.reason) or name(chosen.reason)
    if chosen.workflow:
        yield _("Workflow"), name(chosen.workflow)
    if chosen.queue:
        yield _("Queue"), name(chosen.queue)
    if chosen.parent:
        yield _("Parent"), str(chosen.parent)
    if chosen.worker:
        yield _("Worker"), str(chosen.worker)
    if chosen.term:
        yield _("Search"), name(chosen.term)
    for label, run_id in ((_("Created since"), chosen.since), (_("Created until"), chosen.upto)):
        if run_id and (at := moment_of(run_id)):
            yield label, f"{localtime(at):%Y-%m-%d %H:%M:%S}"
