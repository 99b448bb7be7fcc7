"""Filters of the runs: fixed choices and the registry, never a SELECT DISTINCT over the runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from ..client.listing import LIMIT_MOST
from ..models import Worker
from ..models.run import STATUS_LABELS
from ..store.database import Database
from ..workflows.registry import workflows
from .text import visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class ColumnFilter(admin.SimpleListFilter):
    """A column of the run that equals one of our choices; any other value matches nothing."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        if value not in {choice for choice, _label in self.lookup_choices}:
            return queryset.none()
        return queryset.filter(**{str(self.parameter_name): value})


class StatusFilter(ColumnFilter):
    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        return [(status.value, label) for status, label in STATUS_LABELS.items()]


class WorkflowFilter(ColumnFilter):
    title = _("workflow")
    parameter_name = "workflow"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        return [(name, visible(name)) for name in sorted(workflows())]


class QueueFilter(ColumnFilter):
    """The queues of the registered workflows, and those that workers serve."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        served = Worker.objects.using(Database().alias).filter(stopped_at=None).values_list("queues", flat=True)
        names = {workflow.options.queue for workflow in workflows().values()}
        names.update(str(name) for queues in served[:LIMIT_MOST] for name in queues)
        return [(name, visible(name)) for name in sorted(names)]
