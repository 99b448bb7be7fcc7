"""What a line of the list shows from other tables, read for the whole page at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Case, CharField, Exists, F, OuterRef, QuerySet, Subquery, Value, When
from django.db.models.functions import Cast, Concat, Left
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext

from ..client.listing import EXCERPT, Excerpt, Size
from ..client.redacting import is_redacting
from ..core.journal.outcomes import TRIED_AGAIN
from ..core.journal.states import EntryStatus, PayloadKind, Status
from ..models import JournalEntry, Payload, Run, Tag, Worker
from ..store.database import Database
from . import cells
from .payloads import seen, shown_error
from .text import visible

LONG = 500
"""Entries of a journal that is not looked through for a line of a list."""
BEYOND = "beyond"
"""In place of status and path of the newest entry of such a one."""
STEP_SHOWN, HOST_SHOWN, ERROR_SHOWN = 40, 40, 60
ERROR_MOST = 8_192
"""Characters of an error that a list tells of: who redacts is asked about all of it. Of a longer one its page tells."""
CHARACTER = r'(?:[^"\\]|\\u[0-9a-f]{4}|\\[^u])'
ERROR_BEGINS = re.compile(rf'{{"type":"{CHARACTER}*","message":"{CHARACTER}*')
"""As it is stored: what a list shows of it comes first, and most of the rest is its traceback. Not for the database to
take out: at an escaped NUL, half a character and damaged text PostgreSQL's functions for JSON end the whole query."""
OVER = frozenset({EntryStatus.SUCCEEDED, EntryStatus.FAILED, EntryStatus.ABANDONED})


@dataclass(slots=True)
class Extras:
    progress: str = ""
    tags: list[str] = field(default_factory=list)
    step: str = ""
    error: str = ""
    worker: str = ""


def extras_of(runs: Sequence[Run]) -> dict[UUID, Extras]:
    """In one query, of as many parts as there are tables."""
    extras = {run.pk: Extras(step=_awaited(run), worker=_unknown(run)) for run in runs}
    by_id = {run.pk: run for run in runs}
    for run_id, what, text in _read(runs) if runs else []:
        match what:
            case "tag":
                extras[run_id].tags.append(text)
            case "progress" if len(text) <= EXCERPT:
                extras[run_id].progress = cells.progress(seen(by_id[run_id], "progress", text), with_words=True)
            case "step" if text:
                extras[run_id].step = _latest(text)
            case "failed" if text:
                extras[run_id].step = cells.name(text, STEP_SHOWN)
            case "error":
                extras[run_id].error = _error(by_id[run_id], text)
            case "worker" if text:
                extras[run_id].worker = _named(text)
    for one in extras.values():
        one.tags.sort()
    return extras


def _read(runs: Sequence[Run]) -> QuerySet[Any, Any]:
    alias = Database().alias
    ids = [run.pk for run in runs]
    held, begun, failed = (
        Run.objects.using(alias).filter(pk__in=[run.pk for run in runs if run.status in statuses])
        for statuses in ({Status.RUNNING}, {Status.RUNNING, Status.BLOCKED}, {Status.FAILED})
    )
    said = Payload.objects.using(alias).filter(run_id__in=ids, kind=PayloadKind.PROGRESS)
    raised = Payload.objects.using(alias).filter(run__in=failed, kind=PayloadKind.ERROR)
    told = raised.annotate(size=Size("data")).filter(size__lte=ERROR_MOST)
    tags = Tag.objects.using(alias).filter(run_id__in=ids)
    parts = [
        _part(tags.annotate(text=Cast("name", CharField())), "run_id", "tag"),
        _part(said.annotate(text=Left("data", EXCERPT + 1)), "run_id", "progress"),
        _part(begun.annotate(text=_newest_entry()), "pk", "step"),
        _part(failed.annotate(text=_failed_last()), "pk", "failed"),
        _part(told.annotate(text=Left("data", ERROR_MOST if is_redacting() else EXCERPT)), "run_id", "error"),
        _part(held.annotate(text=_holder()), "pk", "worker"),
    ]
    return parts[0].union(*parts[1:], all=True)


def _part(rows: QuerySet[Any], key: str, what: str) -> QuerySet[Any, Any]:
    found: QuerySet[Any, Any] = rows.annotate(what=Value(what, CharField())).values_list(key, "what", "text")
    return found


def _newest_entry() -> Case:
    """Status and path of what a run has journaled last."""
    return _newest(Concat("status", Value(":"), "path"), BEYOND)


def _failed_last() -> Case:
    """The path of what failed last in a run: what it did after that was to undo what it had done."""
    return _newest(F("path"), status=EntryStatus.FAILED)


def _newest(text: Any, beyond: str = "", **only: str) -> Case:
    """Of the last entry; ``beyond`` where that is to be looked for among very many."""
    journal = JournalEntry.objects.filter(run_id=OuterRef("pk")).order_by()
    newest = journal.filter(**only).order_by("-seq").annotate(text=text).values("text")[:1]
    return Case(When(Exists(journal[LONG : LONG + 1]), then=Value(beyond)), default=Subquery(newest))


def _error(run: Run, text: str) -> str:
    """Class and message, as the function that redacts lets them be seen."""
    text = _with_end(text)
    error = shown_error(run, Excerpt(text, len(text)))
    if error is None or not error.type:
        return ""
    return cells.name(": ".join(part for part in (error.cause, error.reason) if part), ERROR_SHOWN)


def _with_end(text: str) -> str:
    """Of an error of which no more was read: its type and message, or the beginning of this, as an error."""
    begins = ERROR_BEGINS.match(text) if len(text) == EXCERPT and not is_redacting() else None
    return f'{begins[0]}"}}' if begins else text


def _holder() -> Subquery:
    workers = Worker.objects.filter(pk=OuterRef("leased_by"))
    return Subquery(workers.annotate(text=Concat("host", Value(":"), Cast("pid", CharField()))).values("text")[:1])


def _named(worker: str) -> str:
    """Whole in its title: how much of it is seen is for the column to say."""
    return format_html('<span title="{}">{}</span>', visible(worker), cells.name(worker, HOST_SHOWN))


def _latest(text: str) -> str:
    """What is journaled of a step that succeeded is its end: the run has come to whatever is after it."""
    if text == BEYOND:
        told = gettext("more than {} entries")
        return format_html('<span class="durable-quiet">{}</span>', told.format(number_format(LONG)))
    status, _, path = text.partition(":")
    shown = cells.name(path, STEP_SHOWN)
    return format_html(gettext("after {}"), shown) if status in OVER else shown


def _awaited(run: Run) -> str:
    """Its row says what a waiting run waits on."""
    if run.status != Status.WAITING:
        return ""
    if run.waiting_on == TRIED_AGAIN:
        return gettext("the whole run, again")
    what, _, path = run.waiting_on.partition(":")
    return cells.name(path or what, STEP_SHOWN)


def _unknown(run: Run) -> str:
    """A worker that has told nothing of itself by its id."""
    return _named(cells.short_id(run.leased_by)) if run.leased_by else ""
