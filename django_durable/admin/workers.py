"""The list of worker processes: who they are, what they serve, whether they live."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy as _

from ..client.listing import MISSED_BEATS
from ..conf import durable_settings
from ..core import clock
from ..models import Worker
from . import cells
from .look_only import LookOnlyAdmin
from .text import visible

LABELS = {"alive": _("alive"), "silent": _("silent"), "stopped": _("stopped")}


class WorkerAdmin(LookOnlyAdmin):
    list_display = ["state", "host_name", "pid", "served", "concurrency", "heartbeat", "since", "version_name"]
    list_display_links = ["host_name"]
    ordering = ["-heartbeat_at"]
    fields = [
        "host_name", "pid", "served", "known", "concurrency", "is_isolated", "version_name", "started_at",
        "heartbeat_at", "stopped_at",
    ]  # fmt: skip
    readonly_fields = ["host_name", "served", "known", "version_name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found = super().get_queryset(request)
        # A process may know hundreds of workflows; only its own page names them.
        return found.defer("workflows")

    @admin.display(description=_("state"))
    def state(self, worker: Worker) -> str:
        state = state_of(worker)
        return cells.pill(state, LABELS[state])

    @admin.display(description=_("host"))
    def host_name(self, worker: Worker) -> str:
        return cells.name(worker.host)

    @admin.display(description=_("queues"))
    def served(self, worker: Worker) -> str:
        return _names(worker.queues)

    @admin.display(description=_("workflows"))
    def known(self, worker: Worker) -> str:
        return _names(worker.workflows)

    @admin.display(description=_("heartbeat"))
    def heartbeat(self, worker: Worker) -> str:
        return cells.relative(worker.heartbeat_at, clock.utcnow())

    @admin.display(description=_("started"))
    def since(self, worker: Worker) -> str:
        return cells.relative(worker.started_at, clock.utcnow())

    @admin.display(description=_("version"), empty_value="")
    def version_name(self, worker: Worker) -> str:
        return visible(worker.version)


def state_of(worker: Worker) -> str:
    """``alive``; ``silent``: it has said nothing for some heartbeats and did not stop in order; or ``stopped``."""
    if worker.stopped_at is not None:
        return "stopped"
    silence = clock.utcnow() - worker.heartbeat_at
    return "alive" if silence < timedelta(seconds=MISSED_BEATS * durable_settings().HEARTBEAT_SECONDS) else "silent"


def _names(names: Any) -> str:
    listed = names if isinstance(names, list) else [names]
    return format_html_join(", ", "{}", ((cells.name(str(name)),) for name in listed))
