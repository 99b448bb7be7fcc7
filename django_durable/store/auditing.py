"""What was asked of runs from outside, written down: by whom, when and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from ..models import Audit
from .clock import DatabaseNow
from .database import Database

ACTOR_MAX = 150


@dataclass(slots=True, frozen=True)
class Verb:
    """Who asks for a transition, and why."""

    actor: str = ""
    reason: str = ""


def audit(db: Database, runs: Iterable[tuple[UUID, str]], verb: str, by: Verb) -> None:
    """Note that ``verb`` was asked of these runs (id, and the status before; "" where there was none)."""
    Audit.objects.using(db.alias).bulk_create(
        Audit(
            run_id=run_id,
            verb=verb,
            actor=by.actor[:ACTOR_MAX],
            reason=by.reason,
            status_before=status,
            at=DatabaseNow(),
        )
        for run_id, status in runs
    )
