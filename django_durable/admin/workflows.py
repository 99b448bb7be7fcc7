"""The workflows: what is registered and by whom, how it goes with each, and what an operator may do about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from ..client.backlogs import Backlogs, backlogs
from ..client.holding import holds
from ..client.listing import serving_workers
from ..client.statistics import WorkflowCounts, by_workflow
from ..core.journal.states import Status
from ..core.kinds.sleeps import seconds_of
from ..core.retries import Retry
from ..models import Hold, Worker
from ..models.run import STATUS_LABELS
from ..workflows.definition import Workflow
from ..workflows.registry import declared, workflows
from . import cells, holding, starting
from .axis import spelled
from .confirming import page
from .hold_history import held_lately
from .holding import button
from .permissions import view_of
from .tabs import runs_url
from .text import cut, visible
from .troubles import DAY as LAST_DAY

DAY = timedelta(days=1)
SHOWN, QUEUES_SHOWN, VERSIONS_SHOWN = 500, 100, 3
VERSION_CHARACTERS, STEP_CHARACTERS = 20, 60
LIVE_SHOWN = (Status.QUEUED, Status.RUNNING, Status.WAITING, Status.SCHEDULED, Status.PAUSED, Status.BLOCKED)
PAGE = "admin/django_durable/workflows/page.html"
SINGLETON = {"skip": gettext_lazy("skip"), "cancel_running": gettext_lazy("cancel the running one")}


def urls(model_admin: Any) -> list[URLPattern]:
    """The page's addresses, among those of the runs."""
    views = {
        "": ("django_durable_workflows", show),
        "hold/": ("django_durable_workflows_hold", holding.hold),
        "release/": ("django_durable_workflows_release", holding.release),
        "start/": ("django_durable_workflows_start", starting.start),
    }
    return [path(f"workflows/{place}", view_of(model_admin, view), name=name) for place, (name, view) in views.items()]


def show(model_admin: Any, request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    request.current_app = model_admin.admin_site.name
    return page(model_admin, request, PAGE, _("Workflows"), {"tab": "workflows", **_context(request)})


@dataclass(frozen=True)
class _Known:
    """What a row is made of. ``workflow`` is None where only workers know it."""

    name: str
    workflow: Workflow[Any, Any] | None
    workers: Sequence[Worker]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *(self.workflow.aliases if self.workflow else ()))


def _context(request: HttpRequest) -> dict[str, Any]:
    workers = list(serving_workers().order_by("pk"))
    found = holds()
    lines = list(islice(_known(workers), SHOWN + 1))
    lived, day = backlogs(), by_workflow(DAY, {name: one.name for name, one in workflows().items()})
    held = {(hold.kind, hold.name): hold for hold in found}
    served = {str(queue) for worker in workers for queue in worker.queues}
    queues = sorted({*served, *(workflow.options.queue for workflow in declared().values())})
    going_on = [name for name in queues if (Hold.QUEUE, name) not in held]
    return {
        "holds": [_hold(request, hold) for hold in found],
        "is_dead": not workers,
        "workflows": [_row(request, line, lived, day, held, has_workers=bool(workers)) for line in lines[:SHOWN]],
        "is_cut": len(lines) > SHOWN,
        "queues": [_queue(request, name) for name in going_on[:QUEUES_SHOWN]],
        "queues_are_cut": len(going_on) > QUEUES_SHOWN,
        "held_lately": held_lately(),
    }


def _known(workers: Sequence[Worker]) -> Iterator[_Known]:
    """Those of this process and those of workers, in order. One that workers know by its old name only is one."""
    here, knowing = declared(), defaultdict[str, dict[UUID, Worker]](dict)
    for worker in workers:
        for said in worker.workflows:
            knowing[str(said)][worker.pk] = worker
    for name in sorted(here.keys() | (knowing.keys() - workflows().keys())):
        workflow = here.get(name)
        by_id: dict[UUID, Worker] = {}
        for each in (name, *(workflow.aliases if workflow else ())):
            by_id |= knowing.get(each, {})
        yield _Known(name, workflow, list(by_id.values()))


def _row(
    request: HttpRequest,
    line: _Known,
    lived: Backlogs,
    day: Mapping[str, WorkflowCounts],
    held: Mapping[tuple[str, str], Hold],
    *,
    has_workers: bool,
) -> dict[str, Any]:
    hold = next((held[Hold.WORKFLOW, name] for name in line.names if (Hold.WORKFLOW, name) in held), None)
    queue = line.workflow.options.queue if line.workflow else ""
    return {
        "name": cells.name(line.name),
        "url": runs_url(request, workflow=line.name),
        "app": visible(line.workflow.app_label) if line.workflow else "",
        "pills": list(_pills(line, hold, is_queue_held=(Hold.QUEUE, queue) in held, has_workers=has_workers)),
        "versions": list(_versions(line.workers)),
        "queue": cells.name(queue) if queue else "",
        "queue_url": runs_url(request, queue=queue) if queue else "",
        "options": [] if line.workflow is None else list(_options(line.workflow)),
        "live": list(_live(request, line, lived)),
        **_lately(request, line, day),
        "button": button(request, Hold.WORKFLOW, line.name, is_held=hold is not None),
        "start_url": starting.start_url(request, line.name) if line.workflow else "",
        "start_title": _("Start a run of %s") % visible(line.name),
    }


