"""A run's page: where it stands and why, what happened, what may be done about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Length, Substr
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext_lazy as _

from ..client.listing import EXCERPT, Excerpt
from ..client.why import holder_of, why_held_by
from ..conf import durable_settings
from ..core import clock
from ..core.journal.states import LIVE, PayloadKind, Status, failure_kinds
from ..models import IdempotencyKey, JournalEntry, Payload, Run, Tag, Worker
from ..store.database import Database
from ..store.transitions import IS_KNOWN_TO_PARENT, RESUMABLE
from . import cells
from .children import children_of
from .claims import CLAIM, claims_as_text, claims_of
from .confirming import named
from .excerpts import with_parsed
from .exports import form_of_one
from .fragments import fragment
from .journal import (
    ATTEMPT,
    AUDIT,
    OTHERS_SHOWN,
    SCOPE,
    Listing,
    Window,
    attempts_as_text,
    attempts_of,
    audit_as_text,
    audit_of,
    entries_of,
    events_of,
    scopes_as_text,
    scopes_of,
)
from .payloads import decoded, seen, shown, shown_error, shown_notes, shown_why
from .permissions import may
from .run_facts import facts_of
from .run_log import LINE, log_as_text, log_of
from .starting import again_url
from .tabs import address_of, runs_url
from .text import cut, visible
from .verbs import CANCEL, PAUSE, RERUN, RESUME
from .waterfall import Family, Sent, settled, waterfall_of
from .whole_value import Addresses

SECRET = frozenset({PayloadKind.INPUT, PayloadKind.OUTPUT})
"""What only those see who may view payloads; errors are for everybody who has to mend them."""
ANCESTORS = "parent__parent__parent__parent"
"""Read with the run itself. Of what lies deeper, the root is linked."""
AT_WORK = frozenset({Status.QUEUED, Status.RUNNING})
EVERY, SELDOM, RARELY = 3, 15, 60
"""After how many seconds the page of a run that is at work, or is not, asks anew; and of one whose journal is long: no
index has its order, so each look reads all of it."""
MESSAGE_MOST = 500
TAG, KEY = "%tag", "%key"
"""Tags and idempotency keys are read with the payloads, and are no kind of these."""
BESIDE = (CLAIM, LINE, SCOPE, ATTEMPT, AUDIT)
"""Neither are these, of which each has a number."""
Numbered = dict[str, list[tuple[int, str]]]
"""By what it is, the number and the text of each."""


def find(runs: QuerySet[Run], object_id: str) -> Run | None:
    """The run with its ancestors, in one query; None for what is no id."""
    warn = durable_settings().JOURNAL_WARN_ENTRIES
    entries = JournalEntry.objects.using(Database().alias).filter(run_id=OuterRef("pk")).order_by()
    # Of the entry at which it waits for an event. Of one that waits on something else nobody asks.
    awaited = entries.filter(path=Substr(OuterRef("waiting_on"), len("event:") + 1)).values("awaits")
    # Whether there is one more than that: a journal is not counted to its end for a word about it.
    runs = runs.select_related(ANCESTORS).annotate(
        has_long_journal=Exists(entries[warn : warn + 1]),
        is_known_to_parent=ExpressionWrapper(IS_KNOWN_TO_PARENT, BooleanField()),
        awaits=Subquery(awaited[:1]),
    )
    try:
        return runs.filter(pk=UUID(object_id)).first()
    except ValueError:
        return None


def context_of(request: HttpRequest, run: Run) -> dict[str, Any]:
    """All that the page shows, in a bounded number of bounded queries.

    Of a part of the timeline it shows that only, and what stands above it.
    """
    may_see, window, now = may(request, "view_payload"), Window.of(request.GET), settled(run, clock.utcnow())
    addresses = Addresses(request, run, may_see=may_see)
    worker = holder_of(run)
    context = {
        "run": run,
        "pills": cells.run_pills(run),
        "workflow": visible(run.workflow),
        "workflow_url": runs_url(request, workflow=run.workflow),
        "why": _why(run, worker, may_see=may_see),
        "zone": get_current_timezone_name(),
        "window": window,
        "inside": visible(window.inside),
        "facts": facts_of(request, run, worker, addresses, now),
        "may_view_payload": may_see,
        "short_id": cells.short_id(run.pk),
        "buttons": _buttons(request, run),
        "fork": _fork_url(request, run),
        "export": form_of_one(request, run),
        "refresh": _refresh_url(request, run),
        "every": _every(run),
    }
    # Nobody has worked on it: there is nothing to ask for.
    entries = entries_of(run, window, with_values=may_see) if run.claims else Listing([], False)
    children = children_of(run, entries.rows, are_listed=window.is_all and run.claims > 0)
    scopes = scopes_as_text(run, [] if window.is_all and not entries.is_cut else entries.rows)
    beside = scopes.union(attempts_as_text(run, entries.rows), all=True)
    events: Sequence[Sent] = ()
    if window.is_all:
        whole, numbered, events = _whole(request, run, beside, children.listed, addresses, may_see=may_see)
        context |= whole
    else:
        numbered = _numbered(list(beside))
    around, family = scopes_of(numbered[SCOPE]), Family(children.by_path, events, attempts_of(numbered[ATTEMPT]))
    may_fork = bool(context["fork"])
    context["timeline"] = waterfall_of(run, entries, around, window, family, addresses, now, may_fork=may_fork)
    return context


def live(model_admin: Any, request: HttpRequest, run_id: UUID) -> HttpResponse:
    """The page of a run that goes on, as it asks for it again and again."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    run = model_admin.find(request, str(run_id))
    if run is None:
        raise Http404
    request.current_app = model_admin.admin_site.name
    is_done = run.status not in LIVE
    return fragment(request, "admin/django_durable/run/live.html", context_of(request, run), is_done=is_done)


