"""The list of schedules, with switches, and the addresses of a page's buttons. What they start and when belongs to the
code, or to whoever made the row."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from ..core import clock
from ..models import Fire, Schedule
from . import cells, schedule_page, schedule_steering
from .permissions import may
from .schedule_steering import disable_selected, enable_selected
from .schedule_verbs import SWITCH
from .steered import SteeredAdmin
from .text import visible


class ScheduleAdmin(SteeredAdmin):
    verbs: ClassVar = {
        "enable": schedule_steering.enable,
        "disable": schedule_steering.disable,
        "fire": schedule_steering.fire,
        "backfill": schedule_steering.backfill,
    }
    gone = _("There is no schedule %s; one that is in the code no more is removed.")
    list_display = ["switch", "workflow_name", "schedule_name", "cron", "zone", "next", "last", "trouble"]
    list_display_links = ["workflow_name"]
    ordering = ["workflow", "name"]
    actions = [enable_selected, disable_selected]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        fires = Fire.objects.filter(schedule=OuterRef("pk"), run_id__isnull=False).order_by("-scheduled_for")
        found: QuerySet[Any] = super().get_queryset(request).annotate(last_run_id=Subquery(fires.values("run_id")[:1]))
        return found

    def has_change_schedule_permission(self, request: HttpRequest) -> bool:
        return may(request, SWITCH)

    @admin.display(description=_("enabled"), boolean=True)
    def switch(self, schedule: Schedule) -> bool:
        return schedule.enabled

    @admin.display(description=_("workflow"))
    def workflow_name(self, schedule: Schedule) -> str:
        return cells.name(schedule.workflow)

    @admin.display(description=_("name"))
    def schedule_name(self, schedule: Schedule) -> str:
        return cells.name(schedule.name)

    @admin.display(description=_("expression"))
    def cron(self, schedule: Schedule) -> str:
        return format_html("<code>{}</code>", visible(schedule.expression))

    @admin.display(description=_("zone"))
    def zone(self, schedule: Schedule) -> str:
        return cells.name(schedule.timezone)

    @admin.display(description=_("next"))
    def next(self, schedule: Schedule) -> str:
        return cells.relative(schedule.next_fire_at, clock.utcnow()) if schedule.enabled else cells.NOTHING

    @admin.display(description=_("last"))
    def last(self, schedule: Schedule) -> str:
        """When it was due last, with the run of the last fire that started one."""
        when = cells.relative(schedule.last_scheduled_for, clock.utcnow())
        run_id = schedule.last_run_id  # type: ignore[attr-defined]
        if run_id is None:
            return when
        url = reverse("admin:django_durable_run_change", args=[run_id], current_app=self.admin_site.name)
        return format_html('<a href="{}">{}</a>', url, when)

    @admin.display(description=_("problem"), empty_value="")
    def trouble(self, schedule: Schedule) -> str:
        return cells.name(schedule.problem)

    # --- a schedule's page ---------------------------------------------------------------------

    def title_of(self, row: Schedule) -> str:
        return visible(row.name)

    def context_of(self, request: HttpRequest, row: Schedule) -> dict[str, Any]:
        return schedule_page.context_of(request, row)
