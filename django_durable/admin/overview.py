"""The overview: what is wrong, first and in words; then queues, workers, and what happened lately."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ..client.holding import held_by, holds
from ..client.listing import heard_of_since
from ..client.standing import Bounded, Standing, standing
from ..client.statistics import EVENTS, Bucket, Counts, by_queue, series
from ..core.journal.states import Status
from ..models import Hold, Worker
from ..workflows.registry import workflows
from . import cells
from .chart import chart
from .confirming import page
from .fragments import ago, fragment
from .holding import HOLD, button, line_of
from .needs import needs_of
from .permissions import may, may_look, view_of
from .tabs import address_of, runs_url
from .troubles import lately, since_when
from .workers import LABELS, names_of, state_of

EVERY, CHARTS_EVERY = 5, 30
"""Seconds. What the charts are drawn of is counted by the minute, and a day of it is many rows."""
RECENT = timedelta(minutes=5)
SILENT_SHOWN = timedelta(hours=1)
"""So long a worker that died is told of: a day of deployments leaves dozens."""
QUEUES_SHOWN, WORKERS_SHOWN, HOLDS_SHOWN = 100, 100, 10
VERSION_SHOWN = 20
TEMPLATES = "admin/django_durable/overview"


# --- addresses -------------------------------------------------------------------------------


def urls(model_admin: Any) -> list[URLPattern]:
    """The overview's addresses, among those of the runs."""
    views = {
        "": ("django_durable_overview", show),
        "fragment/": ("django_durable_overview_fragment", show_live),
        "charts/": ("django_durable_overview_charts", show_charts),
    }
    return [path(f"overview/{place}", view_of(model_admin, view), name=name) for place, (name, view) in views.items()]


def show(model_admin: Any, request: HttpRequest) -> HttpResponse:
    template = f"{TEMPLATES}/page.html"
    return _refused(model_admin, request) or page(model_admin, request, template, _("Overview"), {"tab": "overview"})


