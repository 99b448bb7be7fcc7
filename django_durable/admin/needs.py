"""What needs a person: for each kind how many, where they are, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..client.listing import DUE_GRACE, overdue_leases, reap_grace, without_progress
from ..client.schedules import needing_somebody
from ..client.standing import NONE, Bounded, Standing
from ..client.statistics import failing_since
from ..core.journal.states import Status
from ..models import Run
from ..models.run import STATUS_LABELS
from ..store.database import Database
from . import cells
from .finding import ATTENTION
from .permissions import may
from .sweeping import ASKED_ON, OVERVIEW
from .tabs import address_of, leads_to, runs_url
from .text import cut, visible
from .troubles import LAPSED, OVERDUE, REASON_LABELS, STILL, TODAY, UNSERVED, since_when
from .verbs import RESUME

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NAMED, COUNTED = 5, 100
"""Rows that a line names, and counts."""


@dataclass(frozen=True)
class Button:
    """Sends ``hidden`` to ``url``; ``title`` says of which line it is."""

    url: str
    hidden: Mapping[str, str]
    label: StrOrPromise
    title: str


class Named(NamedTuple):
    """Some of those of a line: what they are called, where they are, and what resumes them alone."""

    label: str
    url: str
    button: Button | None = None

    @property
    def key(self) -> str:
        """By which a refreshed page knows it again: others may have come before it, and a button keeps its focus."""
        return f"{crc32(self.label.encode()):08x}"


@dataclass(frozen=True)
class Need:
    """A line of the list: ``count`` of ``what``, which ``url`` leads to, and what to do. ``named`` are some of them.

    Without a count nobody knows whether there is one. ``button`` resumes them all, when it was asked about.
    """

    id: str
    count: str
    what: str
    url: str
    hint: StrOrPromise = ""
    named: list[Named] = field(default_factory=list)
    button: Button | None = None


def needs_of(
    request: HttpRequest, stands: Standing, unserved: Mapping[str, Bounded], lately: str, *, has_workers: bool
) -> list[Need]:
    """``unserved``: ready runs of the queues that no live worker serves. ``lately``: since when runs that failed are
    counted, TODAY or DAY."""
    schedules = _late_schedules(request, stands.now) if leads_to(request, "schedule") else []
    return [
        *_blocked(request, stands.blocked),
        *_failed(request, stands, lately),
        *_unserved(request, unserved, is_cut=stands.is_cut and has_workers),
        *_stuck(request, stands.now),
        *_overdue(request, stands.overdue),
        *schedules,
    ]


def _blocked(request: HttpRequest, blocked: Mapping[str, Bounded]) -> Iterator[Need]:
    if count := sum(blocked.values(), NONE):
        url, number = runs_url(request, status="blocked"), cells.bounded(count)
        what = ngettext("run is blocked", "runs are blocked", _least(count))
        yield Need(
            id="blocked",
            count=number,
            what=what,
            url=url,
            hint=_("Each says on its page what has to be mended, and goes on when it is resumed."),
            named=[_blocked_for(request, reason, each) for reason, each in sorted(blocked.items())],
            button=_resume(request, url, f"{number} {what}"),
        )


def _blocked_for(request: HttpRequest, reason: str, count: Bounded) -> Named:
    url = runs_url(request, status="blocked", reason=reason)
    text = f"{REASON_LABELS.get(reason, visible(reason))}: {cells.bounded(count)}"
    return Named(text, url, _resume(request, url, text))


def _failed(request: HttpRequest, stands: Standing, lately: str) -> Iterator[Need]:
    failed = stands.failed
    url, number = runs_url(request, trouble=lately), cells.bounded(failed)
    named = failing_since(since_when(lately))[:NAMED] if failed or failed.is_more else []
    if failed:
        count = _least(failed)
        what = (
            ngettext("run has failed today", "runs have failed today", count)
            if lately == TODAY
            else ngettext("run has failed in the last day", "runs have failed in the last day", count)
        )
        yield Need(
            id="failed",
            count=number,
            what=what,
            url=url,
            hint=_("When the cause is mended, resume them: they go on from the step that failed."),
            named=[_failing(request, stands, lately, *each) for each in named],
            button=_resume(request, url, f"{number} {what}"),
        )
    elif failed.is_more:
        what = _("Runs may have failed today") if lately == TODAY else _("Runs may have failed in the last day")
        # As many as are counted failed before, or are children that need nobody.
        yield replace(
            _perhaps("failed", what, url),
            named=[_failing(request, stands, lately, *each) for each in named],
            button=_resume(request, url, what),
        )


def _failing(
    request: HttpRequest, stands: Standing, lately: str, workflow: str, count: int, steps: Mapping[str, int]
) -> Named:
    """Not as so many runs: one that was resumed and failed again is counted twice, and so is a child whose parent has
    seen it. Where there is nobody else to be resumed the name leads to all that failed."""
    failures = ngettext("%(workflow)s: %(count)s failure", "%(workflow)s: %(count)s failures", count)
    text = failures % {"workflow": visible(workflow), "count": cells.grouped(count)}
    if workflow not in stands.failed_of and not stands.failed.is_more:
        return Named(_with_worst(text, steps), runs_url(request, status="failed", workflow=workflow))
    url = runs_url(request, trouble=lately, workflow=workflow)
    return Named(_with_worst(text, steps), url, _resume(request, url, text))


def _with_worst(text: str, steps: Mapping[str, int]) -> str:
    """And the step in which they fail most."""
    if not steps:
        return text
    step = min(steps, key=lambda name: (-steps[name], name))
    named = {"failures": text, "count": cells.grouped(steps[step]), "step": cut(visible(step), cells.NAME_SHOWN)}
    return _("%(failures)s, %(count)s in %(step)s") % named


def _resume(request: HttpRequest, url: str, which: str) -> Button | None:
    """What the form of the button sends to the list, which asks about all that match; None for those who may not."""
    if not may(request, RESUME.permission):
        return None
    # As the list's own form sends it where all that match are selected, and where to come back to.
    hidden = {"action": "resume_selected", "select_across": "1", ACTION_CHECKBOX_NAME: "all", ASKED_ON: OVERVIEW}
    return Button(url, hidden, RESUME.label, f"{RESUME.label}: {which}")


def _unserved(request: HttpRequest, unserved: Mapping[str, Bounded], *, is_cut: bool) -> Iterator[Need]:
    """``is_cut``: there may be other queues, which were not looked at."""
    if count := sum(unserved.values(), Bounded(0, is_cut)):
        waiting = sorted(name for name, ready in unserved.items() if ready)
        yield Need(
            id="unserved",
            count=cells.bounded(count),
            what=ngettext(
                "run is ready in a queue that no worker serves", "runs are ready in queues that no worker serves",
                _least(count),
            ),
            url=runs_url(request, trouble=UNSERVED),
            hint=_("Start a worker with manage.py durable_worker --queues and their names."),
            named=[
                Named(
                    f"{visible(name)}: {cells.bounded(unserved[name])}",
                    runs_url(request, trouble=UNSERVED, queue=name),
                )
                for name in waiting[:NAMED]
            ],
        )  # fmt: skip
    elif is_cut:
        what = _("Runs may be ready in queues that no worker serves")
        yield _perhaps("unserved", what, runs_url(request, trouble=UNSERVED))


def _stuck(request: HttpRequest, now: datetime) -> Iterator[Need]:
    """One query for both kinds."""
    lapsed: list[Run] = []
    still: list[Run] = []
    for run in sticking(now):
        (lapsed if run.lease_expires_at and run.lease_expires_at < now else still).append(run)
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
            hint=_("A worker that lives, and was not started with --no-loops, takes such runs up within %d seconds.")
            % reap_grace(),
            named=[Named(_label(run.workflow, run.pk), named(run.pk)) for run in lapsed[:NAMED]],
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
            named=[Named(_label(run.workflow, run.pk), named(run.pk)) for run in still[:NAMED]],
        )


def sticking(now: datetime) -> QuerySet[Run]:
    """The first of those that have lost their worker, and the first of those that make no progress."""
    few = [
        runs.order_by("leased_by").values("pk")[: COUNTED + 1] for runs in (overdue_leases(now), without_progress(now))
    ]
    # With the status beside them: by the ids alone PostgreSQL would read the whole table.
    running = Run.objects.using(Database().alias).filter(status=Status.RUNNING)
    found = running.filter(Q(pk__in=few[0]) | Q(pk__in=few[1]))
    return found.only("workflow", "lease_expires_at").order_by("pk")


def _overdue(request: HttpRequest, overdue: Mapping[Status, Bounded]) -> Iterator[Need]:
    count, url = sum(overdue.values(), NONE), runs_url(request, trouble=OVERDUE)
    if count:
        links = {status: runs_url(request, trouble=OVERDUE, status=status) for status in sorted(overdue)}
        yield Need(
            id="overdue",
            count=cells.bounded(count),
            what=ngettext("run is due and was not woken", "runs are due and were not woken", _least(count)),
            url=url,
            hint=_(
                "They have been for more than %d seconds. Each live worker that was not started with --no-loops looks "
                "for such runs every second."
            )
            % DUE_GRACE,
            named=[Named(f"{STATUS_LABELS[s]}: {cells.bounded(overdue[s])}", link) for s, link in links.items()],
        )
    elif count.is_more:
        yield _perhaps("overdue", _("Runs may be due that were not woken"), url)


def _late_schedules(request: HttpRequest, now: datetime) -> Iterator[Need]:
    found = list(needing_somebody(now).only("workflow", "name")[: COUNTED + 1])
    if found:
        named = partial(address_of, request, "django_durable_schedule_change")
        yield Need(
            id="schedules",
            count=_counted(found),
            what=ngettext(
                "schedule is late, failing or cannot fire", "schedules are late, failing or cannot fire", len(found)
            ),
            url=address_of(request, "django_durable_schedule_changelist") + f"?status={ATTENTION}",
            hint=_("Each says on its page what is wrong with it."),
            named=[Named(visible(f"{one.workflow}: {one.name}"), named(one.pk)) for one in found[:NAMED]],
        )


def _perhaps(need: str, what: str, url: str) -> Need:
    """Where as many as are counted were looked at, and none of them is one."""
    return Need(need, "", what, url, _("There are more runs than are looked at here. The list looks further."))


def _least(count: Bounded) -> int:
    """For the plural: "1+" are several."""
    return count.number + count.is_more


def _counted(rows: Sequence[object]) -> str:
    return f"{COUNTED}+" if len(rows) > COUNTED else str(len(rows))


def _label(workflow: str, pk: object) -> str:
    return f"{visible(workflow)} {cells.short_id(pk)}"
