"""Queues, workers, and the runs that something is wrong with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ....client import listing
from ....client.holding import held_by, holds
from ....models import Hold, Worker
from ....queues.current import current_queue, queue_kind
from .._shell import iso, plural
from .database import database_now
from .section import Section


def examine_runs(section: Section) -> None:
    now = database_now()
    workers = listing.live_workers(now)
    found = holds()
    section.facts = {
        "workers": [_worker(worker, now) for worker in workers],
        "queues": [_queue(depth, now) for depth in listing.queue_depths()],
        "overdue_leases": listing.overdue_leases(now).count(),
        "held": [_hold(hold) for hold in found],
        "overdue_wakes": listing.overdue_wakes(now, held_by(found)),
        "without_progress": listing.without_progress(now).count(),
        "suspects": listing.suspects(),
        "blocked": listing.blocked(),
    }
    _judge_queues(section, [worker for worker in workers if not worker.is_isolated])
    _judge_runs(section)


def _judge_queues(section: Section, workers: Sequence[Worker]) -> None:
    served = {queue for worker in workers for queue in worker.queues}
    for queue in section.facts["queues"]:
        if queue["queue"] not in served:
            startable = plural(queue["ready"] + queue["suspects"], "run")
            section.problems.append(
                f"No live worker serves the queue {queue['queue']!r}, where {startable} could start. "
                f"Start one with manage.py durable_worker --queues {queue['queue']}."
            )
    for hold in section.facts["held"]:
        section.notes.append(
            f"The {hold['kind']} {hold['name']!r} is held since {hold['since']}, by {hold['actor'] or 'nobody named'}"
            f"{': ' + hold['reason'] if hold['reason'] else ''}. manage.py durable_release {hold['kind']} ends that."
        )
    if not workers:
        section.notes.append("No worker is alive.")


def _judge_runs(section: Section) -> None:
    facts = section.facts
    if count := facts["overdue_leases"]:
        section.problems.append(
            f"{plural(count, 'run')} with a lapsed lease that nobody has taken up: workers with loops should have."
        )
    if count := facts["overdue_wakes"]:
        section.problems.append(
            f"{plural(count, 'run')} due for more than {listing.DUE_GRACE:g} s and not promoted: "
            "workers with loops should have."
        )
    for reason, count in facts["blocked"].items():
        section.problems.append(
            f"{plural(count, 'run')} blocked: {reason}. See manage.py durable_runs --status blocked."
        )
    if count := facts["without_progress"]:
        section.notes.append(
            f"{plural(count, 'run')} being worked on without having journaled anything for an hour: a step that hangs? "
            "run.why() says since when; timeout= ends such attempts."
        )
    if count := facts["suspects"]:
        section.notes.append(f"{plural(count, 'run')} whose process died, to be run alone next.")


def _worker(worker: Worker, now: datetime) -> dict[str, Any]:
    return {
        "id": str(worker.pk),
        "process": str(worker),
        "queues": worker.queues,
        "concurrency": worker.concurrency,
        "started": iso(worker.started_at),
        "heartbeat_age_s": _age(worker.heartbeat_at, now),
    }


def _queue(depth: listing.QueueDepth, now: datetime) -> dict[str, Any]:
    return {
        "queue": depth.queue,
        "ready": depth.ready,
        "suspects": depth.suspects,
        "oldest_s": _age(depth.oldest, now),
        "in_redis": _length(depth.queue),
    }


def _hold(hold: Hold) -> dict[str, Any]:
    return {
        "kind": hold.kind, "name": hold.name, "since": iso(hold.since), "actor": hold.actor, "reason": hold.reason,
    }  # fmt: skip


def _length(queue: str) -> int | None:
    if queue_kind() != "redis":
        return None
    try:
        return current_queue().length(queue)
    except Exception:
        # Told once, where Redis is examined.
        return None


def _age(then: datetime, now: datetime) -> float:
    return round((now - then).total_seconds(), 1)
