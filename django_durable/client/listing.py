"""Lists and views of runs, for commands and the admin: bounded, and never a payload of many megabytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast, Left, Length

from ..conf import durable_settings
from ..core.journal.states import PayloadKind, Status, failure_kinds
from ..models import Audit, Event, JournalEntry, Payload, Run, Tag, Worker
from ..models.run import IS_QUEUED, RunQuerySet
from ..store.clock import DatabaseNow
from ..store.database import Database
from ..store.holding import NOTHING, Held

LIMIT_MOST = 1_000
EXCERPT = 2_048
"""Characters of a payload that lists and views show; the text is ASCII, so they are bytes."""
ENTRIES_MOST = 1_000
MISSED_BEATS = 3
DUE_GRACE = 10.0
"""Seconds by which due runs and schedules may be late before something is wrong: promoting ticks every second."""
STILL = timedelta(hours=1)
"""So long a run that is worked on may journal nothing before it is told: a step may take hours."""


class Size(Length):
    """Of stored text in characters, which are bytes: it is ASCII. How many bytes there are PostgreSQL knows of what it
    keeps aside; to count characters it would read all of it."""

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        return self.as_sql(compiler, connection, function="octet_length", **more)


@dataclass(slots=True, frozen=True)
class Excerpt:
    """The beginning of an encoded value as it is stored (JSON unless it was cut), and how long it is in all."""

    text: str
    size: int

    @property
    def is_cut(self) -> bool:
        return self.size > len(self.text)


@dataclass(slots=True, frozen=True)
class RunView:
    """All that is known of a run, without decoding anything: damaged payloads must not hide a run."""

    run: Run
    tags: list[str]
    payloads: dict[str, Excerpt]
    entries: list[dict[str, Any]]
    """Journal rows as dicts in order, with ``value`` and ``error`` as Excerpt or None; at most ``ENTRIES_MOST``."""
    entry_count: int
    events: list[Event]
    """Without their payloads."""
    audit: list[Audit]


def find_runs(
    *,
    statuses: Sequence[str] = (),
    workflow: str = "",
    queue: str = "",
    tags: Sequence[str] = (),
    limit: int = 20,
) -> list[Run]:
    """The newest runs that meet every condition, newest first; ``limit`` is clamped to 1 … ``LIMIT_MOST``."""
    found = _runs()
    if workflow:
        found = found.for_workflow(workflow)
    found = found.tagged(*tags)
    if statuses:
        found = found.filter(status__in=list(statuses))
    if queue:
        found = found.filter(queue=queue)
    return list(found.order_by("-pk")[: max(1, min(limit, LIMIT_MOST))])


def view(run: Run) -> RunView:
    """What the database knows of this run."""
    alias = Database().alias
    journal = JournalEntry.objects.using(alias).filter(run_id=run.pk)
    events = Event.objects.using(alias).filter(run_id=run.pk).order_by("pk")
    return RunView(
        run=run,
        tags=list(Tag.objects.using(alias).filter(run_id=run.pk).order_by("name").values_list("name", flat=True)),
        payloads=_payloads(alias, run),
        entries=_entries(journal),
        entry_count=journal.count(),
        events=list(events.defer("payload")[:ENTRIES_MOST]),
        audit=list(Audit.objects.using(alias).filter(run_id=run.pk).order_by("pk")[:ENTRIES_MOST]),
    )


def _runs() -> RunQuerySet:
    runs = Run.objects.using(Database().alias).all()
    assert isinstance(runs, RunQuerySet)  # noqa: S101  (for the type checker)
    return runs


def _payloads(alias: str, run: Run) -> dict[str, Excerpt]:
    rows = Payload.objects.using(alias).filter(run_id=run.pk).order_by("kind")
    if PayloadKind.RETRY not in failure_kinds(run.status):
        rows = rows.exclude(kind=PayloadKind.RETRY)
    return {
        kind: Excerpt(text, size)
        for kind, text, size in rows.annotate(text=Left("data", EXCERPT), size=Size("data")).values_list(
            "kind", "text", "size"
        )
    }


def _entries(journal: QuerySet[JournalEntry]) -> list[dict[str, Any]]:
    columns = ("path", "seq", "kind", "status", "attempts", "started_at", "finished_at", "wake_at", "awaits")
    cut = {
        f"{column}_{what}": function
        for column in ("value", "error")
        for what, function in (
            ("text", Left(Cast(column, TextField()), EXCERPT)),
            ("size", Size(column)),
        )
    }
    rows = journal.order_by("seq").annotate(**cut).values(*columns, *cut)[:ENTRIES_MOST]
    return [
        {column: row[column] for column in columns}
        | {
            column: None if row[f"{column}_text"] is None else Excerpt(row[f"{column}_text"], row[f"{column}_size"])
            for column in ("value", "error")
        }
        for row in rows
    ]


# --- the whole installation ------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class QueueDepth:
    """How many runs of a queue could start now, how many suspects wait there for a process of their own, and since when
    the one that waits longest does."""

    queue: str
    ready: int
    suspects: int
    oldest: datetime


def queue_depths() -> list[QueueDepth]:
    """The queues with something to do."""
    suspects = Count("pk", filter=Q(suspect=True))
    rows = _runs().filter(IS_QUEUED).order_by().values("queue").annotate(count=Count("pk"), suspects=suspects)
    return [
        QueueDepth(row["queue"], row["count"] - row["suspects"], row["suspects"], row["oldest"])
        for row in rows.annotate(oldest=Min("queued_at")).order_by("queue")
    ]


def silent_since(now: datetime) -> datetime:
    """A process that was last heard of before that is taken for dead."""
    return now - timedelta(seconds=_silence())


def _silence() -> float:
    return MISSED_BEATS * durable_settings().HEARTBEAT_SECONDS


def live_workers(now: datetime) -> list[Worker]:
    """Processes whose last heartbeat is recent. ``now`` is the database's time."""
    return list(_workers().filter(heartbeat_at__gte=silent_since(now)).order_by("pk"))


