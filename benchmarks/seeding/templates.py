"""Real runs, one for each way in which a run can stand, that the engine has worked itself: what is copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from benchmarks import rows

from . import workflows as work
from .workflows import Name

CUSTOMER, KEY = "customer-0", "order-0"
"""A tag and an idempotency key that each copy has one of its own of."""
ROOT = str(Path(__file__).resolve().parents[2])
WEEKS = timedelta(weeks=5)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LINES = [{"sku": "TEA-EARL-GREY-250", "quantity": 2, "price": "4.50"}, {"sku": "CUP", "quantity": 1, "price": "9.00"}]


@dataclass(frozen=True)
class Template:
    """A run of which there are to be copies: a ``share`` of all, created during the time from ``since`` ago until
    ``until`` ago, under these names by turns."""

    run: UUID
    share: float
    names: Sequence[Name]
    since: timedelta = WEEKS
    until: timedelta = timedelta(0)
    children: Sequence[UUID] = ()
    exactly: int = 0
    """So many copies, however many runs there are; 0: as the share says."""

    def copies_of(self, count: int) -> int:
        return self.exactly or max(round(count * self.share), 1)

    def remove(self) -> None:
        """It has served: its times are those of a clock that was moved."""
        for model, key in rows.tables():
            model._default_manager.filter(**{f"{key}__in": [self.run, *self.children]}).delete()


def make_templates(more: Callable[[], list[Template]] = list) -> list[Template]:
    """Run them. Those that are over come first: what the clock does for them must wake nobody else.

    ``more`` makes further ones, which are over.
    """
    others = more()
    long, recovered = _recovered_long(), _recovered()
    sent = over(work.SENDING, number=1)
    onboarded = over(work.SLOW, number=1)
    shipped, cancelled = _shipped(), _cancelled()
    failed = over(work.CHARGES, number=1)
    imported = over(work.IMPORTS, number=1)
    waiting, paused, blocked = (_waiting() for _ in range(3))
    _pause(paused)
    _block(blocked)
    asleep = _asleep()
    running = _running()
    scheduled = _start(work.SENDING, {"run_after": 3 * DAY}, number=1)
    queued = _start(work.SENDING, {}, number=1)
    _tidy()
    minutes = timedelta(minutes=12)
    return [
        # A single one.
        Template(long, 0, work.LONG, since=DAY, until=HOUR),
        Template(sent, 0.535, work.SENDING),
        Template(shipped, 0.289, work.ORDERS, until=HOUR),
        # Whose worker died on the way: as many as a deploy a day, a full disk and a bad release make of them.
        Template(recovered, 0.003, work.ORDERS, until=HOUR),
        Template(onboarded, 0.04, work.SLOW, until=3 * DAY),
        Template(imported, 0.015, work.IMPORTS, children=children_of(imported)),
        Template(failed, 0.04, [*work.ORDERS, *work.CHARGES]),
        Template(cancelled, 0.012, work.ORDERS, until=HOUR),
        Template(waiting, 0.008, work.ORDERS, since=4 * DAY),
        # None is due before somebody has looked.
        Template(asleep, 0.006, work.SLOW, since=2 * DAY - 2 * HOUR),
        Template(scheduled, 0.004, work.SENDING, since=2 * DAY),
        Template(queued, 0.0025, work.SENDING, since=minutes),
        Template(running, 0.000_15, work.ORDERS, since=timedelta(minutes=3)),
        Template(paused, 0.000_2, work.ORDERS, since=WEEKS),
        Template(blocked, 0.000_15, work.ORDERS, since=DAY),
        *others,
    ]


def work_off(skip_waits: bool = False, *, ahead: timedelta = timedelta(0)) -> None:
    """Work whatever is due, on a clock of its own that is so much ahead."""
    from django_durable.testing import run_until_idle
    from django_durable.testing.travelling import travel

    with travel(schedules=False) as clock:
        clock.advance(ahead)
        run_until_idle(skip_waits)


def _tidy() -> None:
    """Lay the journals out as in life, one entry after the other: what a step or an attempt takes is measured by a
    clock that cannot be moved. And say nothing of where this machine keeps the code."""
    from django.db.models import F, TextField, Value
    from django.db.models.functions import Cast, Replace

    from django_durable.models import Event, JournalEntry, Payload, Run

    for run in Run.objects.exclude(started_at=None):
        at, entries = run.started_at, list(JournalEntry.objects.filter(run_id=run.pk).order_by("seq"))
        for entry in entries:
            entry.started_at = at
            if entry.finished_at is not None:
                at = entry.finished_at = max(at, entry.finished_at)
        JournalEntry.objects.bulk_update(entries, ["started_at", "finished_at"], batch_size=500)
        _lengthen(run.pk, {entry.path: entry.started_at for entry in entries})
    Event.objects.exclude(consumed_at=None).update(sent_at=F("consumed_at"))
    for model, column in ((JournalEntry, "error"), (Payload, "data")):
        tidied = Replace(Cast(column, TextField()), Value(ROOT), Value("/srv/shop"))
        model._default_manager.filter(**{f"{column}__contains": ROOT}).update(**{column: tidied})


def _lengthen(run_id: UUID, begun: dict[str, datetime]) -> None:
    """Say of each attempt that was made again how long it took. ``begun``: by path, when the first one was."""
    from django_durable.core.journal.log import FailedAttempt
    from django_durable.models import LogLine

    lines = list(LogLine.objects.filter(run_id=run_id, attempt__isnull=False, scope__in=begun).order_by("number"))
    for line in lines:
        line.seconds = (line.at - begun[line.scope]).total_seconds()
        failed = FailedAttempt.read(line.message)
        begun[line.scope] = line.at + timedelta(seconds=failed.wait if failed else 0)
    LogLine.objects.bulk_update(lines, ["seconds"])


def _start(names: Sequence[Name], options: dict[str, Any], **given: Any) -> UUID:
    from django_durable import get_workflow

    run_id: UUID = get_workflow(names[0][0]).using(**options).enqueue(**given).id
    return run_id


def over(names: Sequence[Name], **given: Any) -> UUID:
    run_id = _start(names, {"tags": ["web", CUSTOMER]}, **given)
    work_off(skip_waits=True)
    return _expect(run_id, "succeeded", "failed")


def _expect(run_id: UUID, *statuses: str) -> UUID:
    from django_durable.models import Run

    status = Run.objects.values_list("status", flat=True).get(pk=run_id)
    assert status in statuses, f"the run that was to be copied is {status}"
    return run_id


def _waiting(options: dict[str, Any] | None = None) -> UUID:
    run_id = _start(work.ORDERS, {"tags": ["shop", "vip", CUSTOMER], **(options or {})}, number=1, lines=LINES)
    work_off()
    return _expect(run_id, "waiting")


def _shipped() -> UUID:
    from django_durable import get_run

    run_id = _waiting({"idempotency_key": KEY, "idempotency_ttl": 60 * DAY})
    get_run(run_id).send_event("packed", {"parcel": "JJD000390007712", "weight": 0.42}, idempotency_key="packed 1")
    work_off(ahead=timedelta(minutes=40))
    return _expect(run_id, "succeeded")


def _recovered() -> UUID:
    """Its worker dies, and another one goes on."""
    from django_durable import get_run
    from django_durable.testing import crash_after

    with crash_after("charge"):
        run_id = _waiting()
    get_run(run_id).send_event("packed", {"parcel": "JJD000390007713"})
    work_off(ahead=timedelta(minutes=50))
    return _expect(run_id, "succeeded")


def _recovered_long() -> UUID:
    from django_durable.testing import crash_after

    with crash_after(f"page[{work.STEPS_OF_THE_LONG_ONE // 2}]"):
        return over(work.LONG, number=1)


def _cancelled() -> UUID:
    from django_durable import cancel_runs
    from django_durable.testing.travelling import travel

    run_id = _waiting()
    with travel(schedules=False) as clock:
        clock.advance(minutes=5)
        cancel_runs([run_id], reason="The customer has changed her mind.", actor="ann")
    work_off(ahead=timedelta(minutes=6))
    return _expect(run_id, "cancelled")


def _pause(run_id: UUID) -> None:
    from django_durable import pause_runs

    pause_runs([run_id], reason="The warehouse counts its stock.", actor="bob")
    _expect(run_id, "paused")


def _block(run_id: UUID) -> None:
    """As a deploy does that has lost a type: its input cannot be read any more."""
    from django_durable import get_run
    from django_durable.models import Payload

    Payload.objects.filter(run_id=run_id, kind="input").update(data='{"$":"shop.Basket","v":[]}')
    get_run(run_id).send_event("packed", {})
    work_off()
    _expect(run_id, "blocked")


def _asleep() -> UUID:
    run_id = _start(work.SLOW, {"tags": ["web", CUSTOMER]}, number=1)
    work_off()
    return _expect(run_id, "waiting")


def _running() -> UUID:
    from django_durable import get_run
    from django_durable.core.clock import DatabaseClock
    from django_durable.store.claiming import Claimant, claim_ids
    from django_durable.store.database import Database

    run_id = _waiting()
    get_run(run_id).send_event("packed", {"parcel": "JJD000390007712"})
    [(name, queue), *_] = work.ORDERS
    who = Claimant(uuid4(), (queue,), (name,))
    claim_ids(Database(), who, [run_id], lease=HOUR.total_seconds(), time=DatabaseClock())
    return _expect(run_id, "running")


def children_of(run_id: UUID) -> list[UUID]:
    from django_durable.models import Run

    return list(Run.objects.filter(parent_id=run_id).values_list("pk", flat=True))
