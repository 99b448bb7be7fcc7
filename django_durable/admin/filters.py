"""Filters of the runs: fixed choices and the registry, never a SELECT DISTINCT over the runs. And of the schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.timezone import localtime
from django.utils.translation import gettext_lazy as _

from ..client.listing import LIMIT_MOST
from ..client.schedules import failing, late, needing_somebody
from ..core import clock
from ..models import Worker
from ..models.run import STATUS_LABELS
from ..store.database import Database
from ..workflows.registry import workflows
from .finding import ATTENTION, WINDOWS, Chosen, id_of, moment_of, since_of
from .text import cut, visible
from .troubles import LABELS, REASON_LABELS

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

LABEL_SHOWN = 60
WINDOW_LABELS = {
    "10m": _("last 10 minutes"),
    "1h": _("last hour"),
    "1d": _("last 24 hours"),
    "7d": _("last 7 days"),
}


class RunFilter(admin.SimpleListFilter):
    """One of the things that ``Chosen`` knows. Beside our choices an address may name another, which is shown then."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return Chosen.of({str(self.parameter_name): self.value() or ""}).narrow(queryset)

    def choices(self, changelist: Any) -> Iterator[Any]:
        yield from super().choices(changelist)
        value = self.value()
        if value and value not in {str(choice) for choice, _label in self.lookup_choices}:
            query = changelist.get_query_string({self.parameter_name: value})
            yield {"selected": True, "query_string": query, "display": self.label_of(value)}

    def label_of(self, value: str) -> str:
        return cut(visible(value), LABEL_SHOWN)


class StatusFilter(RunFilter):
    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        return [(ATTENTION, _("needs attention")), *((status.value, label) for status, label in STATUS_LABELS.items())]


class TroubleFilter(RunFilter):
    """The lines of the overview. Which runs are of one depends on the moment: only ``find`` and ``walk`` ask."""

    title = _("what is wrong")
    parameter_name = "trouble"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        return list(LABELS.items())


class ReasonFilter(RunFilter):
    title = _("why it is blocked")
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        return [(str(reason), label) for reason, label in REASON_LABELS.items()]


class CreatedFilter(RunFilter):
    """How long ago they were created, which their ids tell; or since when, as an id does."""

    title = _("created")
    parameter_name = "created"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        return [(window, WINDOW_LABELS[window]) for window in WINDOWS]

    def label_of(self, value: str) -> str:
        return _moment_told(_("since %s"), since_of(value)) or super().label_of(value)


class GivenFilter(RunFilter):
    """It offers nothing: a link leads to it."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        value = request.GET.get(str(self.parameter_name))
        return [(value, self.label_of(value))] if value else []


class UntilFilter(GivenFilter):
    title = _("created until")
    parameter_name = "until"

    def label_of(self, value: str) -> str:
        return _moment_told(_("until %s"), id_of(value)) or super().label_of(value)


class ParentFilter(GivenFilter):
    title = _("parent")
    parameter_name = "parent"


class WorkerFilter(GivenFilter):
    """Of which process has them now."""

    title = _("worker")
    parameter_name = "worker"


def _moment_told(text: StrOrPromise, run_id: UUID | None) -> str:
    at = moment_of(run_id) if run_id else None
    return str(text) % f"{localtime(at):%Y-%m-%d %H:%M:%S}" if at else ""


class WorkflowFilter(RunFilter):
    title = _("workflow")
    parameter_name = "workflow"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        return [(name, visible(name)) for name in sorted(workflows())]


class QueueFilter(RunFilter):
    """The queues of the registered workflows, and those that workers serve."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        names = {workflow.options.queue for workflow in workflows().values()} | _served(request)
        return [(name, visible(name)) for name in sorted(names)]


def _served(request: HttpRequest) -> set[str]:
    """Asked once for a request: an action makes all filters anew."""
    found: set[str] | None = getattr(request, "_durable_served", None)
    if found is None:
        workers = Worker.objects.using(Database().alias).filter(stopped_at=None).values_list("queues", flat=True)
        found = {str(name) for queues in workers[:LIMIT_MOST] for name in queues}
        request._durable_served = found  # type: ignore[attr-defined]
    return found


class ScheduleFilter(admin.SimpleListFilter):
    """By the marks of the list, and those that the overview counts."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, StrOrPromise]]:
        return [
            (ATTENTION, _("needs attention")),
            ("late", _("late")),
            ("broken", _("cannot fire")),
            ("failing", _("failing")),
            ("enabled", _("enabled")),
            ("disabled", _("disabled")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        match value:
            case None:
                found = queryset
            case "attention":
                found = queryset.filter(pk__in=needing_somebody(clock.utcnow()).order_by().values("pk"))
            case "late":
                found = queryset.filter(late(clock.utcnow()), enabled=True)
            case "broken":
                found = queryset.filter(~Q(problem=""), enabled=True)
            case "failing":
                found = queryset.filter(failing())
            case "enabled" | "disabled":
                found = queryset.filter(enabled=value == "enabled")
            case _:
                found = queryset.none()
        return found
