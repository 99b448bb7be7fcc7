"""The list of schedules, with switches. What they start and when belongs to the code, or to whoever made the row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from ..client import schedules
from ..core import clock
from ..exceptions import InvalidSchedule
from ..models import Fire, Schedule
from ..store.database import Database
from . import cells
from .look_only import LookOnlyAdmin
from .permissions import may
from .text import visible
from .verbs import write_down

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

SWITCHED_MOST = 200
UPCOMING = 5


@admin.action(permissions=["switch_schedule"], description=_("Enable selected %(verbose_name_plural)s"))
def enable(model_admin: Any, request: HttpRequest, selected: QuerySet[Schedule]) -> None:
    changed = _switch(model_admin, request, selected.filter(enabled=False), schedules.enable, _("Enable"))
    text = ngettext("%(count)d schedule was enabled.", "%(count)d schedules were enabled.", len(changed))
    model_admin.message_user(request, text % {"count": len(changed)}, messages.SUCCESS)
    for schedule in changed:
        if schedule.problem:
            model_admin.message_user(request, visible(f"{schedule}: {schedule.problem}"), messages.WARNING)


@admin.action(permissions=["switch_schedule"], description=_("Disable selected %(verbose_name_plural)s"))
def disable(model_admin: Any, request: HttpRequest, selected: QuerySet[Schedule]) -> None:
    changed = _switch(model_admin, request, selected.filter(enabled=True), schedules.disable, _("Disable"))
    text = ngettext("%(count)d schedule was disabled.", "%(count)d schedules were disabled.", len(changed))
    model_admin.message_user(request, text % {"count": len(changed)}, messages.SUCCESS)


def _switch(
    model_admin: Any, request: HttpRequest, selected: QuerySet[Schedule], act: Callable[..., None], label: StrOrPromise
) -> list[Schedule]:
    found = list(selected.order_by("pk")[:SWITCHED_MOST])
    with Database().transaction():
        for schedule in found:
            act(schedule, actor=request.user.get_username())
        write_down(request.user, found, label)  # type: ignore[arg-type]
    return found


class ScheduleAdmin(LookOnlyAdmin):
    list_display = ["switch", "workflow_name", "schedule_name", "cron", "zone", "next", "last", "trouble"]
    list_display_links = ["workflow_name"]
    ordering = ["workflow", "name"]
    actions = [enable, disable]
    fields = [
        "workflow", "name", "app_label", "expression", "timezone", "overlap", "catch_up", "jitter", "enabled",
        "upcoming", "last_scheduled_for", "problem",
    ]  # fmt: skip
    readonly_fields = ["upcoming"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        fires = Fire.objects.filter(schedule=OuterRef("pk"), run_id__isnull=False).order_by("-scheduled_for")
        found: QuerySet[Any] = super().get_queryset(request).annotate(last_run_id=Subquery(fires.values("run_id")[:1]))
        return found

    def has_switch_schedule_permission(self, request: HttpRequest) -> bool:
        return may(request, "change_schedule")

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

    @admin.display(description=_("next"), empty_value=cells.NOTHING)
    def upcoming(self, schedule: Schedule) -> str | None:
        """The instants to come; a schedule that is off or cannot fire has none."""
        try:
            fires = schedules.next_fires(schedule, UPCOMING) if schedule.enabled else []
        except InvalidSchedule:  # its ``problem`` says why
            fires = []
        return format_html_join(", ", "{}", ((cells.moment(fire),) for fire in fires)) or None

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