def _pills(line: _Known, hold: Hold | None, *, is_queue_held: bool, has_workers: bool) -> Iterator[str]:
    if hold is not None:
        yield cells.pill("held", pgettext("workflow", "held"))
    if is_queue_held:
        yield cells.pill("held", _("queue held"))
    if line.workflow is None:
        yield cells.pill("idle", _("not in this process"))
    elif has_workers and not line.workers:
        yield cells.pill("unserved", _("no worker knows it"))


def _versions(workers: Sequence[Worker]) -> Iterator[str]:
    """By which worker versions it is known, those of the process that was started last first."""
    versions = dict.fromkeys(worker.version for worker in sorted(workers, key=lambda one: one.pk, reverse=True))
    told = [cells.name(version, VERSION_CHARACTERS) for version in versions if version]
    yield from told[:VERSIONS_SHOWN]
    if len(told) > VERSIONS_SHOWN:
        yield f"+{len(told) - VERSIONS_SHOWN}"


def _options(workflow: Workflow[Any, Any]) -> Iterator[tuple[str, str]]:
    """Limits, and defaults that are not the usual ones, as they stand in the code."""
    options = workflow.options
    yield _("attempts of a run"), _tries(options.retry)
    yield _("attempts of a step"), _tries(options.step_retry)
    for label, value in (
        (_("timeout"), options.timeout),
        (_("debounce"), options.debounce),
        (_("kept for"), options.retention),
    ):
        if value is not None:
            yield label, cells.rough(timedelta(seconds=seconds_of(value, "option")))
    if options.max_concurrency is not None:
        yield _("at a time"), cells.grouped(options.max_concurrency)
    if options.rate is not None:
        yield _("rate"), visible(options.rate)
    if options.singleton is not None:
        yield _("singleton"), str(SINGLETON.get(options.singleton, options.singleton))
    if options.concurrency_key is not None:
        yield _("limited by"), visible(getattr(options.concurrency_key, "__name__", _("a key")))
    if options.priority:
        yield _("priority"), str(options.priority)
    for cron in options.crons:
        yield _("schedule"), cut(visible(f"{cron.expression} {cron.timezone}"), STEP_CHARACTERS)
    if options.on_failure is not None:
        yield _("after a failure"), visible(getattr(options.on_failure, "__name__", _("a function")))
    if not options.compensate_on_cancel:
        yield _("when cancelled"), _("nothing is undone")
    if options.strict:
        yield _("changed code"), _("is blocked (strict)")
    if options.aliases:
        yield _("was called"), cut(visible(", ".join(options.aliases)), STEP_CHARACTERS)


def _tries(retry: Retry) -> str:
    """How many, and from how long to how long the waits between them are."""
    if retry.max_attempts <= 1:
        return str(retry.max_attempts)
    first, last = (spelled(retry.delay(number, lambda: 0.5)) for number in (1, retry.max_attempts - 1))
    waits = {"number": retry.max_attempts, "first": first, "last": last}
    text = _("%(number)d, %(first)s apart") if first == last else _("%(number)d, %(first)s to %(last)s apart")
    return text % waits


def _live(request: HttpRequest, line: _Known, lived: Backlogs) -> Iterator[tuple[str, str, str]]:
    """Label, number, and where these runs are. The list is of those that bear the present name: where others count as
    well it would be something else, and there is no link."""
    for status in LIVE_SHOWN:
        count = lived.of(line.names, status)
        if count or count.is_more:
            is_all = count == lived.of((line.name,), status)
            url = runs_url(request, workflow=line.name, status=status) if is_all else ""
            yield cells.pill(status, STATUS_LABELS[status]), cells.bounded(count), url


def _lately(request: HttpRequest, line: _Known, day: Mapping[str, WorkflowCounts]) -> dict[str, Any]:
    counts = day.get(line.name)
    if counts is None:
        return {"has_run": False}

    failed = cells.grouped(counts.failed)
    # As with those that are live.
    if counts.failed_as == {line.name}:
        failed = cells.linked(failed, runs_url(request, workflow=line.name, trouble=LAST_DAY))
    through = counts.succeeded + counts.failed
    step = counts.failing_step
    return {
        "has_run": True,
        # Without a link: what started and ended in a day was created whenever, and no index knows when a run ended that
        # has not failed.
        "started": cells.grouped(counts.started),
        "succeeded": cells.grouped(counts.succeeded),
        "cancelled": cells.grouped(counts.cancelled) if counts.cancelled else "",
        "failed": failed,
        "created_url": runs_url(request, workflow=line.name, created="1d"),
        "created_title": _("Runs of %s created in the last day") % visible(line.name),
        "is_failing": bool(counts.failed),
        "failing": f"{number_format(100 * counts.failed / through, decimal_pos=1)} %" if through else "",
        "p50": _took(counts.p50),
        "p95": _took(counts.p95),
        "step": cells.name(step[0], STEP_CHARACTERS) if step else "",
        "step_failed": cells.grouped(step[1]) if step else "",
    }


def _took(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return cells.length(seconds)


def _hold(request: HttpRequest, hold: Hold) -> dict[str, Any]:
    return {
        "kind": hold.get_kind_display(),
        "name": cells.name(hold.name),
        "since": cells.moment(hold.since),
        "actor": visible(hold.actor),
        "reason": visible(hold.reason),
        "button": button(request, hold.kind, hold.name, is_held=True),
    }


def _queue(request: HttpRequest, name: str) -> dict[str, Any]:
    return {
        "name": cells.name(name),
        "url": runs_url(request, queue=name),
        "button": button(request, Hold.QUEUE, name, is_held=False),
    }
