"""Schedules in ``run_until_idle``: synchronised and fired as the loops of a worker do, on the test's connection."""

from __future__ import annotations

from datetime import datetime

from ..core import clock
from ..models import Schedule
from ..store import scheduling
from ..store.database import Database
from ..worker.loops.fire import BATCH, Fire
from ..worker.loops.synchronise import Synchronise
from .idling import NullQueue
from .travelling import traveller


class Schedules:
    """The schedules of one call: what was due when it began may fire, and nothing that comes due meanwhile.

    A jump that skips the wait of a run would else make the next instant of its schedule due, whose run waits, and so
    on for ever. Only inside of ``travel()``: tests that move no time need not reckon with the project's schedules.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._code = Synchronise()
        self._loop = Fire(NullQueue(), self._code)
        self._began = clock.monotonic()
        self._are_watched = False

    def plan(self) -> None:
        """Bring the rows in line with the code, and let them fire, if the test moves the time for them."""
        travelling = traveller()
        if travelling is not None and travelling.planned_until is not None:
            self._synchronise(travelling.planned_until)
            travelling.planned_until = travelling.now()
            self._are_watched = True

    def _synchronise(self, since: datetime) -> None:
        """What is new is planned from ``since`` and not from now: a worker would have seen it then, and the instants
        that the test has gone past meanwhile are due."""
        rows = Schedule.objects.using(self._db.alias)
        planned = dict(rows.values_list("pk", "next_fire_at"))
        self._code.tick()
        for row in rows.filter(enabled=True, problem=""):
            if row.next_fire_at is None or row.next_fire_at != planned.get(row.pk):
                scheduling.plan_anew(row, since)
                row.save(using=self._db.alias, update_fields=["next_fire_at", "problem"])

    def fire(self) -> bool:
        """Fire what is left of what was due at the beginning; whether anything was."""
        if not self._are_watched:
            return False
        elapsed = clock.monotonic() - self._began  # jumps and all, as the database's time that `due_in` counts from
        seen = scheduling.look(self._db, list(self._code.known()), self._code.ids, horizon=0.0, limit=BATCH)
        due = [one for one in seen if one.due_in <= -elapsed and not one.held]
        return sum(self._loop.fire(one.schedule_id) for one in due) > 0
