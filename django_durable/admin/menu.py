"""The workflows as an entry of the admin's menu, which lists models: there is no table of workflows."""

from __future__ import annotations

from typing import Any

from django.apps.registry import Apps
from django.db import models
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _

from .look_only import NothingWritten
from .permissions import may_look


class WorkflowEntry(models.Model):  # noqa: DJ008  (there is never one)
    """Stands for them. In a registry of its own, so that there is no migration, content type or permission of it."""

    class Meta:
        apps = Apps()
        app_label = "django_durable"
        managed = False
        verbose_name = _("workflow")
        verbose_name_plural = _("Workflows")


class WorkflowsEntry(NothingWritten):
    """Nothing but the way to the page, which is among the addresses of the runs."""

    def get_urls(self) -> list[URLPattern]:
        return [path("", self.admin_site.admin_view(self._go), name="django_durable_workflowentry_changelist")]

    def _go(self, request: HttpRequest) -> HttpResponseRedirect:
        return HttpResponseRedirect(reverse("admin:django_durable_workflows", current_app=self.admin_site.name))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may_look(request, "run")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_look(request, "run")