def show_live(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """What changes from one second to the next."""
    request.current_app = model_admin.admin_site.name
    return _refused(model_admin, request) or fragment(request, f"{TEMPLATES}/live.html", live_context(request))


def show_charts(model_admin: Any, request: HttpRequest) -> HttpResponse:
    return _refused(model_admin, request) or fragment(request, f"{TEMPLATES}/charts.html", charts_context())


def _refused(model_admin: Any, request: HttpRequest) -> HttpResponse | None:
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    return None


# --- what is shown ---------------------------------------------------------------------------


def context_of(request: HttpRequest) -> dict[str, Any]:
    """All of it, in a bounded number of bounded queries; nothing for those who may not look at runs, and nothing on a
    site that has no runs: it has no addresses to ask again, nor to lead to."""
    live_url = address_of(request, "django_durable_overview_fragment")
    if not live_url or not may_look(request, "run"):
        return {"may_look": False}
    return {
        "may_look": True,
        "live_url": live_url,
        "charts_url": address_of(request, "django_durable_overview_charts"),
        "live_every": EVERY,
        "charts_every": CHARTS_EVERY,
        **live_context(request),
        **charts_context(),
    }


def charts_context() -> dict[str, Any]:
    hour, day = last_day()
    return {
        "zone": get_current_timezone_name(),
        "charts": [
            chart("durable-hour", _("The last hour, by the minute"), hour),
            chart("durable-day", _("The last day, by fifteen minutes"), day),
        ],
    }


def last_day() -> tuple[list[Bucket], list[Bucket]]:
    """The last hour by the minute and the last day by fifteen, in one query: the day's minutes have both."""
    minutes, day = series(timedelta(days=1), 24 * 60), dict[datetime, Bucket]()
    for one in minutes:
        begins = one.at - timedelta(minutes=one.at.minute % 15)
        bucket = day.setdefault(begins, Bucket(begins))
        for event in EVENTS:
            setattr(bucket, event, getattr(bucket, event) + getattr(one, event))
    # Before these the day may begin with a part of fifteen minutes.
    return minutes[-60:], list(day.values())[-96:]


def live_context(request: HttpRequest) -> dict[str, Any]:
    failed, found = lately(), holds()
    held = {hold.name: hold for hold in found if hold.kind == Hold.QUEUE}
    stands = standing(failed_since=since_when(failed), held=held_by(found))
    heard, last = heard_of_since(stands.now - SILENT_SHOWN)
    alive = [worker for worker in heard if not worker.is_isolated and state_of(worker, stands.now) == "alive"]
    served = {str(queue) for worker in alive for queue in worker.queues}
    # Where nobody is alive at all one sentence says so, and not one for each queue.
    unserved = {name: queue.startable for name, queue in stands.queues.items() if alive and name not in served}
    recent = by_queue(RECENT)
    names = {*stands.queues, *served, *recent, *held, *(each.options.queue for each in workflows().values())}
    return {
        "is_dead": not alive,
        "last_heard": _last_heard(last, stands.now) if last and not alive and may_look(request, "worker") else "",
        "needs": needs_of(request, stands, unserved, failed, has_workers=bool(alive)),
        "holds": [line_of(hold) for hold in found[:HOLDS_SHOWN]],
        "holds_are_cut": len(found) > HOLDS_SHOWN,
        "workflows_url": address_of(request, "django_durable_workflows"),
        "queues": [
            _queue_row(
                request, name, stands, recent.get(name, Counts()), held.get(name), is_served=name in served or not alive
            )
            for name in _in_sight(names, stands, recent, held)
        ],
        "may_hold": may(request, HOLD),
        "queues_are_cut": len(names) > QUEUES_SHOWN,
        "may_see_workers": may_look(request, "worker"),
        "workers_url": address_of(request, "django_durable_worker_changelist"),
        "workers": [_worker_row(request, worker, stands) for worker in heard[:WORKERS_SHOWN]],
        "workers_are_cut": len(heard) > WORKERS_SHOWN,
    }


def _last_heard(worker: Worker, now: datetime) -> str:
    """Of whoever that was, whenever: without a worker one asks since when there is none, and whether it was stopped."""
    if worker.stopped_at is None:
        return format_html(_("{} was heard of last, {} ago."), cells.name(str(worker)), ago(worker.heartbeat_at, now))
    stopped = ago(worker.stopped_at, now)
    return format_html(_("{} was heard of last: it stopped {} ago."), cells.name(str(worker)), stopped)


def _in_sight(
    names: Iterable[str], stands: Standing, recent: Mapping[str, Counts], held: Mapping[str, Hold]
) -> list[str]:
    """By name; of too many those that would be missed."""

    def place(name: str) -> tuple[bool, bool, bool, str]:
        queue = stands.of(name)
        is_failing, is_ready = recent.get(name, Counts()).failed > 0, bool(queue.startable)
        return name not in held, not is_failing, not is_ready, name

    return sorted(sorted(names, key=place)[:QUEUES_SHOWN])


def _queue_row(
    request: HttpRequest, name: str, stands: Standing, recent: Counts, hold: Hold | None, *, is_served: bool
) -> dict[str, Any]:
    queue = stands.of(name)

    def linked(count: Bounded, status: Status) -> tuple[str, str]:
        return cells.bounded(count), runs_url(request, status=status, queue=name) if count or count.is_more else ""

    return {
        "name": cells.name(name),
        "url": runs_url(request, queue=name),
        # Without a worker there is no harm in it while there is nothing to do.
        "pills": [
            *([cells.pill("held", pgettext("queue", "held"))] if hold else []),
            *([] if is_served else [cells.pill("unserved" if queue.startable else "idle", _("no worker"))]),
        ],
        "button": button(request, Hold.QUEUE, name, is_held=hold is not None, back="overview"),
        "ready": linked(queue.startable, Status.QUEUED),
        "oldest": ago(queue.oldest, stands.now) if queue.oldest else "",
        "running": linked(queue.running, Status.RUNNING),
        "waiting": linked(queue.waiting, Status.WAITING),
        "scheduled": linked(queue.scheduled, Status.SCHEDULED),
        **_rates(recent),
    }


def _rates(recent: Counts) -> Mapping[str, Any]:
    """How many end in a minute, and how many of a hundred of those that came to their end by themselves fail."""
    ended, through = recent.succeeded + recent.failed + recent.cancelled, recent.succeeded + recent.failed
    rate = ended / (RECENT.total_seconds() / 60)
    return {
        "is_busy": rate > 0,
        "throughput": number_format(rate, decimal_pos=1 if 0 < rate < 100 else 0, force_grouping=True),
        "failing": f"{number_format(100 * recent.failed / through, decimal_pos=1)} %" if through else "",
        "is_failing": bool(recent.failed),
    }


def _worker_row(request: HttpRequest, worker: Worker, stands: Standing) -> dict[str, Any]:
    state = state_of(worker, stands.now)
    return {
        "id": worker.pk,
        "pill": cells.pill(state, LABELS[state]),
        "url": address_of(request, "django_durable_worker_change", worker.pk),
        "host": cells.name(worker.host),
        "pid": worker.pid,
        "is_isolated": worker.is_isolated,
        "queues": names_of(worker.queues),
        "used": stands.held[worker.pk],
        "runs_url": runs_url(request, worker=str(worker.pk)) if stands.held[worker.pk] else "",
        "slots": worker.concurrency,
        "heartbeat": ago(worker.heartbeat_at, stands.now),
        "version": cells.name(worker.version, VERSION_SHOWN),
    }
