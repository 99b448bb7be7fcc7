"""What a case has left in the tables: all runs that came after it began, and what is theirs."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from django_durable.client.handle import RunHandle
from django_durable.conf import durable_settings
from django_durable.core.journal.states import TERMINAL, Status
from django_durable.models import JournalEntry, Payload, Run
from django_durable.store.database import Database
from tests.faults.scenarios import Scenario

SETTLED = ("succeeded", "failed")
Snapshot = list[Any]


def first_id() -> UUID:
    """No id of this millisecond, and of those to come, is below it."""
    return UUID(int=time.time_ns() // 1_000_000 << 80)


class Rows:
    """``db`` looks at them from outside of every transaction of the case."""

    def __init__(self, scenario: Scenario, db: Database) -> None:
        self.began = first_id()
        self._scenario = scenario
        self._db = db

    def runs(self) -> QuerySet[Run]:
        return Run.objects.filter(pk__gt=self.began)

    def is_over(self) -> bool:
        d = self._db.dialect
        rows = self._db.rows("SELECT status FROM django_durable_run WHERE id > %(began)s", began=d.key(self.began))
        statuses = {status for (status,) in rows}
        is_owed = self._scenario.is_scheduled and not statuses
        return not is_owed and statuses <= (TERMINAL | {Status.BLOCKED} if self._scenario.is_suspect else TERMINAL)

    def can_move(self) -> bool:
        """Whether time or a worker may still move something: all but what waits for an event."""
        waits = Q(status=Status.WAITING, wake_at=None, waiting_on__startswith="event:")
        is_owed = self._scenario.is_scheduled and not self.runs().exists()
        return is_owed or self.runs().exclude(waits).exclude(status__in=TERMINAL).exists()

    def stored(self) -> Snapshot:
        """Every row of every run with every column."""
        return [
            *self.runs().order_by("pk").values(),
            *JournalEntry.objects.filter(run_id__gt=self.began).order_by("run_id", "seq").values(),
            *Payload.objects.filter(run_id__gt=self.began).order_by("run_id", "kind").values(),
        ]

    def settled(self) -> list[tuple[UUID, str]]:
        """Run and path of every step that is journaled with its outcome."""
        entries = JournalEntry.objects.filter(run_id__gt=self.began, status__in=SETTLED)
        return list(entries.values_list("run_id", "path"))

    def at_stake(self) -> list[UUID]:
        """The runs that end blocked if the process dies which is alone with them now."""
        if not self._scenario.is_suspect:
            return []
        last = durable_settings().MAX_CRASHES - 1
        suspects = self.runs().filter(status=Status.RUNNING, suspect=True, crashes=last)
        return list(suspects.values_list("pk", flat=True))

    def has_settled(self, run_id: UUID, path: str) -> bool:
        """The same of one step."""
        return bool(
            self._db.rows(
                "SELECT 1 FROM django_durable_journalentry WHERE run_id = %(run)s AND path = %(path)s "
                "AND status IN ('succeeded', 'failed')",
                run=self._db.dialect.key(run_id),
                path=path,
            )
        )

    def unfinished(self) -> str:
        """Why it is not over, in words."""
        live = self.runs().exclude(status__in=TERMINAL)
        whys = [f"{run.workflow} is {run.status}: {RunHandle[Any](run.pk).why()}" for run in live]
        return f"not finished: {'; '.join(whys) or 'the schedule has not fired'}"
