"""The list of runs, newest first, and the addresses of a run's page and its buttons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from ..core import clock
from ..core.journal.states import PayloadKind
from ..models import Payload, Run, Tag
from ..store.database import Database
from . import cells, run_page, search, steering
from .actions import cancel_selected, pause_selected, rerun_selected, resume_selected
from .filters import QueueFilter, StatusFilter, WorkflowFilter
from .payloads import decoded
from .permissions import may
from .steered import SteeredAdmin
from .text import visible

TAGS_SHOWN, TAG_CHARACTERS = 3, 24


@dataclass(slots=True)
class Extras:
    """What a line of the list shows from other tables, read for the whole page at once."""

    progress: str = ""
    tags: list[str] = field(default_factory=list)


class RunList(ChangeList):
    """Newest first and nothing else: another order of ten million rows has no index."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return ["-pk"]

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        runs: list[Run] = list(self.result_list)
        extras = _extras([run.pk for run in runs])
        for run in runs:
            run._admin_extras = extras[run.pk]  # type: ignore[attr-defined]
        self.result_list = runs


def _extras(ids: list[UUID]) -> dict[UUID, Extras]:
    alias = Database().alias
    extras = {run_id: Extras() for run_id in ids}
    said = Payload.objects.using(alias).filter(run_id__in=ids, kind=PayloadKind.PROGRESS)
    for run_id, text in said.values_list("run_id", "data"):
        extras[run_id].progress = cells.progress(decoded(text))
    for run_id, tag in Tag.objects.using(alias).filter(run_id__in=ids).order_by("name").values_list("run_id", "name"):
        extras[run_id].tags.append(tag)
    return extras


def _extras_of(run: Run) -> Extras:
    found: Extras = run._admin_extras  # type: ignore[attr-defined]
    return found


class RunAdmin(SteeredAdmin):
    verbs: ClassVar = {
        name: getattr(steering, name) for name in ("cancel", "pause", "resume", "rerun", "fork", "event")
    }
    key = "uuid"
    gone = _("There is no run %s; runs that are over are removed after some time.")
    list_display = ["state", "workflow_name", "short_id", "started", "took", "progress", "tries", "queue_name", "tags"]
    list_display_links = ["workflow_name", "short_id"]
    list_filter = [StatusFilter, WorkflowFilter, QueueFilter]
    list_filter_names = ("status", "workflow", "queue")
    search_fields = ["id"]
    search_help_text = _("A whole id, an idempotency key or a tag.")
    actions = [cancel_selected, pause_selected, resume_selected, rerun_selected]

    # --- the list ------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RunList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return search.find(queryset, search_term), False

    def has_cancel_run_permission(self, request: HttpRequest) -> bool:
        return may(request, "cancel_run")

    def has_pause_run_permission(self, request: HttpRequest) -> bool:
        return may(request, "pause_run")

    def has_rerun_run_permission(self, request: HttpRequest) -> bool:
        return may(request, "rerun_run")

    def has_resume_run_permission(self, request: HttpRequest) -> bool:
        return may(request, "resume_run")

    @admin.display(description=_("status"))
    def state(self, run: Run) -> str:
        return cells.run_pills(run)

    @admin.display(description=_("workflow"))
    def workflow_name(self, run: Run) -> str:
        return cells.name(run.workflow)

    @admin.display(description=_("run"))
    def short_id(self, run: Run) -> str:
        return format_html('<code title="{}">{}</code>', run.pk, cells.short_id(run.pk))

    @admin.display(description=_("queue"))
    def queue_name(self, run: Run) -> str:
        return cells.name(run.queue)

    @admin.display(description=_("attempt"))
    def tries(self, run: Run) -> str:
        return cells.attempt(run)

    @admin.display(description=_("progress"), empty_value="")
    def progress(self, run: Run) -> str:
        return _extras_of(run).progress

    @admin.display(description=_("started"))
    def started(self, run: Run) -> str:
        return cells.relative(run.started_at, clock.utcnow())

    @admin.display(description=_("duration"))
    def took(self, run: Run) -> str:
        return cells.duration(run.started_at, run.finished_at or clock.utcnow())

    @admin.display(description=_("tags"), empty_value="")
    def tags(self, run: Run) -> str:
        names = _extras_of(run).tags
        shown = format_html_join(
            " ",
            '<span class="durable-tag">{}</span>',
            ((cells.name(tag, TAG_CHARACTERS),) for tag in names[:TAGS_SHOWN]),
        )
        more = len(names) - TAGS_SHOWN
        return format_html("{} +{}", shown, more) if more > 0 else shown

    # --- a run's page --------------------------------------------------------------------------

    def find(self, request: HttpRequest, key: str) -> Run | None:
        return run_page.find(self.get_queryset(request), key)

    def title_of(self, row: Run) -> str:
        return visible(row.workflow)

    def context_of(self, request: HttpRequest, row: Run) -> dict[str, Any]:
        return run_page.context_of(request, row)
