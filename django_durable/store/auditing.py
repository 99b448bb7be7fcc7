"""What was asked of runs and schedules from outside, written down: by whom, when and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from ..models import Audit, Schedule
from .clock import DatabaseNow
from .database import Database

ACTOR_MAX = 150


@dataclass(slots=True, frozen=True)
class Verb:
    """Who asks for a transition, and why."""

    actor: str = ""
    reason: str = ""

    def about(self, what: str) -> Verb:
        """The same with a reason that begins with what it was about."""
        return Verb(self.actor, f"{what}: {self.reason}" if self.reason else what)


def audit(db: Database, runs: Iterable[tuple[UUID, str]], verb: str, by: Verb) -> None:
    """Note that ``verb`` was asked of these runs (id, and the status before; "" where there was none)."""
    tell(db, verb, ((run_id, status, by) for run_id, status in runs))


def tell(db: Database, verb: str, runs: Iterable[tuple[UUID, str, Verb]]) -> None:
    """As ``audit``, where the reason is another for each run."""
    Audit.objects.using(db.alias).bulk_create(
        Audit(
            run_id=run_id,
            verb=verb,
            actor=by.actor[:ACTOR_MAX],
            reason=by.reason,
            status_before=status,
            at=DatabaseNow(),
        )
        for run_id, status, by in runs
    )


def audit_schedule(db: Database, schedule: Schedule, verb: str, by: Verb, *, was_enabled: bool | None = None) -> None:
    """Note that ``verb`` was asked of this schedule. ``was_enabled``: where that is not as it is now."""
    before = schedule.enabled if was_enabled is None else was_enabled
    Audit.objects.using(db.alias).create(
        workflow=schedule.workflow,
        schedule=schedule.name,
        verb=verb,
        actor=by.actor[:ACTOR_MAX],
        reason=by.reason,
        status_before="enabled" if before else "disabled",
        at=DatabaseNow(),
    )


def rename(db: Database, former: tuple[str, str], now: tuple[str, str]) -> None:
    """What was asked of a schedule goes along when its workflow gets another name."""
    entries = Audit.objects.using(db.alias).filter(run=None, workflow=former[0], schedule=former[1])
    entries.update(workflow=now[0], schedule=now[1])
