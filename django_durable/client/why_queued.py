"""Why a run is queued and nobody has taken it up: the half of ``why`` that is about others than the run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Count, QuerySet
from django.utils.translation import gettext_lazy as _

from ..core.journal.states import Phase, Status
from ..core.registry import limits
from ..models import Hold, Run
from ..models.run import IS_ENDING
from ..store.clock import DatabaseNow
from ..store.database import Database
from .holding import hold_of
from .listing import serving_workers
from .sentences import Sentence, Stored, Why, because


def queued(run: Run) -> Why:
    """What stands between a queued run and a worker: a hold, the lack of one, a limit, or only its turn."""
    if (hold := hold_of(run)) is not None:
        return _held(hold)
    alive = list(serving_workers())
    if not alive:
        return because("queued: no worker", _("No worker is alive; start one with manage.py durable_worker."))
    if not any(run.queue in worker.queues for worker in alive):
        return because("queued: no worker", _("No live worker serves the queue %(queue)r."), queue=run.queue)
    if not any(run.queue in worker.queues and run.workflow in worker.workflows for worker in alive):
        text = _("No live worker of its queue knows %(workflow)r.")
        return because("queued: unknown workflow", text, workflow=run.workflow)
    if run.suspect:
        return because("queued: suspect", _("Its process died; it runs next alone in a process of its own."))
    return (
        _at_its_limit(run)
        or _at_its_rate(run)
        or because("queued", _("It is next when a worker of its queue has a free slot."))
    )


def _held(hold: Hold) -> Why:
    texts = _HELD[hold.kind]
    held = Sentence(
        texts[bool(hold.actor), bool(hold.reason)],
        {"name": hold.name, "time": hold.since, "actor": hold.actor, "reason": hold.reason.rstrip(".")},
    )
    return Why("queued: held", (held, Sentence(_("It starts when that is released."))))


_HELD: Mapping[str, Mapping[tuple[bool, bool], Any]] = {
    Hold.QUEUE: {
        (False, False): _("Its queue %(name)r is held since %(time)s."),
        (True, False): _("Its queue %(name)r is held since %(time)s by %(actor)s."),
        (False, True): _("Its queue %(name)r is held since %(time)s: %(reason)s."),
        (True, True): _("Its queue %(name)r is held since %(time)s by %(actor)s: %(reason)s."),
    },
    Hold.WORKFLOW: {
        (False, False): _("Its workflow %(name)r is held since %(time)s."),
        (True, False): _("Its workflow %(name)r is held since %(time)s by %(actor)s."),
        (False, True): _("Its workflow %(name)r is held since %(time)s: %(reason)s."),
        (True, True): _("Its workflow %(name)r is held since %(time)s by %(actor)s: %(reason)s."),
    },
}
"""By kind, and by whether it is known who holds it and what for."""


def _at_its_limit(run: Run) -> Why | None:
    """Only a limit that the code here knows: whoever claims goes by its own code."""
    bounds = limits().get(run.workflow)
    if run.limit_key is None or bounds is None or (maximum := bounds.concurrency) is None:
        return None
    held, first = _before(run)
    numbers: dict[str, int | Stored] = {"held": held, "maximum": maximum, "key": _key(run)}
    if held >= maximum:
        text = _(
            "Its limit %(key)s is full: %(held)s of %(maximum)s are running; one that is queued starts when one of "
            "them ends or waits."
        )
        bare = _(
            "Its limit is full: %(held)s of %(maximum)s are running; one that is queued starts when one of them ends "
            "or waits."
        )
        return Why("queued: limit", (Sentence(text, numbers, bare),))
    if _is_ending(run) or held + first < maximum:
        return None
    text = _(
        "Its limit %(key)s is full: of %(maximum)s, %(held)s are running and %(first)s are about to end, which go "
        "first whatever their priority."
    )
    bare = _(
        "Its limit is full: of %(maximum)s, %(held)s are running and %(first)s are about to end, which go first "
        "whatever their priority."
    )
    return Why("queued: limit", (Sentence(text, {"first": first, **numbers}, bare),))


def _before(run: Run) -> tuple[int, int]:
    """How many of its key are running, and how many others are queued to end."""
    theirs = _of_its_key(run).order_by()
    ending = theirs.filter(IS_ENDING, status=Status.QUEUED).exclude(pk=run.pk)
    # One query, but two counts: each has an index of its own, which no condition for both would use.
    parts = [
        rows.values("status").annotate(count=Count("pk")).values_list("status", "count")
        for rows in (theirs.filter(status=Status.RUNNING), ending)
    ]
    counts = dict(parts[0].union(parts[1], all=True))
    return counts.get(Status.RUNNING, 0), counts.get(Status.QUEUED, 0)


def _key(run: Run) -> Stored:
    """What workflows make of their input."""
    return Stored("limit_key", run.limit_key, repr)


def _is_ending(run: Run) -> bool:
    return run.cancel_requested_at is not None or run.phase != Phase.FORWARD


def _at_its_rate(run: Run) -> Why | None:
    bounds = limits().get(run.workflow)
    if run.limit_key is None or run.started_at is not None or bounds is None or (rate := bounds.rate) is None:
        return None
    recent = _of_its_key(run).filter(started_at__gt=DatabaseNow(ago=float(rate.seconds)))
    # The one that has to be over before another may begin; there is one only where the rate is used up.
    oldest = recent.order_by("-started_at").values_list("started_at", flat=True)[rate.starts - 1 : rate.starts].first()
    if oldest is None:
        return None
    opens_at = oldest + timedelta(seconds=rate.seconds)
    text = _("The rate %(rate)s of %(key)s is used up; the next one that is queued may start at %(time)s.")
    bare = _("The rate %(rate)s of its limit is used up; the next one that is queued may start at %(time)s.")
    return Why("queued: rate", (Sentence(text, {"rate": str(rate), "key": _key(run), "time": opens_at}, bare),))


def _of_its_key(run: Run) -> QuerySet[Run]:
    return Run.objects.using(Database().alias).filter(limit_key=run.limit_key)
