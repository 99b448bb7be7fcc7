"""Workers with the workflows of this folder, and what is true of runs that nobody had to repeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django_durable.models import Run
from tests.acceptance.traces import executions
from tests.processes import Worker

SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.system.settings"}


def start_worker(
    *arguments: str, durable: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None
) -> Worker:
    return Worker(*arguments, durable=durable, env={**SETTINGS, **(env or {})})


def repeated(*run_ids: UUID) -> dict[UUID, dict[str, int]]:
    """Steps that began more than once in runs that were claimed once, which is to say for no good reason."""
    found = {}
    for run_id in Run.objects.filter(pk__in=run_ids, claims=1).values_list("pk", flat=True):
        if several := {path: count for path, count in executions(run_id).items() if count > 1}:
            found[run_id] = several
    return found


def failed() -> list[UUID]:
    """Runs that came to no good end."""
    return list(Run.objects.filter(status__in=["failed", "blocked", "cancelled"]).values_list("pk", flat=True))
