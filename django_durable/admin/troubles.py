"""What is wrong with runs, in the kinds that the overview tells of: what each of a kind meets, and where such stand.

What is worked on is so little that all of it may be looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.timezone import localtime
from django.utils.translation import gettext_lazy as _

from ..client.listing import DUE_GRACE, LIMIT_MOST, overdue_leases, serving_workers, without_progress
from ..core import clock
from ..core.journal.states import BlockReason, Status
from ..models import Run
from ..store.database import Database
from ..store.holding import NOTHING, Held, read_held
from ..store.sql import troubles as sql
from ..store.transitions import IS_KNOWN_TO_PARENT

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TODAY, DAY, LAPSED, STILL, OVERDUE, UNSERVED = "today", "day", "lapsed", "still", sql.OVERDUE, sql.UNSERVED
FAILED_LATELY = frozenset({TODAY, DAY})
NIGHT_ENDS = 6
"""The hour. Whoever is woken after midnight is to see what failed before it."""
LABELS: dict[str, StrOrPromise] = {
    TODAY: _("failed today"),
    DAY: _("failed in the last day"),
    UNSERVED: _("no worker serves its queue"),
    LAPSED: _("has lost its worker"),
    STILL: _("nothing journaled for an hour"),
    OVERDUE: _("due and not woken"),
}
REASON_LABELS: dict[str, StrOrPromise] = {
    BlockReason.CRASHED: _("crashed"),
    BlockReason.DIVERGED: _("diverged"),
    BlockReason.UNDECODABLE: _("undecodable"),
    BlockReason.UNKNOWN_WORKFLOW: _("unknown workflow"),
}
"""Why a run is blocked."""


@dataclass(slots=True, frozen=True)
class Moment:
    """What the kinds depend on. ``now`` is the database's time; ``served``: the queues of the live workers.

    ``overdue`` and ``unserved`` are the first ids of these kinds; ``is_cut``: there may be more.
    """

    now: datetime
    held: Held = NOTHING
    served: frozenset[str] = frozenset()
    overdue: list[UUID] = field(default_factory=list)
    unserved: list[UUID] = field(default_factory=list)
    is_cut: bool = False


def moment(kinds: Collection[str], most: int = 0, queue: str = "") -> Moment:
    """At most two queries. ``most``: how many ids of a kind, of one queue or of all; 0: nobody asks for any."""
    db = Database()
    served = _served() if UNSERVED in kinds else frozenset()
    first, *rows = db.rows(
        sql.troubles(db.dialect, kinds if most else ()),
        limit=most + 1,
        late=DUE_GRACE,
        served=db.dialect.list(served),
        queue=queue,
    )
    now = db.dialect.read_instant(first[2])
    assert now is not None  # noqa: S101  (for the type checker)
    overdue, unserved = ([UUID(text) for what, text, _at in rows if what == kind] for kind in (OVERDUE, UNSERVED))
    is_cut = max(len(overdue), len(unserved)) > most > 0 or any(what == sql.MORE for what, _text, _at in rows)
    return Moment(now, read_held(first[1]), served, overdue, unserved, is_cut)


def _served() -> frozenset[str]:
    queues = serving_workers().values_list("queues", flat=True)[:LIMIT_MOST]
    return frozenset(str(name) for served in queues for name in served)


# --- what each of a kind meets -------------------------------------------------------------------


def failed_lately(kind: str) -> Q:
    """But for children whose parent knows it or has another in their place: these need nobody, their parent may."""
    return Q(status=Status.FAILED, finished_at__gte=since_when(kind)) & ~IS_KNOWN_TO_PARENT


def since_when(kind: str) -> datetime:
    """Midnight in the zone of the site, or 24 hours ago."""
    now = localtime(clock.utcnow())
    return now - timedelta(days=1) if kind == DAY else now.replace(hour=0, minute=0, second=0, microsecond=0)


def lately() -> str:
    """What to tell of to somebody who looks now: today, and by night the last day, of which today has hardly begun."""
    return DAY if localtime(clock.utcnow()).hour < NIGHT_ENDS else TODAY


def meets(kind: str, at: Moment) -> Q:
    """Of the other kinds."""
    if kind == UNSERVED:
        ready = Q(status=Status.QUEUED)
        return ready & ~Q(queue__in=at.served) if at.served else ready
    if kind == OVERDUE:
        due = at.now - timedelta(seconds=DUE_GRACE)
        asleep = Q(status__in=[Status.SCHEDULED, Status.WAITING], wake_at__isnull=False, wake_at__lt=due)
        for column, names in (("queue", at.held.queues), ("workflow", at.held.workflows)):
            asleep &= ~Q(**{f"{column}__in": names}) if names else Q()
        return asleep
    return Q(pk__in=worked_on(kind, at).values("pk"))


def worked_on(kind: str, at: Moment) -> QuerySet[Run]:
    """Of what is worked on: what has lost its worker, or makes no progress."""
    return overdue_leases(at.now) if kind == LAPSED else without_progress(at.now)
