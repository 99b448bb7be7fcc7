"""What is asked once everything is healed and every run over, while the workers are still there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path

from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import F, Min
from django.db.models.functions import Now

from django_durable.models import Worker
from django_durable.store.database import Database
from django_durable.store.invariants import Bounds
from django_durable.store.invariants.liveness import MOVEMENTS, Patience, examine_movement
from tests.processes import FAST

ASKED = "I21"
"""Of `durable_check`, what needs Redis. The rest is asked when nobody is there any more."""

[SESSIONS] = [one for one in MOVEMENTS if one.id == "L6"]
HELD_UP, AGAIN = 5.0, 1.0
"""L6: for how many seconds a session may wait for a lock or be idle in a transaction, and for how many more it has to
stay so. `durable_check` leaves it a minute, in which what the project itself holds may be over: here none is."""

DEADLOCK = "deadlock detected"

SILENT = timedelta(seconds=2 * FAST["HEARTBEAT_SECONDS"])


def violated() -> Iterator[str]:
    """What `durable_check` finds in Redis, what holds up others among the sessions, and what could not be told."""
    out = StringIO()
    try:
        call_command("durable_check", only=[ASKED], stdout=out)
    except CommandError as error:
        yield f"durable_check: {error}"
        yield from (text for text in out.getvalue().splitlines() if not text.startswith("ok "))
    found = examine_movement(Database(), SESSIONS, Bounds(), replace(Patience.now(), bound=HELD_UP, again=AGAIN))
    yield from (f"{found.id}: {one.problem}" for one in found.violations)
    if found.not_known:
        yield f"{found.id}: {found.not_known}"


def silent(places: Mapping[int, Collection[int]]) -> Iterator[str]:
    """L4: which of the processes that are at each place have not been heard of for two heartbeats, by the database's
    clock.

    One that only begins, or has just ended, has no row that goes on; but somebody of each place has. Those who were
    killed have one for ever, perhaps with the number of somebody who lives.
    """
    going_on = Worker.objects.filter(stopped_at=None, pid__in={pid for pids in places.values() for pid in pids})
    heard = dict(going_on.values_list("pid").annotate(silence=Min(Now() - F("heartbeat_at"))))
    for place, pids in places.items():
        if heard.keys().isdisjoint(pids):
            yield f"L4: of the processes {sorted(pids)} at place {place} none says that it is there"
        for pid in sorted(heard.keys() & pids):
            if heard[pid] > SILENT:
                yield f"L4: process {pid} at place {place} was last heard of {heard[pid].total_seconds():.2f} s ago"


class ServerLog:
    """What PostgreSQL logs from now on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = log.stat().st_size

    def deadlocks(self) -> Iterator[str]:
        """Whoever was picked to give way tries again, so that nothing else would show them."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            text = log.read().decode(errors="replace")
        for line in text.splitlines():
            if DEADLOCK in line:
                yield f"PostgreSQL: {line}"
