"""The list of runs, newest first, and the addresses of a run's page and its buttons."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..core import clock
from ..core.journal.states import Status
from ..models import Run
from . import cells, finding, overview, run_page, search, steering, whole_value, workflows
from .actions import cancel_selected, export_selected, pause_selected, rerun_selected, resume_selected
from .extras import Extras, extras_of
from .filters import (
    CreatedFilter,
    ParentFilter,
    QueueFilter,
    ReasonFilter,
    StatusFilter,
    TroubleFilter,
    UntilFilter,
    WorkerFilter,
    WorkflowFilter,
)
from .finding import Chosen, Found, find, older
from .look_only import CappedPaginator
from .permissions import may
from .steered import SteeredAdmin
from .text import visible

TAGS_SHOWN, TAG_CHARACTERS = 3, 16


class FoundPaginator(CappedPaginator):
    """How many pages there are of what was found; none of them is read here."""

    def __init__(self, found: Found, per_page: int) -> None:
        super().__init__((), per_page)
        self.found = found

    @cached_property
    def _counted(self) -> int:
        return self.found.count


class RunList(ChangeList):
    """Newest first and nothing else: another order of ten million rows has no index."""

    @property
    def looked_at(self) -> str:
        return cells.grouped(finding.LOOKED_AT)

    @cached_property
    def older_url(self) -> str:
        """Of the list of those that come after the last that these pages reach."""
        until = older(self.chosen, self.found, CappedPaginator.most)
        return self.get_query_string({"until": until}) if until else ""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return ["-pk"]

    def get_results(self, request: HttpRequest) -> None:
        """In place of Django's, which counts by reading what matches, and reads everything where that is little."""
        self.chosen, self.found = Chosen.of(self.params, self.query), Found()
        # An action finds for itself what it is for, and shows no list.
        is_action = request.method == "POST" and not {"index", ACTION_CHECKBOX_NAME}.isdisjoint(request.POST)
        ids = [] if is_action else self._find()
        runs: list[Run] = list(self.root_queryset.filter(pk__in=ids).order_by("-pk")) if ids else []
        self.paginator = FoundPaginator(self.found, self.list_per_page)
        self.result_count = self.paginator.count
        # Where these two are the same nothing is said of them beside the search: nor where the first is not all.
        is_told = (self.has_active_filters or self.query) and not self.paginator.is_capped
        self.full_result_count = None if is_told else self.result_count
        self.show_full_result_count, self.show_admin_actions = False, True
        self.can_show_all = self.result_count <= self.list_max_show_all
        self.multi_page = self.result_count > self.list_per_page
        extras = extras_of(runs)
        for run in runs:
            run._admin_extras = extras[run.pk]  # type: ignore[attr-defined]
        self.result_list = runs

    def _find(self) -> list[UUID]:
        """Those of the page that is asked for. Raises IncorrectLookupParameters where there is no such page."""
        most, start = CappedPaginator.most, (self.page_num - 1) * self.list_per_page
        size = self.list_max_show_all if self.show_all else self.list_per_page
        if not 0 <= start < most:
            raise IncorrectLookupParameters
        self.found = find(self.root_queryset, self.chosen, most, slice(start, min(start + size, most)))
        if start and not self.found.ids:
            raise IncorrectLookupParameters
        return self.found.ids if self.found.count <= size else self.found.ids[: self.list_per_page]


def _extras(run: Run) -> Extras:
    found: Extras = run._admin_extras  # type: ignore[attr-defined]
    return found


class RunAdmin(SteeredAdmin):
    verbs: ClassVar = {
        **{name: getattr(steering, name) for name in ("cancel", "pause", "resume", "rerun", "fork", "event")},
        "value": whole_value.value,
        "live": run_page.live,
    }
    key = "uuid"
    gone = _("There is no run %s; runs that are over are removed after some time.")
    list_display = [
        *("state", "workflow_name", "short_id", "step", "progress", "started", "took"),
        *("tries", "queue_name", "worker", "tags"),
    ]
    # Not the id: a click on it selects all of it.
    list_display_links = ["workflow_name"]
    list_filter = [
        *(StatusFilter, TroubleFilter, ReasonFilter, CreatedFilter, UntilFilter, WorkflowFilter, QueueFilter),
        *(ParentFilter, WorkerFilter),
    ]
    list_filter_names = ("status", "trouble", "reason", "created", "until", "workflow", "queue", "parent", "worker")
    search_fields = ["id"]
    search_help_text = _("A whole id, an idempotency key or a tag.")
    actions = [cancel_selected, pause_selected, resume_selected, rerun_selected, export_selected]

    def get_urls(self) -> list[URLPattern]:
        return [*overview.urls(self), *workflows.urls(self), *super().get_urls()]

    # --- the list ------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RunList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        # What the list shows is found by itself. This is for what Django does with rows that were picked on it, and for
        # fields of other models.
        match = request.resolver_match
        is_list = match is not None and match.url_name == "django_durable_run_changelist" and request.method != "POST"
        return queryset if is_list else search.find(queryset, search_term), False

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
        """Of links that are listed without their rows one could not tell which is which."""
        unseen = format_html('<span class="visually-hidden">{}</span>', cells.short_id(run.pk))
        return format_html("{} {}", cells.name(run.workflow), unseen)

    @admin.display(description=_("run"))
    def short_id(self, run: Run) -> str:
        """Seen by its end, and copied as a whole, which is what the search takes."""
        whole, end = str(run.pk), cells.short_id(run.pk)
        rest = format_html('<span class="durable-id-rest" aria-hidden="true">{}</span>', whole.removesuffix(end))
        return format_html('<code class="durable-whole-id" title="{}">{}{}</code>', whole, rest, end)

    @admin.display(description=_("queue"))
    def queue_name(self, run: Run) -> str:
        return cells.name(run.queue)

    @admin.display(description=_("attempt"))
    def tries(self, run: Run) -> str:
        return cells.attempt(run)

    @admin.display(description=_("progress"), empty_value="")
    def progress(self, run: Run) -> str:
        return _extras(run).progress

    @admin.display(description=_("current step"), empty_value="")
    def step(self, run: Run) -> str:
        """Of what failed also why."""
        extras = _extras(run)
        if not extras.error:
            return extras.step
        return format_html('{} <span class="durable-quiet">{}</span>', extras.step, extras.error)

    @admin.display(description=_("worker"), empty_value="")
    def worker(self, run: Run) -> str:
        return _extras(run).worker

    @admin.display(description=_("started"))
    def started(self, run: Run) -> str:
        """Of what has not, since when it could, or when it is to."""
        now = clock.utcnow()
        if run.started_at is None and run.status == Status.QUEUED:
            return format_html(gettext("queued {}"), cells.relative(run.queued_at, now))
        if run.started_at is None and run.status == Status.SCHEDULED and run.wake_at is not None:
            return cells.due(run.wake_at, now)
        return cells.relative(run.started_at, now)

    @admin.display(description=_("duration"))
    def took(self, run: Run) -> str:
        return cells.duration(run.started_at, run.finished_at or clock.utcnow())

    @admin.display(description=_("tags"), empty_value="")
    def tags(self, run: Run) -> str:
        names = _extras(run).tags
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