def _refresh_url(request: HttpRequest, run: Run) -> str:
    """Where a page asks how it looks by now; empty where nothing changes any more."""
    if run.status not in LIVE:
        return ""
    query = request.GET.urlencode()
    return address_of(request, "django_durable_run_live", run.pk) + (f"?{query}" if query else "")


def _every(run: Run) -> int:
    if run.has_long_journal:  # type: ignore[attr-defined]
        return RARELY
    return EVERY if run.status in AT_WORK else SELDOM


def _whole(
    request: HttpRequest,
    run: Run,
    beside: QuerySet[Any, Any],
    children: Listing,
    addresses: Addresses,
    *,
    may_see: bool,
) -> tuple[dict[str, Any], Numbered, Sequence[Sent]]:
    """What a page of the whole run shows beside its timeline, what was read with it, and the events that were sent."""
    payloads, names, numbered = _payloads(run, beside, may_see)
    events, sent = events_of(run, addresses, with_payloads=may_see)
    kinds = failure_kinds(run.status)
    failure = next((kind for kind in kinds if kind in payloads), kinds[-1])
    context = {
        "progress": _progress(run, payloads.get(PayloadKind.PROGRESS)),
        "annotations": shown_notes(run, payloads.get(PayloadKind.NOTES), addresses.of(PayloadKind.NOTES)),
        "error": shown_error(run, payloads.get(failure), addresses.of(failure)),
        "error_is_final": failure == PayloadKind.ERROR,
        "divergence": _divergence(payloads.get(PayloadKind.MISSED)),
        "input": shown(run, "input", payloads.get(PayloadKind.INPUT), addresses.of(PayloadKind.INPUT)),
        "output": shown(run, "output", payloads.get(PayloadKind.OUTPUT), addresses.of(PayloadKind.OUTPUT)),
        "again_url": again_url(request, run) if PayloadKind.INPUT in payloads else "",
        "tags": [cells.linked(cells.name(tag), runs_url(request, q=tag)) for tag in names[TAG]],
        "keys": [cells.name(key) for key in names[KEY]],
        "events": events,
        "log": log_of(run, numbered[LINE]),
        "claims": claims_of(request, run, numbered[CLAIM]),
        "audit": audit_of(numbered[AUDIT], addresses),
        **_relatives(request, run, children),
    }
    return context, numbered, [Sent(row["sent_at"], row["name"]) for row in sent]


def _payloads(
    run: Run, beside: QuerySet[Any, Any], may_see: bool
) -> tuple[dict[str, Excerpt], dict[str, list[str]], Numbered]:
    """What the run keeps as text by its kind, its tags and idempotency keys, and its claims, lines, verbs and what is
    ``beside`` as those read them who show them."""
    alias = Database().alias
    kinds = frozenset(PayloadKind) - (frozenset() if may_see else SECRET)
    rows = with_parsed(Payload.objects.using(alias).filter(run_id=run.pk, kind__in=sorted(kinds)), "data", EXCERPT)
    tags = Tag.objects.using(alias).filter(run_id=run.pk)
    tags = tags.filter(name__in=tags.order_by("name").values("name")[:OTHERS_SHOWN])
    named_so = tags.annotate(tag=Value(TAG), size=Length("name")).values_list("tag", "name", "size")
    # One that has several names of a workflow has it as often.
    keys = IdempotencyKey.objects.using(alias).filter(run_id=run.pk)
    keys = keys.filter(pk__in=keys.order_by("pk").values("pk")[:OTHERS_SHOWN])
    keyed = keys.annotate(tag=Value(KEY), size=Length("key")).values_list("tag", "key", "size")
    others = [named_so, keyed, audit_as_text(run), beside]
    if run.claims:
        others += [claims_as_text(run), log_as_text(run)] if may_see else [claims_as_text(run)]
    found = list(rows.values_list("kind", "data_text", "data_size").union(*others, all=True))
    payloads = {kind: Excerpt(text, size) for kind, text, size in found if kind not in (TAG, KEY, *BESIDE)}
    names = {one: sorted({text for kind, text, _ in found if kind == one}) for one in (TAG, KEY)}
    return payloads, names, _numbered(found)


