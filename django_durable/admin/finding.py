"""Which runs a list shows: found through an index, or among the newest so many, and never by reading the whole table.

Every way has an end that does not depend on how many runs there are or how few of them match. Where that end comes
before all were looked at, the page says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet

from ..core import clock
from ..core.journal.states import BlockReason, Status
from ..models import Run
from ..models.run import IS_AWAITED
from ..store.database import Database
from ..store.looking import Fitting, Look, fitting, has_more
from ..store.transitions import IS_KNOWN_TO_PARENT
from . import search, troubles
from .troubles import FAILED_LATELY, LAPSED, OVERDUE, STILL, UNSERVED, Moment

LOOKED_AT = 100_000
WINDOW = 20_000
"""Runs that a step of a walk over all looks at, so that it comes back to its clock."""
TEXT_MOST = 200
LAST = datetime(9000, 1, 1, tzinfo=UTC).timestamp()
ATTENTION = "attention"
NEEDS_ATTENTION = (Status.BLOCKED, Status.FAILED, LAPSED, STILL, OVERDUE, UNSERVED)
"""What the overview tells of, and beside what failed today also what did before: that is as bad as it was."""
STOPPED = (Status.BLOCKED, Status.FAILED, Status.PAUSED)
"""What ``durable_run_attention`` holds."""
WINDOWS = {
    "10m": timedelta(minutes=10),
    "1h": timedelta(hours=1),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
}

_URGENCY = F("priority").desc()
_ASLEEP = Q(status__in=[Status.SCHEDULED, Status.WAITING], wake_at__isnull=False), ("queue", _URGENCY, "wake_at")
"""One index has both: for the few of one among very many of the other that would be gone through."""


def _attention(status: Status) -> tuple[Q, tuple[Any, ...]]:
    """Not as one status that they equal, whose order were that of the ids alone: where they are many, but all of them
    old, PostgreSQL would go through ten million newer runs by the primary key."""
    return Q(status__in=STOPPED, status__gte=status, status__lte=status), ("-status", "-pk")


_HELD: dict[str, list[tuple[Q, tuple[Any, ...]]]] = {
    Status.QUEUED: [
        (Q(status=Status.QUEUED, limit_key__isnull=True), ("queue", _URGENCY, "queued_at")),
        (Q(status=Status.QUEUED, limit_key__isnull=False), ("limit_key", _URGENCY, "queued_at")),
    ],
    Status.RUNNING: [(Q(status=Status.RUNNING), ("leased_by",))],
    Status.SCHEDULED: [_ASLEEP],
    Status.WAITING: [_ASLEEP, (Q(status=Status.WAITING, wake_at__isnull=True) & IS_AWAITED, ("-pk",))],
    **{status: [_attention(status)] for status in STOPPED},
}
"""What the partial indexes hold of a status, each with the order of its index. Those that are over well are in none."""


@dataclass(slots=True, frozen=True)
class Chosen:
    """What the filters and the search ask for. ``since`` and ``upto`` are ids, which begin with the time.

    ``kinds``: of which a run has to be one, statuses or kinds of ``troubles``. ``is_older``: ``upto`` was asked for, by
    somebody who goes through all there are.
    """

    status: str = ""
    kinds: tuple[str, ...] = ()
    reason: str = ""
    workflow: str = ""
    queue: str = ""
    parent: UUID | None = None
    worker: UUID | None = None
    since: UUID | None = None
    upto: UUID | None = None
    is_older: bool = False
    term: str = ""
    is_nothing: bool = False
    """Something was asked for that no run can have."""

    @classmethod
    def of(cls, params: Mapping[str, str], term: str = "") -> Chosen:
        status, trouble, reason = (params.get(name, "") for name in ("status", "trouble", "reason"))
        workflow, queue = params.get("workflow", ""), params.get("queue", "")
        read = {"created": since_of, "until": id_of, "parent": id_of, "worker": id_of}
        ids = {name: read[name](params[name]) for name in read if params.get(name)}
        is_attention = status == ATTENTION
        return cls(
            status=status if status and not is_attention else Status.BLOCKED if reason and not trouble else "",
            kinds=(trouble,) if trouble else NEEDS_ATTENTION if is_attention else (),
            reason=reason,
            workflow=workflow,
            queue=queue,
            parent=ids.get("parent"),
            worker=ids.get("worker"),
            since=ids.get("created"),
            upto=ids.get("until"),
            is_older="until" in ids,
            term=term if term.strip() else "",
            is_nothing=None in ids.values()
            or (bool(status) and not is_attention and status not in set(Status))
            or (bool(trouble) and trouble not in troubles.LABELS)
            or (bool(reason) and reason not in set(BlockReason))
            or not all(map(_may_be_a_name, (workflow, queue, term.strip()))),
        )

    @property
    def asked_of_each(self) -> Q:
        """What has to be asked of each run that is looked at; of its status also where the index is of that alone."""
        columns = {
            "status": self.status,
            "block_reason": self.reason,
            "workflow": self.workflow,
            "queue": self.queue,
            "parent": self.parent,
            "leased_by": self.worker,
        }
        return Q(**{column: value for column, value in columns.items() if value})

    @property
    def range(self) -> Q:
        return (Q(pk__gte=self.since) if self.since else Q()) & (Q(pk__lte=self.upto) if self.upto else Q())

    def narrow(self, runs: QuerySet[Any]) -> QuerySet[Any]:
        """Those of the runs that are asked for, whatever it takes to find them; of whatever ``kinds``, which depend on
        the moment."""
        return runs.none() if self.is_nothing else runs.filter(self.range, self.asked_of_each)


@dataclass(slots=True, frozen=True)
class Found:
    """A part of the newest ``most`` ids, newest first; ``count`` may be one more than ``most``. ``is_whole``:
    everything that could match was looked at. ``looks`` are how, of which ``is_cut`` lacks some."""

    ids: list[UUID] = field(default_factory=list)
    count: int = 0
    oldest: UUID | None = None
    is_whole: bool = True
    looks: Sequence[Look] = ()
    is_cut: bool = False


def find(runs: QuerySet[Run], chosen: Chosen, most: int, part: slice, also: Q | None = None) -> Found:
    """The newest of the runs that are asked for. At most three queries, and two more where they are of ``kinds``."""
    if chosen.is_nothing:
        return Found()
    db, kinds = Database(), chosen.kinds
    at = troubles.moment(kinds, 0 if chosen.term else most, chosen.queue) if _are_momentary(kinds) else None
    looks, is_cut = _looks(runs, chosen, at), at is not None and at.is_cut
    condition = chosen.asked_of_each & _any_of(kinds, at) & (also or Q())
    fit = fitting(db, looks, condition, most + 1, part) if looks else Fitting()
    is_whole = fit.count > most or not condition or not (is_cut or (looks and has_more(db, looks)))
    return Found(fit.ids, fit.count, fit.oldest, is_whole, looks, is_cut)


def older(chosen: Chosen, found: Found, most: int) -> UUID | None:
    """Up to which id to look for more than were found; None where there are no more, or none can be told.

    At most one query. What stands in another order than that of the ids is looked for by these from the newest on.
    """
    if found.is_whole and found.count <= most:
        return None
    db, others = Database(), [look for look in found.looks if not look.is_newest_first]
    if not found.is_whole and not others:
        # All newer ones were looked at in each of these.
        rest = [Look(look.runs[look.most : look.most + 1], 1) for look in found.looks]
        return next(iter(fitting(db, rest, Q(), 1).ids), None)
    if found.is_whole and not (found.is_cut or (others and has_more(db, others))):
        return found.oldest
    return None if chosen.kinds or chosen.parent or chosen.worker else least_id(clock.utcnow())


def _looks(runs: QuerySet[Run], chosen: Chosen, at: Moment | None) -> list[Look]:
    runs = runs.filter(chosen.range)
    if chosen.term:
        return [Look(some.order_by("-pk"), LOOKED_AT) for some in search.ways(runs, chosen.term)]
    if chosen.kinds:
        return [look for kind in _kinds(chosen.kinds, at) for look in _looks_at(runs, kind, chosen, at)]
    if chosen.parent:
        children = _of_one(runs, chosen).order_by("parent", "parent_path")
        return [Look(children, LOOKED_AT, is_newest_first=False)]
    if chosen.worker:
        return [Look(_of_one(runs, chosen).order_by("leased_by"), LOOKED_AT, is_newest_first=False)]
    if chosen.status not in _HELD or (chosen.is_older and chosen.status not in STOPPED):
        return [Look(runs.order_by("-pk"), LOOKED_AT)]
    return _looks_at(runs, chosen.status, chosen, at)


def _looks_at(runs: QuerySet[Run], kind: str, chosen: Chosen, at: Moment | None) -> list[Look]:
    """At those of a status or of another kind."""
    if kind in _HELD or kind in FAILED_LATELY:
        return [
            Look(_in_index(runs.filter(held), order, chosen), LOOKED_AT, is_newest_first=order[-1] == "-pk")
            for held, order in _HELD[Status.FAILED if kind in FAILED_LATELY else kind]
        ]
    assert at is not None  # noqa: S101  (for the type checker)
    if kind in (LAPSED, STILL):
        # With "&", because what is asked of their journals is asked of these few alone.
        return [Look((runs & troubles.worked_on(kind, at)).order_by("leased_by"), LOOKED_AT, is_newest_first=False)]
    ids = at.overdue if kind == OVERDUE else at.unserved
    # By these alone: beside a condition on their status PostgreSQL may read all of an index that has it.
    return [Look(runs.filter(pk__in=ids).order_by("-pk"), LOOKED_AT, is_newest_first=False)] if ids else []


def _of_one(runs: QuerySet[Run], chosen: Chosen) -> QuerySet[Run]:
    """The children of the parent, or else what the worker has: each is in an index."""
    if chosen.parent:
        return runs.filter(parent=chosen.parent)
    return runs.filter(status=Status.RUNNING, leased_by=chosen.worker)


def _in_index(runs: QuerySet[Run], order: tuple[Any, ...], chosen: Chosen) -> QuerySet[Run]:
    is_by_queue = order[0] == "queue" and chosen.queue
    return (runs.filter(queue=chosen.queue) if is_by_queue else runs).order_by(*order)


def _are_momentary(kinds: Sequence[str]) -> bool:
    """Whether it takes more than a run's columns to tell whether it is one of these."""
    return not set(kinds) <= {*Status, *FAILED_LATELY}


