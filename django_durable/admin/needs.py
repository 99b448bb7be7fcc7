"""What needs a person: for each kind how many, where they are, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..client.listing import DUE_GRACE, overdue_leases, reap_grace, without_progress
from ..client.schedules import needing_somebody
from ..client.standing import NONE, Bounded, Standing
from ..core.journal.states import Status
from ..models.run import STATUS_LABELS
from . import cells
from .finding import ATTENTION
from .permissions import may_look
from .tabs import address_of
from .text import visible
from .troubles import LAPSED, OVERDUE, REASON_LABELS, STILL, TODAY, UNSERVED

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NAMED, COUNTED = 5, 100
"""Rows that a line names, and counts."""

Link = tuple[str, str]
"""Label and address."""


@dataclass(frozen=True)
class Need:
    """A line of the list: ``count`` of ``what``, which ``url`` leads to, and what to do. ``named`` are some of them."""

    id: str
    count: str
    what: str
    url: str
    hint: StrOrPromise = ""
    named: list[Link] = field(default_factory=list)


def needs_of(request: HttpRequest, stands: Standing, unserved: Mapping[str, Bounded]) -> list[Need]:
    """``unserved``: ready runs of the queues that no live worker serves."""
    schedules = _late_schedules(request, stands.now) if may_look(request, "schedule") else []
    return [
        *_blocked(request, stands.blocked),
        *_failed(request, stands.failed),
        *_unserved(request, unserved),
        *_stuck(request, stands.now),
        *_overdue(request, stands.overdue),
        *schedules,
    ]


def runs_url(request: HttpRequest, **filters: str) -> str:
    query = urlencode(filters)
    return address_of(request, "django_durable_run_changelist") + (f"?{query}" if query else "")


def _blocked(request: HttpRequest, blocked: Mapping[str, Bounded]) -> Iterator[Need]:
    if count := sum(blocked.values(), NONE):
        url = runs_url(request, status="blocked")
        yield Need(
            id="blocked",
            count=cells.bounded(count),
            what=ngettext("run is blocked", "runs are blocked", count.number),
            url=url,
            hint=_("Each says on its page what has to be mended, and goes on when it is resumed."),
            named=[
                (
                    f"{REASON_LABELS.get(reason, visible(reason))}: {cells.bounded(each)}",
                    runs_url(request, status="blocked", reason=reason),
                )
                for reason, each in sorted(blocked.items())
            ],
        )


def _failed(request: HttpRequest, failed: Bounded) -> Iterator[Need]:
    if failed:
        yield Need(
            id="failed",
            count=cells.bounded(failed),
            what=ngettext("run has failed today", "runs have failed today", failed.number),
            url=runs_url(request, trouble=TODAY),
            hint=_("When the cause is mended, resume them: they go on from the step that failed."),
        )


def _unserved(request: HttpRequest, unserved: Mapping[str, Bounded]) -> Iterator[Need]:
    if count := sum(unserved.values(), NONE):
        waiting = sorted(name for name, ready in unserved.items() if ready)
        yield Need(
            id="unserved",
            count=cells.bounded(count),
            what=ngettext(
                "run is ready in a queue that no worker serves", "runs are ready in queues that no worker serves",
                count.number,
            ),
            url=runs_url(request, trouble=UNSERVED),
            hint=_("Start a worker with manage.py durable_worker --queues and their names."),
            named=[
                (f"{visible(name)}: {cells.bounded(unserved[name])}", runs_url(request, trouble=UNSERVED, queue=name))
                for name in waiting[:NAMED]
            ],
        )  # fmt: skip


def _stuck(request: HttpRequest, now: datetime) -> Iterator[Need]:
    """One query for both kinds."""
    found = (overdue_leases(now) | without_progress(now)).only("workflow", "lease_expires_at").order_by("pk")
    runs = list(found[: COUNTED + 1])
    lapsed = [run for run in runs if run.lease_expires_at and run.lease_expires_at < now]
    still = [run for run in runs if run not in lapsed]
    named = partial(address_of, request, "django_durable_run_change")
    if lapsed:
        yield Need(
            id="lapsed",
            count=_counted(lapsed),
            what=ngettext(
                "run has lost its worker, and nobody has taken it up",
                "runs have lost their worker, and nobody has taken them up",
                len(lapsed),
            ),
            url=runs_url(request, trouble=LAPSED),
            hint=_("A worker that lives takes such runs up within %d seconds.") % reap_grace(),
            named=[(_label(run.workflow, run.pk), named(run.pk)) for run in lapsed[:NAMED]],
        )
    if still:
        yield Need(
            id="still",
            count=_counted(still),
            what=ngettext(
                "run is worked on and has journaled nothing for an hour",
                "runs are worked on and have journaled nothing for an hour",
                len(still),
            ),
            url=runs_url(request, trouble=STILL),
            hint=_("A step may hang: a timeout ends such attempts."),
            named=[(_label(run.workflow, run.pk), named(run.pk)) for run in still[:NAMED]],
        )


def _overdue(request: HttpRequest, overdue: Mapping[Status, Bounded]) -> Iterator[Need]:
    if count := sum(overdue.values(), NONE):
        links = {status: runs_url(request, trouble=OVERDUE, status=status) for status in sorted(overdue)}
        yield Need(
            id="overdue",
            count=cells.bounded(count),
            what=ngettext("run is due and was not woken", "runs are due and were not woken", count.number),
            url=runs_url(request, trouble=OVERDUE),
            hint=_("They have been for more than %d seconds. Each live worker looks for such runs every second.")
            % DUE_GRACE,
            named=[(f"{STATUS_LABELS[s]}: {cells.bounded(overdue[s])}", url) for s, url in links.items()],
        )


def _late_schedules(request: HttpRequest, now: datetime) -> Iterator[Need]:
    found = list(needing_somebody(now).only("workflow", "name")[: COUNTED + 1])
    if found:
        named = partial(address_of, request, "django_durable_schedule_change")
        yield Need(
            id="schedules",
            count=_counted(found),
            what=ngettext("schedule is late or cannot fire", "schedules are late or cannot fire", len(found)),
            url=address_of(request, "django_durable_schedule_changelist") + f"?status={ATTENTION}",
            hint=_("Each says on its page what keeps it."),
            named=[(visible(f"{one.workflow}: {one.name}"), named(one.pk)) for one in found[:NAMED]],
        )


def _counted(rows: Sequence[object]) -> str:
    return f"{COUNTED}+" if len(rows) > COUNTED else str(len(rows))


def _label(workflow: str, pk: object) -> str:
    return f"{visible(workflow)} {cells.short_id(pk)}"
