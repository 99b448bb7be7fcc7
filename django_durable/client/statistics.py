"""What workers did in the last hours, from what they counted by the minute (see ``Tally``): for charts and rates.

Counted are first claims, and ends that a worker committed: not what was cancelled while no worker had it. The counts of
the last heartbeat's length may be still to come. They go back two days. A time is reached back to from the beginning of
its minute, and each question is one query.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet, Sum

from ..core import clock
from ..core.histogram import percentile
from ..models import Tally
from ..store.database import Database
from ..store.tallying import detail_of

EVENTS = ("started", "succeeded", "failed", "cancelled")
MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Counts:
    """How many runs were started, and ended so."""

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(slots=True)
class Bucket:
    """What happened from ``at`` on (UTC), until the next bucket begins."""

    at: datetime
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(slots=True)
class WorkflowCounts(Counts):
    """With how long runs took from their first claim to their end, waits and all, in seconds: half of those that
    succeeded or failed were through within ``p50``, 95 of 100 within ``p95``, each right within a tenth. None: no run
    was. ``failing_step`` is the path of the step that runs failed with most often, without the keys of calls, and how
    often. These three reach back from the beginning of ten minutes. ``failed_as``: the names under which runs failed.
    """

    p50: float | None = None
    p95: float | None = None
    failing_step: tuple[str, int] | None = None
    failed_as: frozenset[str] = frozenset()


def series(since: timedelta, buckets: int) -> list[Bucket]:
    """The counts of so many equal stretches of time, the oldest first, those too in which nothing happened.

    The last one is that which we are in, and each begins at a multiple of its length: so a chart moves on once in that
    time. Raises ValueError for stretches that are shorter than a minute: nothing is known of them.
    """
    length = since / buckets
    if length < MINUTE:
        raise ValueError(f"{buckets} buckets of {since} are shorter than a minute each")
    newest = (clock.utcnow() - EPOCH) // length
    found = [Bucket(EPOCH + number * length) for number in range(newest - buckets + 1, newest + 1)]
    for row in _sums(Q(kind=Tally.RUNS, minute__gte=found[0].at), "minute"):
        # The clock of a worker's database may be ahead of ours.
        number = min((row["minute"] - EPOCH) // length - (newest - buckets + 1), buckets - 1)
        _add(found[number], row)
    return found


def by_queue(since: timedelta) -> dict[str, Counts]:
    """The counts by queue, in their order, of those in which anything happened."""
    rows = _sums(Q(kind=Tally.RUNS, minute__gte=_minute(clock.utcnow() - since)), "queue")
    return {row["queue"]: Counts(**{event: row[event] for event in EVENTS}) for row in rows.order_by("queue")}


def by_workflow(since: timedelta, called: Mapping[str, str] | None = None) -> dict[str, WorkflowCounts]:
    """The counts by workflow, in their order, of those of which anything happened.

    ``called``: what workflows are called now, by each of their names. The counts of all names are then one.
    """
    present = called or {}
    begins = _minute(clock.utcnow() - since)
    runs = Q(kind=Tally.RUNS, minute__gte=begins)
    details = Q(kind__in=[Tally.SECONDS, Tally.STEP], minute__gte=detail_of(begins))
    found: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in _sums(runs | details, "workflow", "kind", "name"):
        found[present.get(row["workflow"], row["workflow"])][row["kind"]].append(row)
    return {name: _counts(kinds) for name, kinds in sorted(found.items()) if kinds[Tally.RUNS]}


def failing_since(since: datetime) -> list[tuple[str, int, Counter[str]]]:
    """The workflows that failed most first: how often, and in which steps. Each name by itself, as lists have them.

    Of what the workers counted, and of that only what failed: all of a day would be twenty times as much to read.
    """
    runs = Q(kind=Tally.RUNS, minute__gte=since)
    steps = Q(kind=Tally.STEP, minute__gte=detail_of(since))
    rows = Tally.objects.using(Database().alias).filter(runs | steps, failed__gt=0).order_by()
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    failed: Counter[str] = Counter()
    for workflow, kind, name, count in rows.values_list("workflow", "kind", "name").annotate(Sum("failed")):
        if kind == Tally.RUNS:
            failed[workflow] = count
        elif name:
            found[workflow][name] = count
    return sorted(((name, failed[name], found[name]) for name in failed), key=lambda one: (-one[1], one[0]))


def _sums(condition: Q, *by: str) -> QuerySet[Tally, dict[str, Any]]:
    rows = Tally.objects.using(Database().alias).filter(condition).order_by().values(*by)
    sums: QuerySet[Tally, dict[str, Any]] = rows.annotate(**{event: Sum(event) for event in EVENTS})
    return sums


def _minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def _add(counts: Counts | Bucket, row: dict[str, Any]) -> None:
    for event in EVENTS:
        setattr(counts, event, getattr(counts, event) + row[event])


def _counts(kinds: dict[str, list[dict[str, Any]]]) -> WorkflowCounts:
    durations: Counter[int] = Counter()
    for row in kinds[Tally.SECONDS]:
        durations[int(row["name"])] += row["succeeded"] + row["failed"]
    counts = WorkflowCounts(
        p50=percentile(durations, 0.50),
        p95=percentile(durations, 0.95),
        failing_step=_worst(kinds[Tally.STEP]),
        failed_as=frozenset(row["workflow"] for row in kinds[Tally.RUNS] if row["failed"]),
    )
    for row in kinds[Tally.RUNS]:
        _add(counts, row)
    return counts


def _worst(rows: Iterable[dict[str, Any]]) -> tuple[str, int] | None:
    """Of those that fail as often the first by name; never those whose names were too many."""
    named: Counter[str] = Counter()
    for row in rows:
        if row["name"]:
            named[row["name"]] += row["failed"]
    return min(named.items(), key=lambda one: (-one[1], one[0]), default=None)