def _numbered(found: Sequence[tuple[str, str, int]]) -> Numbered:
    return {kind: [(number, text) for one, text, number in found if one == kind] for kind in BESIDE}


def _relatives(request: HttpRequest, run: Run, children: Listing) -> dict[str, Any]:
    """Those above it, outermost first, and those that it started."""
    ancestors: list[Run] = []
    above = run.parent
    while above is not None and len(ancestors) <= ANCESTORS.count("parent"):
        ancestors.insert(0, above)
        above = above.parent if len(ancestors) < ANCESTORS.count("parent") else None
    top = ancestors[0] if ancestors else run
    return {
        "ancestors": [named(ancestor) for ancestor in ancestors],
        "root": run.root_id if top.parent_id is not None and run.root_id != top.pk else None,
        "children": children,
        "children_url": f"{address_of(request, 'django_durable_run_changelist')}?parent={run.pk}",
    }


def _progress(run: Run, said: Excerpt | None) -> dict[str, Any] | None:
    """A bar where there is a number to draw it from; else what was said."""
    value = seen(run, "progress", said.text) if said and not said.is_cut else None
    if not isinstance(value, Mapping):
        return None
    bar, message = cells.progress(value), cut(visible(str(value.get("message") or "")), MESSAGE_MOST)
    return {"bar": bar, "message": message} if bar != cells.NOTHING or message else None


def _fork_url(request: HttpRequest, run: Run) -> str:
    # Also where there is no entry yet: the form is not drawn anew with those to come.
    return address_of(request, "django_durable_run_fork", run.pk) if may(request, RERUN.permission) else ""


def _why(run: Run, worker: Worker | None, *, may_see: bool) -> str:
    is_long: bool = run.has_long_journal  # type: ignore[attr-defined]
    awaits: str = run.awaits or ""  # type: ignore[attr-defined]
    found = why_held_by(run, worker, is_long=is_long, is_known_to_parent=_is_known_to_parent(run), awaits=awaits)
    return shown_why(run, found, may_see=may_see)


def _is_known_to_parent(run: Run) -> bool:
    """As it was found."""
    known: bool = run.is_known_to_parent  # type: ignore[attr-defined]
    return known


def _divergence(missed: Excerpt | None) -> str:
    """What the code of a run that succeeded had left out; a sentence, or nothing."""
    if missed is None:
        return ""
    paths = decoded(missed.text)
    shown_paths = ", ".join(visible(str(path)) for path in paths) if isinstance(paths, list) else _("many entries")
    return str(_("Its code has changed: it ended without coming by %s, which its journal has.") % shown_paths)


def _buttons(request: HttpRequest, run: Run) -> list[dict[str, Any]]:
    """The verbs that fit this run and that this person may use."""
    is_live = run.status in LIVE
    is_going_on = is_live and run.cancel_requested_at is None
    is_pausing = run.status == Status.RUNNING and run.pause_requested_at is not None
    is_resumable = (is_pausing or run.status in RESUMABLE) and not _is_known_to_parent(run)
    offers = [
        ("event", _("Send an event"), "send_event", is_live),
        ("pause", PAUSE.label, PAUSE.permission, is_going_on and run.status not in RESUMABLE and not is_pausing),
        ("resume", RESUME.label, RESUME.permission, is_resumable),
        ("rerun", RERUN.label, RERUN.permission, True),
        ("fork", _("Fork"), RERUN.permission, run.claims > 0),
        # One that is blocked although it was asked to stop is asked once more, and ends as it is.
        ("cancel", CANCEL.label, CANCEL.permission, is_going_on or run.status == Status.BLOCKED),
    ]
    return [
        {"url": f"admin:django_durable_run_{verb}", "label": label, "verb": verb}
        for verb, label, permission, fits in offers
        if fits and may(request, permission)
    ]