def _kinds(kinds: Sequence[str], at: Moment | None) -> list[str]:
    """Where no worker is alive one sentence of the overview says it: of all that needs attention that is no kind."""
    is_dead = at is not None and not at.served
    return [kind for kind in kinds if kind != UNSERVED or len(kinds) == 1 or not is_dead]


def _any_of(kinds: Sequence[str], at: Moment | None) -> Q:
    found = Q()
    for kind in _kinds(kinds, at):
        if kind == Status.FAILED:
            found |= Q(status=kind) & ~IS_KNOWN_TO_PARENT
        elif kind in set(Status):
            found |= Q(status=kind)
        else:
            found |= troubles.meets(kind, at) if at else troubles.failed_lately(kind)
    return found


# --- over all of them ------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Place:
    """How far a walk has come: through which part of it, and past which id in there."""

    part: int = 0
    below: UUID | None = None

    def __str__(self) -> str:
        return f"{self.part}:{self.below.hex if self.below else ''}"

    @classmethod
    def read(cls, text: str) -> Place:
        """Raises ValueError."""
        part, _, below = text.partition(":")
        if not part.isdecimal() or len(part) > 2:
            raise ValueError(text)
        return cls(int(part), UUID(below) if below else None)


def walk(
    runs: QuerySet[Run], chosen: Chosen, also: Q, size: int, place: Place | None = None
) -> Iterator[tuple[list[UUID], Place]]:
    """All that are asked for, newest first, ``size`` at a time, each time with the place to go on from.

    It may bring none: then it has looked at many.
    """
    db, place = Database(), place or Place()
    parts = [] if chosen.is_nothing else _parts(runs, chosen)
    at = troubles.moment(chosen.kinds) if parts and _are_momentary(chosen.kinds) else None
    condition = chosen.asked_of_each & _any_of(chosen.kinds, at) & also
    for number, part in enumerate(parts):
        below = place.below if number == place.part else None
        while number >= place.part:
            rest = part if below is None else part.filter(pk__lt=below)
            ids = fitting(db, [Look(rest, WINDOW)], condition, size).ids
            below = ids[-1] if len(ids) == size else rest.values_list("pk", flat=True)[WINDOW - 1 : WINDOW].first()
            yield ids, Place(number, below) if below else Place(number + 1)
            if below is None:
                break


