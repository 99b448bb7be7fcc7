"""Runs as a file of JSON lines, for those who may look at them: with their values for who may view payloads. The last
line says that it is the last."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Q
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ..client.exporting import Document, export_end, export_runs
from ..client.listing import EXCERPT
from ..core.journal.states import PayloadKind
from ..core.payloads.codec import encode
from ..models import Run
from ..store.database import Database
from ..store.reading import read_only
from .finding import frozen, walk
from .forms import SelectionForm, SweepForm
from .payloads import decoded, exported, exported_line
from .permissions import may
from .sweeping import chosen_by, described
from .tabs import address_of
from .text import cut, cut_front
from .verbs import AT_ONCE, write_down

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

IN_MEMORY = 20
"""Runs with all that is stored of them."""
SECRET = frozenset({PayloadKind.INPUT, PayloadKind.OUTPUT})
KINDS = {
    **{kind: str(kind) for kind in (PayloadKind.INPUT, PayloadKind.OUTPUT, PayloadKind.ERROR, PayloadKind.NOTES)},
    PayloadKind.RETRY: "error",
    PayloadKind.PROGRESS: "progress",
    PayloadKind.BLOCK: "block",
}
"""What each is to who redacts. The other kinds are names and fingerprints."""


class Export:
    """It is asked about as the verbs are, and changes nothing."""

    name = "export"
    label: StrOrPromise = _("Export")
    question = ngettext_lazy("Export this run?", "Export these %(count)d runs?", "count")
    eligible = of_its_row = Q()
    consequence: StrOrPromise = _(
        "A file with a line of JSON for each run: its journal, errors, events, tags and how its children stand. "
        "Inputs, outputs, values and the log are in it for those who may view payloads. "
        "The last line says how many runs there are: a file that lacks it was cut off."
    )


EXPORT = Export()


def form_of_one(request: HttpRequest, run: Run) -> dict[str, Any]:
    """Where a form is sent, and with what in it, whose answer is the file with this run: the action on the list, as it
    is confirmed for one run that is ticked."""
    sent = {"action": "export_selected", ACTION_CHECKBOX_NAME: run.pk, "ids": run.pk.hex, "confirmed": "1"}
    return {"url": address_of(request, "django_durable_run_changelist"), "sent": sent.items()}


def selected(form: SelectionForm, model_admin: Any, request: HttpRequest) -> HttpResponseBase:
    """Exactly those that were named."""
    runs = model_admin.get_queryset(request).filter(pk__in=form.cleaned_data["ids"])
    found = list(runs.only("workflow").order_by("-pk"))
    write_down(request.user, found, EXPORT.label, form.cleaned_data["reason"])  # type: ignore[arg-type]
    return _file(request, [[run.pk for run in found]], name=str(found[0].pk) if len(found) == 1 else "runs")


def everything(form: SweepForm, model_admin: Any, request: HttpRequest) -> HttpResponseBase:
    """All that match. One entry of Django's history tells of it, and what was chosen."""
    chosen, reason = frozen(chosen_by(request), None, form.cleaned_data["upto"]), form.cleaned_data["reason"]
    told = ", ".join(f"{label}: {value}" for label, value in described(chosen, as_text=True))
    LogEntry.objects.create(
        user_id=cast(int, request.user.pk),
        content_type=ContentType.objects.get_for_model(Run),
        object_repr=told[:200],
        action_flag=CHANGE,
        change_message=f"{EXPORT.label}: {reason}" if reason else str(EXPORT.label),
    )
    runs = model_admin.get_queryset(request)
    return _file(request, (ids for ids, _place in walk(runs, chosen, Q(), AT_ONCE)))


def _file(request: HttpRequest, batches: Iterable[list[UUID]], *, name: str = "runs") -> HttpResponseBase:
    lines = _lines(batches, may_see=may(request, "view_payload"))
    response = StreamingHttpResponse(
        _in_threads(lines) if hasattr(request, "scope") else lines, content_type="application/x-ndjson"
    )
    response["Content-Disposition"] = f'attachment; filename="{name}.jsonl"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


def _lines(batches: Iterable[list[UUID]], *, may_see: bool) -> Iterator[str]:
    db, count = Database(), 0
    for ids in batches:
        for start in range(0, len(ids), IN_MEMORY):
            some = ids[start : start + IN_MEMORY]
            with read_only(db):
                # First of all, so that a run that is pruned meanwhile is none of the documents without being here.
                runs = Run.objects.using(db.alias).in_bulk(some)
                documents = list(export_runs(list(runs)))
            for document in documents:
                run = runs[UUID(document["run"]["id"])]
                yield json.dumps(_seen(document, run, may_see=may_see)) + "\n"
                count += 1
    # Its status was sent before the first line: where a later one fails, this is all that can tell.
    yield json.dumps(export_end(count)) + "\n"


async def _in_threads(lines: Iterator[str]) -> AsyncIterator[str]:
    while line := await sync_to_async(_next)(lines):
        yield line


def _next(lines: Iterator[str]) -> str:
    """Empty after the last: no StopIteration passes through a future."""
    return next(lines, "")


def _seen(document: Document, run: Run, *, may_see: bool) -> Document:
    """What of a document this person may have: of what the run's page shows to everybody, as much as that does."""
    payloads = {
        kind: _of(run, KINDS[PayloadKind(kind)], text, is_whole=may_see) if kind in KINDS else text
        for kind, text in document["payloads"].items()
        if may_see or kind not in SECRET
    }
    journal = [
        {
            **entry,
            "value": _of(run, "value", entry["value"]) if may_see else None,
            "error": _of(run, "error", entry["error"], is_whole=may_see),
        }
        for entry in document["journal"]
    ]
    events = [
        {**event, "payload": _of(run, "event", event["payload"]) if may_see else None} for event in document["events"]
    ]
    lines = document["log"] if may_see else []
    log = [{**line, "message": exported_line(run, line["message"], line["attempt"])} for line in lines]
    return {**document, "payloads": payloads, "journal": journal, "events": events, "log": log}


def _of(run: Run, kind: str, text: str | None, *, is_whole: bool = True) -> str | None:
    found = None if text is None else exported(run, kind, text)
    if found is None or is_whole or len(found) <= EXCERPT:
        return found
    error = decoded(found)
    if kind != "error" or not isinstance(error, Mapping):
        return None
    parts = {name: str(error.get(name) or "") for name in ("type", "message", "traceback")}
    return encode(
        {
            "type": cut(parts["type"], EXCERPT),
            "message": cut(parts["message"], EXCERPT),
            "traceback": cut_front(parts["traceback"], EXCERPT),
        }
    )
