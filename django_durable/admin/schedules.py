"""The list of schedules, with switches, and the addresses of a page's buttons. What they start and when belongs to the
code, or to whoever made the row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from ..core import clock
from ..models import Fire, Schedule
from . import cells, schedule_page, schedule_steering
from .confirming import page
from .look_only import LookOnlyAdmin
from .permissions import may
from .schedule_steering import disable_selected, enable_selected
from .schedule_verbs import SWITCH
from .text import cut, visible


class ScheduleAdmin(LookOnlyAdmin):
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

    def get_urls(self) -> list[URLPattern]:
        verbs = {name: getattr(schedule_steering, name) for name in ("enable", "disable", "fire", "backfill")}
        return [*(self._verb_url(name, view) for name, view in verbs.items()), *super().get_urls()]

    def _verb_url(self, name: str, view: Callable[..., HttpResponse]) -> URLPattern:
        wrapped = self.admin_site.admin_view(partial(view, self))
        return path(f"<int:schedule_id>/{name}/", wrapped, name=f"django_durable_schedule_{name}")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The schedule's page, in place of Django's form; everything that changes one has an address of its own."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        schedule = self.get_object(request, object_id)
        if schedule is None:
            text = _("There is no schedule %s; one that is in the code no more is removed.")
            self.message_user(request, text % visible(cut(object_id, 100)), messages.WARNING)
            site = self.admin_site.name
            return HttpResponseRedirect(reverse("admin:django_durable_schedule_changelist", current_app=site))
        context = {**schedule_page.context_of(request, schedule), **(extra_context or {})}
        return page(self, request, "admin/django_durable/schedule/page.html", visible(schedule.name), context)