def _parts(runs: QuerySet[Run], chosen: Chosen) -> list[QuerySet[Run]]:
    """Each newest first, and by an index: who acts on a run may move it from one status to another meanwhile."""
    runs = runs.filter(chosen.range)
    if chosen.term:
        found = search.ways(runs, chosen.term)
    elif chosen.parent or chosen.worker:
        found = [_of_one(runs, chosen)]
    elif chosen.status in STOPPED or (chosen.kinds and FAILED_LATELY.issuperset(chosen.kinds)):
        found = [runs.filter(status=chosen.status or Status.FAILED)]
    else:
        found = [runs]
    return [some.order_by("-pk") for some in found]


def frozen(chosen: Chosen, since: UUID | None, upto: UUID) -> Chosen:
    return replace(chosen, since=since or chosen.since, upto=min(upto, chosen.upto or upto))


# --- values of the filters -------------------------------------------------------------------


def since_of(value: str) -> UUID | None:
    """The least id that a run of this window can have: one of ``WINDOWS``, or an id itself."""
    if value in WINDOWS:
        return least_id(clock.utcnow() - WINDOWS[value])
    return id_of(value)


def id_of(value: str) -> UUID | None:
    try:
        return UUID(value)
    except ValueError:
        return None


def least_id(at: datetime) -> UUID:
    return UUID(int=max(round(at.timestamp() * 1000), 0) << 80)


def moment_of(run_id: UUID) -> datetime | None:
    """When an id was made; None where it does not tell."""
    seconds = (run_id.int >> 80) / 1000
    return datetime.fromtimestamp(seconds, UTC) if 0 < seconds < LAST else None


def _may_be_a_name(text: str) -> bool:
    return "\x00" not in text and len(text) <= TEXT_MOST
