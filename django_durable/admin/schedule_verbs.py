"""What operators do with schedules: turn them on or off, fire them now and for the past, make, change and remove those
of their own. All of it is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Q
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ..client import schedules
from ..client.schedules import Backfilled
from ..models import Schedule
from ..store.database import Database
from ..store.locking_schedules import brief_schedule_lock
from .verbs import write_down

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

SWITCH, FIRE, ADD = "change_schedule", "fire_schedule", "add_schedule"
"""Permissions."""
SWITCHED_MOST = 200
DEFINITION = ("name", "expression", "timezone", "overlap", "catch_up", "jitter", "input")


@dataclass(frozen=True)
class Switch:
    """``question`` and ``done`` take a ``count``; ``eligible`` are the schedules that it would change."""

    name: str
    label: StrOrPromise
    question: Any
    consequence: StrOrPromise
    done: Any
    eligible: Q
    act: Callable[..., None]

    def perform(self, ids: Iterable[int], *, user: AbstractBaseUser, reason: str) -> list[Schedule]:
        """Turn those that are still eligible; which these were. Audit and LogEntry come with it. Raises
        ScheduleLocked: then none was turned."""
        with brief_schedule_lock(Database(), Schedule.objects.filter(self.eligible, pk__in=list(ids))) as found:
            for schedule in found:
                self.act(schedule, actor=user.get_username(), reason=reason)
            write_down(user, found, self.label, reason)
        return found


ENABLE = Switch(
    name="enable",
    label=_("Enable"),
    question=ngettext_lazy("Enable this schedule?", "Enable these %(count)d schedules?", "count"),
    consequence=_("It fires from now on. What it would have fired while it was off is not made up for."),
    done=ngettext_lazy("%(count)d schedule was enabled.", "%(count)d schedules were enabled.", "count"),
    eligible=Q(enabled=False) | ~Q(problem=""),
    act=schedules.enable,
)
DISABLE = Switch(
    name="disable",
    label=_("Disable"),
    question=ngettext_lazy("Disable this schedule?", "Disable these %(count)d schedules?", "count"),
    consequence=_("It fires no more, also after a deploy, until somebody enables it. Runs that it has started go on."),
    done=ngettext_lazy("%(count)d schedule was disabled.", "%(count)d schedules were disabled.", "count"),
    eligible=Q(enabled=True),
    act=schedules.disable,
)


def fire(schedule: Schedule, *, user: AbstractBaseUser, reason: str) -> UUID:
    """Start a run of it, with audit entries; the run's id. Raises what ``fire_now`` raises."""
    with Database().transaction():
        run_id = schedules.fire_now(schedule, reason, user.get_username())
        write_down(user, [schedule], _("Fire now"), reason)
    return run_id


def create(schedule: Schedule, *, user: AbstractBaseUser, reason: str) -> None:
    """Store it, with audit entries. Raises what the client's ``create`` raises."""
    with Database().transaction():
        schedules.create(schedule, reason=reason, actor=user.get_username())
        write_down(user, [schedule], _("Create"), reason)


class ScheduleChanged(Exception):
    """It does not stand as it was seen. ``row`` is how it stands."""

    def __init__(self, row: Schedule) -> None:
        super().__init__(str(row))
        self.row = row


def state_of(schedule: Schedule) -> str:
    """How it stands in what an operator may change of it. Of a stored input nobody can guess from it which it is."""
    stands = "\n".join(repr(getattr(schedule, name)) for name in DEFINITION)
    return salted_hmac("django_durable.schedule", stands, algorithm="sha256").hexdigest()


def change(
    schedule: Schedule, changes: Mapping[str, Any], *, user: AbstractBaseUser, reason: str, seen: str = ""
) -> None:
    """Change it, with audit entries; where it was ``seen`` in another state not. Raises ScheduleChanged, and what the
    client's ``change`` raises."""
    with brief_schedule_lock(Database(), Schedule.objects.filter(pk=schedule.pk)) as found:
        if seen and found and state_of(found[0]) != seen:
            raise ScheduleChanged(found[0])
        schedules.change(schedule, changes, reason=reason, actor=user.get_username())
        write_down(user, [schedule], _("Change"), reason)


def remove(schedule: Schedule, *, user: AbstractBaseUser, reason: str) -> None:
    """Take it away, with audit entries. Raises what the client's ``remove`` raises."""
    with Database().transaction():
        schedules.remove(schedule, reason=reason, actor=user.get_username())
        label = str(_("Remove"))
        # Django's history links to the page of whatever is no deletion.
        LogEntry.objects.log_actions(user.pk, [schedule], DELETION, f"{label}: {reason}" if reason else label)


def backfill(
    schedule: Schedule, since: datetime, until: datetime, limit: int, *, user: AbstractBaseUser, reason: str
) -> Backfilled:
    """All of it or nothing, with audit entries. Raises what the client's ``backfill`` raises."""
    with Database().transaction():
        done = schedules.backfill(schedule, since, until, limit, reason=reason, actor=user.get_username())
        if done.run_ids:
            write_down(user, [schedule], _("Backfill"), reason)
    return done