def serving_workers() -> QuerySet[Worker]:
    """Processes that are alive and take up what is ready in their queues, which isolated ones do not."""
    return _workers().filter(heartbeat_at__gte=DatabaseNow(_silence()), is_isolated=False)


def heard_of_since(moment: datetime) -> tuple[list[Worker], Worker | None]:
    """Processes that have not stopped and were heard of since then, the last heard of first; and which one was heard of
    last of all, whether it stopped or not and however long ago. Without what they know."""
    everybody = Worker.objects.using(Database().alias).order_by("-heartbeat_at")
    recent = Q(stopped_at=None, heartbeat_at__gte=moment)
    found = list(everybody.filter(recent | Q(pk__in=everybody.values("pk")[:1])).defer("workflows")[:LIMIT_MOST])
    heard = [worker for worker in found if worker.stopped_at is None and worker.heartbeat_at >= moment]
    return heard, next(iter(found), None)


def _workers() -> QuerySet[Worker]:
    return Worker.objects.using(Database().alias).filter(stopped_at=None)


def reap_grace() -> float:
    """Seconds after which a lapsed lease should have been taken up: within a tick, on SQLite a heartbeat later; two
    ticks more before we complain."""
    settings = durable_settings()
    return 3 * settings.REAP_SECONDS + settings.HEARTBEAT_SECONDS


def overdue_leases(now: datetime) -> RunQuerySet:
    """Running runs whose lease ended more than ``reap_grace`` ago and that nobody has taken up."""
    return _runs().filter(status=Status.RUNNING, lease_expires_at__lt=now - timedelta(seconds=reap_grace()))


def without_progress(now: datetime) -> RunQuerySet:
    """Running runs whose lease stands and that have journaled nothing for ``STILL``: a step of theirs may hang."""
    since = now - STILL
    journal = JournalEntry.objects.using(Database().alias).filter(run_id=OuterRef("pk"))
    # A wait that is over by now: nobody worked on the run before.
    recent = journal.filter(Q(started_at__gte=since) | Q(finished_at__gte=since) | Q(wake_at__range=(since, now)))
    running = _runs().filter(status=Status.RUNNING, lease_expires_at__gte=now, started_at__lt=since)
    return running.filter(Q(queued_at__lt=since) | Q(queued_at=None), ~Exists(recent))


def overdue_wakes(now: datetime, held: Held = NOTHING) -> int:
    """Scheduled and waiting runs that were due more than ``DUE_GRACE`` ago; not those that are held."""
    due = now - timedelta(seconds=DUE_GRACE)
    asleep = _runs().filter(status__in=[Status.SCHEDULED, Status.WAITING], wake_at__lt=due)
    return asleep.exclude(Q(queue__in=held.queues) | Q(workflow__in=held.workflows)).count()


def suspects() -> int:
    """Queued runs whose process died: each runs next in a process of its own."""
    return _runs().filter(Q(status=Status.QUEUED) & Q(suspect=True)).count()


def blocked() -> dict[str, int]:
    """Blocked runs by reason."""
    rows = _runs().filter(status=Status.BLOCKED).order_by()
    return {row["block_reason"]: row["count"] for row in rows.values("block_reason").annotate(count=Count("pk"))}
