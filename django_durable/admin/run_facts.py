"""What there is to know of a run at a glance."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from ..core.journal.states import Status
from ..models import Run, Worker
from . import cells
from .fragments import ago
from .permissions import may_look
from .tabs import address_of, runs_url
from .text import visible
from .whole_value import Addresses

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


def facts_of(
    request: HttpRequest, run: Run, worker: Worker | None, addresses: Addresses, now: datetime
) -> list[tuple[StrOrPromise, StrOrPromise]]:
    """Label and value, without those that say nothing."""
    facts: list[tuple[StrOrPromise, StrOrPromise | None]] = [
        (_("Queue"), cells.linked(cells.name(run.queue), runs_url(request, queue=run.queue))),
        (_("Priority"), str(run.priority) if run.priority else None),
        (_("Attempt"), cells.attempt(run)),
        (_("Claims"), str(run.claims)),
        (_("Crashes"), str(run.crashes) if run.crashes else None),
        (_("Worker"), _worker(request, run, worker)),
        (_("Waits on"), visible(run.waiting_on) or None),
        (_("Created"), cells.moment(run.created_at)),
        (_("Queued"), cells.moment(run.queued_at) if run.status == Status.QUEUED else None),
        (_("Started"), cells.moment(run.started_at) if run.started_at else None),
        (_("Finished"), cells.moment(run.finished_at) if run.finished_at else None),
        (_("Took") if run.finished_at else _("So far"), _duration(run, now)),
        (_("Wakes"), cells.moment(run.wake_at) if run.wake_at else None),
        (_("Deadline"), cells.moment(run.deadline_at) if run.deadline_at else None),
        (_("Asked to stop"), cells.moment(run.cancel_requested_at) if run.cancel_requested_at else None),
        (_("Asked to pause"), cells.moment(run.pause_requested_at) if run.pause_requested_at else None),
        (_("Forked from"), addresses.link_to(run.forked_from) if run.forked_from else None),
    ]
    return [(label, value) for label, value in facts if value is not None]


def _duration(run: Run, now: datetime) -> str | None:
    """Of a run that goes on, as coarse as its page may be old."""
    if run.started_at is None:
        return None
    return cells.duration(run.started_at, run.finished_at) if run.finished_at else ago(run.started_at, now)


def _worker(request: HttpRequest, run: Run, worker: Worker | None) -> str | None:
    if run.leased_by is None:
        return None
    if worker is None:
        return cells.short_id(run.leased_by)
    url = address_of(request, "django_durable_worker_change", worker.pk) if may_look(request, "worker") else ""
    return cells.linked(format_html("{}", visible(str(worker))), url)
