"""The list of worker processes: who they are, what they serve, whether they live; and what one of them works on."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Case, DateTimeField, F, Q, QuerySet, Value, When
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext_lazy as _

from ..client.listing import silent_since
from ..core import clock
from ..core.journal.states import Status
from ..models import Run, Worker
from ..store.database import Database
from . import cells
from .confirming import named
from .journal import Listing
from .steered import SteeredAdmin
from .tabs import leads_to, runs_url
from .text import visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

RUNS_SHOWN = 50
NAMES_SHOWN = 500
"""Queues and workflows that the page of one names."""
NAMES_IN_A_LINE = 12
"""Queues that a line of a list names."""
LABELS = {"alive": _("alive"), "silent": _("silent"), "stopped": _("stopped")}


class WorkerAdmin(SteeredAdmin):
    key = "uuid"
    gone = _("There is no worker %s; those that are long gone are removed.")
    list_display = ["state", "host_name", "process", "served", "slots", "heartbeat", "since", "version_name"]
    list_display_links = ["host_name"]

    def get_ordering(self, request: HttpRequest) -> list[Any]:
        """Those that live first, each at its place whenever it is looked at; then those that were heard of last."""
        lives = Q(stopped_at=None, heartbeat_at__gte=silent_since(clock.utcnow()))
        gone = Case(When(lives, then=Value(None)), default=F("heartbeat_at"), output_field=DateTimeField())
        return [gone.desc(nulls_first=True), "host", "pid", "pk"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found = super().get_queryset(request)
        # A process may know hundreds of workflows; only its own page names them.
        return found.defer("workflows")

    @admin.display(description=_("state"))
    def state(self, worker: Worker) -> str:
        state = state_of(worker, clock.utcnow())
        return cells.pill(state, LABELS[state])

    @admin.display(description=_("host"))
    def host_name(self, worker: Worker) -> str:
        return cells.name(worker.host)

    @admin.display(description=_("process"))
    def process(self, worker: Worker) -> str:
        return str(worker.pid)

    @admin.display(description=_("queues"))
    def served(self, worker: Worker) -> str:
        return names_of(worker.queues)

    @admin.display(description=_("slots"))
    def slots(self, worker: Worker) -> str:
        return str(worker.concurrency)

    @admin.display(description=_("heartbeat"))
    def heartbeat(self, worker: Worker) -> str:
        return cells.relative(worker.heartbeat_at, clock.utcnow())

    @admin.display(description=_("started"))
    def since(self, worker: Worker) -> str:
        return cells.relative(worker.started_at, clock.utcnow())

    @admin.display(description=_("version"), empty_value="")
    def version_name(self, worker: Worker) -> str:
        return visible(worker.version)

    # --- a worker's page -----------------------------------------------------------------------

    def title_of(self, row: Worker) -> str:
        return visible(str(row))

    def context_of(self, request: HttpRequest, row: Worker) -> dict[str, Any]:
        """All that the page shows. Its runs are for those only who may look at runs."""
        now = clock.utcnow()
        state, may_see_runs = state_of(row, now), leads_to(request, "run")
        return {
            "worker": row,
            "name": cells.name(str(row)),
            "pill": cells.pill(state, LABELS[state]),
            "zone": get_current_timezone_name(),
            "why": WHY[state],
            "facts": _facts(row, now),
            "may_see_runs": may_see_runs,
            "runs": _runs_of(row) if may_see_runs else None,
            "runs_url": runs_url(request, worker=str(row.pk)),
            "queues": _listed(row.queues),
            "workflows": _listed(row.workflows),
        }


WHY = {
    "alive": _("It is alive: it takes up runs of its queues."),
    "silent": _(
        "It has said nothing for some heartbeats, and did not stop in order. Its runs are taken up by others when "
        "their leases end."
    ),
    "stopped": _("It has stopped in order, and takes up nothing any more."),
}


def _facts(worker: Worker, now: datetime) -> list[tuple[StrOrPromise, StrOrPromise]]:
    """Label and value, without those that say nothing."""
    over = worker.stopped_at or (now if state_of(worker, now) == "alive" else worker.heartbeat_at)
    facts: list[tuple[StrOrPromise, StrOrPromise | None]] = [
        (_("Host"), cells.name(worker.host)),
        (_("Process"), str(worker.pid)),
        (_("Slots"), str(worker.concurrency)),
        (_("Version"), cells.name(worker.version) if worker.version else None),
        (_("Kind"), _("isolated: it runs suspect runs, one at a time") if worker.is_isolated else None),
        (_("Started"), cells.moment(worker.started_at)),
        (_("Up for"), cells.rough(over - worker.started_at)),
        (_("Heartbeat"), cells.relative(worker.heartbeat_at, now)),
        (_("Stopped"), cells.moment(worker.stopped_at) if worker.stopped_at else None),
    ]
    return [(label, value) for label, value in facts if value is not None]


def _runs_of(worker: Worker) -> Listing:
    """What it works on, what it has longest first."""
    runs = Run.objects.using(Database().alias).filter(leased_by=worker.pk, status=Status.RUNNING)
    rows = ({**named(run), "started": cells.moment(run.started_at)} for run in runs.order_by("pk")[: RUNS_SHOWN + 1])
    return Listing.of(rows, RUNS_SHOWN)


def _listed(names: Any) -> Listing:
    """What a worker serves or knows, in the order of the alphabet."""
    listed = sorted(str(name) for name in names) if isinstance(names, list) else [str(names)]
    return Listing.of((cells.name(name) for name in listed[: NAMES_SHOWN + 1]), NAMES_SHOWN)


def state_of(worker: Worker, now: datetime) -> str:
    """``alive``; ``silent``: it has said nothing for some heartbeats and did not stop in order; or ``stopped``."""
    if worker.stopped_at is not None:
        return "stopped"
    return "alive" if worker.heartbeat_at >= silent_since(now) else "silent"


def names_of(names: Any) -> str:
    """What a worker serves, as it has written it down; of very many the first, its page has the others."""
    listed = names if isinstance(names, list) else [names]
    found = format_html_join(", ", "{}", ((cells.name(str(name)),) for name in listed[:NAMES_IN_A_LINE]))
    more = len(listed) - NAMES_IN_A_LINE
    return format_html("{} +{}", found, more) if more > 0 else found
