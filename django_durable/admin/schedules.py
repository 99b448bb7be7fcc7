"""The list of schedules, with switches, and the addresses of a page's buttons. What the code declares belongs to the
code; the others are made, changed and removed here."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from ..core import clock
from ..core.names import NAME_MAX
from ..models import Schedule
from . import cells, schedule_editing, schedule_page, schedule_preview, schedule_removing, schedule_steering
from .filters import ScheduleFilter
from .payloads import shown_problem
from .permissions import may, view_of
from .schedule_standing import Standing, pills, standing_of
from .schedule_steering import disable_selected, enable_selected
from .schedule_verbs import ADD, SWITCH
from .steered import SteeredAdmin
from .tabs import leads_to
from .text import visible


class ScheduleList(ChangeList):
    """Of the page that is shown it is read how its schedules stand, and of no other row."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # Django counts all of them for a list of some alone, and would say beside the number of all: show all.
        if not self.query and not self.has_active_filters:
            self.full_result_count = self.result_count
        found: list[Schedule] = list(self.result_list)
        standings, may_see = standing_of(found, clock.utcnow()), leads_to(request, "run")
        for schedule in found:
            # One that went meanwhile stands nowhere.
            standing = standings.get(schedule.pk, Standing(False, ()))
            schedule._admin_standing, schedule._admin_may_see = standing, may_see  # type: ignore[attr-defined]
        self.result_list = found


def _standing(schedule: Schedule) -> Standing:
    found: Standing = schedule._admin_standing  # type: ignore[attr-defined]
    return found


class ScheduleAdmin(SteeredAdmin):
    verbs: ClassVar = {
        "enable": schedule_steering.enable,
        "disable": schedule_steering.disable,
        "fire": schedule_steering.fire,
        "backfill": schedule_steering.backfill,
        "edit": schedule_editing.edit,
        "remove": schedule_removing.remove,
    }
    gone = _("There is no schedule %s: somebody has removed it, or it is in the code no more.")
    list_display = ["workflow_name", "schedule_name", "state", "fires", "next", "last"]
    list_display_links = ["workflow_name"]
    list_filter = [ScheduleFilter]
    list_filter_names = ("status",)
    search_fields = ["workflow", "name"]
    search_help_text = _("A part of the name of a workflow or of a schedule.")
    ordering = ["workflow", "name"]
    actions = [enable_selected, disable_selected]

    class Media:
        css = {"all": ["django_durable/schedule.css"]}

    def get_urls(self) -> list[URLPattern]:
        view = view_of(self, schedule_preview.preview)
        return [path("preview/", view, name="django_durable_schedule_preview"), *super().get_urls()]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return ScheduleList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Nothing for what is longer than a workflow and a name together: Django makes a condition of each word, and
        SQLite takes a thousand of them."""
        if len(search_term) > 2 * NAME_MAX:
            return queryset.none(), False
        return super().get_search_results(request, queryset, search_term)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may(request, ADD) and self.has_view_permission(request)

    def has_change_schedule_permission(self, request: HttpRequest) -> bool:
        return may(request, SWITCH)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return schedule_editing.add(self, request)

    @admin.display(description=_("status"))
    def state(self, schedule: Schedule) -> str:
        """With what is wrong where it cannot fire."""
        shown = pills(schedule, _standing(schedule))
        if not schedule.problem:
            return shown
        return format_html('{} <span class="durable-quiet">{}</span>', shown, cells.name(shown_problem(schedule)))

    @admin.display(description=_("workflow"))
    def workflow_name(self, schedule: Schedule) -> str:
        return cells.name(schedule.workflow)

    @admin.display(description=_("name"))
    def schedule_name(self, schedule: Schedule) -> str:
        return cells.name(schedule.name)

    @admin.display(description=pgettext_lazy("schedule", "fires"))
    def fires(self, schedule: Schedule) -> str:
        return schedule_preview.shown_expression(schedule.expression, schedule.timezone)

    @admin.display(description=_("next"))
    def next(self, schedule: Schedule) -> str:
        if not schedule.enabled or schedule.next_fire_at is None:
            return cells.NOTHING
        return cells.due(schedule.next_fire_at, clock.utcnow())

    @admin.display(description=_("last"))
    def last(self, schedule: Schedule) -> str:
        """When it was due last, and the run that it has started last."""
        run = next(iter(_standing(schedule).latest), None)
        if run is None or schedule.last_scheduled_for:
            when = cells.relative(schedule.last_scheduled_for, clock.utcnow())
        else:
            when = ""  # by hand only
        if run is None:
            return when
        if not schedule._admin_may_see:  # type: ignore[attr-defined]
            return format_html("{} {}", when, cells.run_pills(run))
        url = reverse("admin:django_durable_run_change", args=[run.pk], current_app=self.admin_site.name)
        return format_html('<a href="{}">{} {}</a>', url, when, cells.run_pills(run))

    # --- a schedule's page ---------------------------------------------------------------------

    def title_of(self, row: Schedule) -> str:
        return visible(row.name)

    def context_of(self, request: HttpRequest, row: Schedule) -> dict[str, Any]:
        return schedule_page.context_of(request, row)
