"""How schedules do: late, failing, unable to fire; in words and not by colour alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Case, OuterRef, Q, Subquery, Value, When
from django.utils.html import format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..client.schedules import FAILURES, JUDGED_BY, late
from ..core.journal.states import Status
from ..models import Fire, Run, Schedule
from ..store.database import Database
from . import cells

SHOWN = ("status", "phase", "cancel_requested_at", "pause_requested_at")


@dataclass(frozen=True, slots=True)
class Standing:
    """``latest`` are the runs that it has started last, the newest first, as far as they are still there."""

    is_late: bool
    latest: Sequence[Run]

    @property
    def failures(self) -> int:
        """How many failed one after the other, up to now; one that is not over or was cancelled says nothing."""
        told = [run.status for run in self.latest if run.status in FAILURES or run.status == Status.SUCCEEDED]
        return next((n for n, status in enumerate(told) if status not in FAILURES), len(told))


def standing_of(schedules: Iterable[Schedule], now: datetime) -> dict[int, Standing]:
    """By their keys, in two queries however many they are: for each a few steps in the index of its fires."""
    fires = Fire.objects.filter(schedule=OuterRef("pk"), run_id__isnull=False).order_by("-scheduled_for")
    newest = [Subquery(fires.values("run_id")[n : n + 1]) for n in range(JUDGED_BY)]
    is_late = Case(When(Q(enabled=True) & late(now), then=Value(True)), default=Value(False))
    asked = Schedule.objects.using(Database().alias).filter(pk__in=[schedule.pk for schedule in schedules])
    rows = [(pk, is_late, ids) for pk, is_late, *ids in asked.values_list("pk", is_late, *newest)]
    runs = runs_by_id(run_id for _pk, _is_late, ids in rows for run_id in ids if run_id)
    return {pk: Standing(is_late, [runs[one] for one in ids if one in runs]) for pk, is_late, ids in rows}


def runs_by_id(ids: Iterable[UUID]) -> dict[UUID, Run]:
    """As much of these runs as their pills show; those that are gone are left out."""
    found = set(ids)
    return Run.objects.using(Database().alias).only(*SHOWN).in_bulk(found) if found else {}


def pills(schedule: Schedule, standing: Standing) -> str:
    """Whether it is on, and what is wrong with it."""
    found = [cells.switch_pill(schedule)]
    if schedule.enabled and schedule.problem:
        found.append(cells.pill("failed", _("cannot fire")))
    elif standing.is_late:
        found.append(cells.pill("late", _("late")))
    if standing.failures:
        found.append(cells.pill("failed", _("failing")))
    return format_html_join(" ", "{}", ((one,) for one in found))


def told_failures(failures: int) -> str:
    return ngettext("Its last run failed.", "Its last %(count)d runs failed.", failures) % {"count": failures}
