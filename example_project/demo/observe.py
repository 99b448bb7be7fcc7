"""What the demo looks up in the engine's own tables. A shop never needs this: its orders tell it what it must know."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from uuid import UUID

from django_durable.models import JournalEntry, Run, Worker


def workers_in_group(group: int) -> list[UUID]:
    """The ids of the worker processes that live in a process group."""
    rows = Worker.objects.filter(host=socket.gethostname(), stopped_at=None).values_list("id", "pid")
    return [worker for worker, pid in rows if is_in_group(pid, group)]


def is_in_group(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except (ProcessLookupError, PermissionError):
        return False


def leased_by(workers: Collection[UUID]) -> set[UUID]:
    """The runs that these workers are executing."""
    return set(Run.objects.filter(status="running", leased_by__in=workers).values_list("id", flat=True))


def journaled(runs: Collection[UUID], path: str) -> set[UUID]:
    """The runs among these whose step of that path is done."""
    done = JournalEntry.objects.filter(run_id__in=runs, path=path, status="succeeded")
    return set(done.values_list("run_id", flat=True))


def statuses(runs: Collection[UUID]) -> dict[UUID, str]:
    """The status of each run that there is."""
    return dict(Run.objects.filter(id__in=runs).values_list("id", "status"))


def count_unfinished(workflows: Collection[str]) -> int:
    """How many runs of these workflows will still move by themselves."""
    moving = Run.objects.filter(workflow__in=workflows, status__in=["scheduled", "queued", "running", "waiting"])
    return moving.count()
