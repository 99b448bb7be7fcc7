"""A run's page: where it stands and why, what happened, what may be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext_lazy as _

from ..client.listing import Excerpt
from ..client.why import holder_of, why_held_by
from ..core import clock
from ..core.journal.states import LIVE, PayloadKind, Status
from ..exceptions import PayloadUndecodable
from ..models import Payload, Run, Tag, Worker
from ..store.database import Database
from . import cells
from .confirming import named
from .journal import OTHERS_SHOWN, Listing, audit_of, events_of, journal_of
from .payloads import ERROR_EXCERPT, decoded, shown, shown_error, shown_notes, with_excerpt
from .permissions import may
from .text import visible
from .verbs import CANCEL, PAUSE, RERUN, RESUMABLE, RESUME

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

SECRET = frozenset({PayloadKind.INPUT, PayloadKind.OUTPUT})
"""What only those see who may view payloads; errors are for everybody who has to mend them."""


def find(runs: QuerySet[Run], object_id: str) -> Run | None:
    """The run with its parent, in one query; None for what is no id."""
    try:
        return runs.select_related("parent").filter(pk=UUID(object_id)).first()
    except ValueError:
        return None


def context_of(request: HttpRequest, run: Run) -> dict[str, Any]:
    """All that the page shows, in a bounded number of bounded queries."""
    may_see = may(request, "view_payload")
    payloads = _payloads(run, may_see)
    children = _children(run)
    worker = holder_of(run)
    return {
        "run": run,
        "pills": cells.run_pills(run),
        "workflow": visible(run.workflow),
        "why": _why(run, worker),
        "zone": get_current_timezone_name(),
        "progress": cells.progress(decoded(payloads["progress"].text)) if "progress" in payloads else "",
        "annotations": shown_notes(payloads.get(PayloadKind.NOTES)),
        "error": shown_error(payloads.get("error") or payloads.get("retry")),
        "error_is_final": "error" in payloads,
        "divergence": _divergence(payloads.get(PayloadKind.MISSED)),
        "facts": _facts(run, worker),
        "parent": named(run.parent) if run.parent else None,
        "tags": [cells.name(tag) for tag in _tags(run)],
        "may_view_payload": may_see,
        "input": shown(payloads.get("input")),
        "output": shown(payloads.get("output")),
        "journal": journal_of(run, children.rows, with_values=may_see),
        "events": events_of(run, with_payloads=may_see),
        "children": Listing([named(child) for child in children.rows], children.is_cut),
        "audit": audit_of(run),
        "buttons": _buttons(request, run),
    }


def _payloads(run: Run, may_see: bool) -> dict[str, Excerpt]:
    kinds = frozenset(PayloadKind) - (frozenset() if may_see else SECRET)
    rows = Payload.objects.using(Database().alias).filter(run_id=run.pk, kind__in=sorted(kinds))
    found = with_excerpt(rows, "data", ERROR_EXCERPT).values_list("kind", "data_text", "data_size")
    return {kind: Excerpt(text, size) for kind, text, size in found}


def _why(run: Run, worker: Worker | None) -> str:
    try:
        return visible(why_held_by(run, worker).text)
    except (PayloadUndecodable, LookupError, TypeError):
        return str(_("It is blocked, and the text that says why cannot be read."))


def _divergence(missed: Excerpt | None) -> str:
    """What the code of a run that succeeded had left out; a sentence, or nothing."""
    if missed is None:
        return ""
    paths = decoded(missed.text)
    shown_paths = ", ".join(visible(str(path)) for path in paths) if isinstance(paths, list) else _("many entries")
    return str(_("Its code has changed: it ended without coming by %s, which its journal has.") % shown_paths)


def _children(run: Run) -> Listing:
    children = Run.objects.using(Database().alias).filter(parent_id=run.pk).order_by("pk")
    return Listing.of(children[: OTHERS_SHOWN + 1], OTHERS_SHOWN)


def _tags(run: Run) -> list[str]:
    tags = Tag.objects.using(Database().alias).filter(run_id=run.pk).order_by("name")
    return list(tags.values_list("name", flat=True)[:OTHERS_SHOWN])


def _facts(run: Run, worker: Worker | None) -> list[tuple[StrOrPromise, StrOrPromise]]:
    """Label and value, without those that say nothing."""
    facts: list[tuple[StrOrPromise, StrOrPromise | None]] = [
        (_("Queue"), cells.name(run.queue)),
        (_("Priority"), str(run.priority) if run.priority else None),
        (_("Attempt"), cells.attempt(run)),
        (_("Claims"), str(run.claims)),
        (_("Crashes"), str(run.crashes) if run.crashes else None),
        (_("Worker"), _worker(run, worker)),
        (_("Waits on"), visible(run.waiting_on) or None),
        (_("Created"), cells.moment(run.created_at)),
        (_("Queued"), cells.moment(run.queued_at) if run.status == Status.QUEUED else None),
        (_("Started"), cells.moment(run.started_at) if run.started_at else None),
        (_("Finished"), cells.moment(run.finished_at) if run.finished_at else None),
        (_("Took") if run.finished_at else _("So far"), _duration(run)),
        (_("Wakes"), cells.moment(run.wake_at) if run.wake_at else None),
        (_("Deadline"), cells.moment(run.deadline_at) if run.deadline_at else None),
        (_("Asked to stop"), cells.moment(run.cancel_requested_at) if run.cancel_requested_at else None),
        (_("Asked to pause"), cells.moment(run.pause_requested_at) if run.pause_requested_at else None),
        (_("Forked from"), str(run.forked_from) if run.forked_from else None),
    ]
    return [(label, value) for label, value in facts if value is not None]


def _duration(run: Run) -> str | None:
    return cells.duration(run.started_at, run.finished_at or clock.utcnow()) if run.started_at else None


def _worker(run: Run, worker: Worker | None) -> str | None:
    if run.leased_by is None:
        return None
    return format_html("{}", visible(str(worker))) if worker else cells.short_id(run.leased_by)


def _buttons(request: HttpRequest, run: Run) -> list[dict[str, Any]]:
    """The verbs that fit this run and that this person may use."""
    is_live = run.status in LIVE
    is_going_on = is_live and run.cancel_requested_at is None
    is_pausing = run.status == Status.RUNNING and run.pause_requested_at is not None
    offers = [
        ("event", _("Send an event"), "send_event", is_live),
        ("pause", PAUSE.label, PAUSE.permission, is_going_on and run.status not in RESUMABLE and not is_pausing),
        ("resume", RESUME.label, RESUME.permission, run.status in RESUMABLE or is_pausing),
        ("rerun", RERUN.label, RERUN.permission, True),
        ("fork", _("Fork"), RERUN.permission, run.claims > 0),
        ("cancel", CANCEL.label, CANCEL.permission, is_going_on),
    ]
    return [
        {"url": f"admin:django_durable_run_{verb}", "label": label, "verb": verb}
        for verb, label, permission, fits in offers
        if fits and may(request, permission)
    ]
