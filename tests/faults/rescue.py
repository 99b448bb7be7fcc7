"""The other process of a case: the outside, another worker, and in the end the clean one and the checker.

It stays from case to case, and so do its connections. What happens to a run beside the victim happens here: steps that
begin are looked up in the journal, a cancellation comes, sessions are terminated, a lapsed lease is taken over.
"""

from __future__ import annotations

import time
import traceback
from bisect import bisect
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from django_durable.client.handle import RunHandle
from django_durable.client.verbs import cancel_runs, send_event
from django_durable.conf import durable_settings
from django_durable.core import clock
from django_durable.core.flow.stepping import CurrentStep
from django_durable.core.journal.states import TERMINAL, Status
from django_durable.models import JournalEntry, Payload, Run, Schedule
from django_durable.store import locking
from django_durable.store.database import PrivateDatabase
from django_durable.store.scheduling import database_now
from django_durable.workflows.registry import get_workflow
from tests.app import enumerated
from tests.app.models import Counter
from tests.faults.checker import Facts, problems_of
from tests.faults.emptying import empty, empty_lists
from tests.faults.pumped import PumpedWorker
from tests.faults.scenarios import DUE_SECONDS, EVENT, FAMILY, FIRING, SCENARIOS, Scenario, case_key
from tests.faults.witness import Witness
from tests.invariants import violated
from tests.processes import wait_until

ROUNDS = 5
"""So often the clean worker goes round, each time a lease later: enough for a lapse that SQLite has to see twice, a
nap, and a schedule's minute."""
SETTLED = ("succeeded", "failed")
LOOPS = tuple(dict.fromkeys((*FAMILY, *FIRING)))
Snapshot = list[Any]


class Rescue:
    """``serve`` answers until the pipe ends."""

    def __init__(self, folder: Path) -> None:
        self._is_postgres = connection.vendor == "postgresql"
        self._witness = Witness(folder / "witness")
        self._looks = PrivateDatabase()
        self._outside = ThreadPoolExecutor(1)
        """With a connection of Django's of its own: steps of this process may be in a transaction of theirs."""
        self._scenario: Scenario
        self._worker = PumpedWorker(LOOPS)
        self._isolated = PumpedWorker((), isolated=True)
        self._cases: list[UUID] = []
        """When each case since the last inspection began: runs that came later have later ids."""
        self._began = first_id()
        self._key = ""
        self._asked_to_cancel = False
        self._left: Snapshot | None = None
        # It need not be patient: whoever holds a row while it waits stands still until it has given up.
        locking.LOCK_SECONDS = 0.2
        enumerated.watcher = self  # type: ignore[assignment]

    def serve(self, pipe: Connection) -> None:
        while True:
            try:
                verb, arguments, offset = pipe.recv()
            except EOFError:
                return
            # Time only goes on, whoever has moved it.
            clock.set_offset(max(offset, clock.offset()))
            value, failure = None, ""
            try:
                value = getattr(self, verb)(*arguments)
            except Exception:
                failure = traceback.format_exc()
            pipe.send((value, clock.offset(), failure))

    # --- a case --------------------------------------------------------------------------------

    def reset(self, name: str) -> None:
        """What the scenario begins with. Runs of cases before may be left: they are over, and not looked at."""
        self._scenario = SCENARIOS[name]
        self._began = first_id()
        self._cases.append(self._began)
        self._key = case_key(clock.offset())
        self._witness.forget()
        # Hints of cases before would be the first that the worker takes.
        empty_lists()
        self._asked_to_cancel = False
        self._left = None
        for counter in self._scenario.effects.values():
            Counter.objects.update_or_create(name=counter, defaults={"value": 0})
        if self._scenario.is_scheduled:
            due = database_now(self._looks) + timedelta(seconds=DUE_SECONDS)
            Schedule.objects.create(
                workflow=self._scenario.workflow, name=self._key, expression="0 * * * *", next_fire_at=due
            )

    def inspect(self) -> list[tuple[int, str]]:
        """What is impossible in the tables after a last sweep, each with the number of its case since the last time;
        then they are emptied."""
        self._worker.begin()
        self._worker.maintain()
        found = []
        for one in violated():
            number = bisect(self._cases, one.run_id) - 1 if one.run_id is not None else len(self._cases) - 1
            found.append((max(number, 0), f"{one.invariant}: {one.problem} (run {one.run_id})"))
        self._cases.clear()
        empty(self._is_postgres)
        return found

    def take_over(self, dying: list[int]) -> timedelta:
        """Be the worker that takes over once the victim's lease has lapsed, up to the end of the runs; the time."""
        if dying:
            wait_until(lambda: not self._alive(dying), 5, "sessions that have idled for too long to be ended")
        self.pass_time([])
        self._work_to_the_end()
        # A start that stands still has made no run yet.
        self._left = self._stored() if self._is_over() and self._runs().exists() else None
        self._witness.note("taken over")
        return clock.offset()

    def pass_time(self, dying: list[int]) -> timedelta:
        clock.set_offset(clock.offset() + timedelta(seconds=durable_settings().LEASE_SECONDS + 1))
        return clock.offset()

    def finish(self, label: str, action: str | None) -> list[str]:
        """Do what the outside has still to do, be the clean worker, and check; what is wrong."""
        self._do_duties()
        if not self._is_over():
            self._work_to_the_end()
        problems = [] if self._is_over() else [self._unfinished()]
        if self._left is not None and self._left != self._stored():
            problems.append("rows of runs that were over have changed")
        return problems + problems_of(Facts(self._scenario, self._witness.lines(), label, action, self._began))

    def is_over(self) -> bool:
        """Whether the victim has come to the end of the scenario by itself."""
        return self._is_over()

    def _do_duties(self) -> None:
        scenario = self._scenario
        if scenario.is_keyed:
            get_workflow(scenario.workflow).using(idempotency_key=self._key).enqueue()
        for run in self._runs().filter(workflow=scenario.workflow).exclude(status__in=TERMINAL):
            if scenario.awaits_event:
                send_event(run.pk, EVENT, EVENT, "once")
            if scenario.cancels_waiting:
                self._cancel(run.pk)

    def _work_to_the_end(self) -> None:
        self._worker.begin()
        self._isolated.begin()
        for _ in range(ROUNDS):
            for part in (self._work, self._worker.maintain, self._work):
                part()
                if self._is_over():
                    return
            if not self._can_move():
                return
            self.pass_time([])

    def _work(self) -> None:
        self._worker.work()
        self._isolated.work()

    def _is_over(self) -> bool:
        d = self._looks.dialect
        rows = self._looks.rows("SELECT status FROM django_durable_run WHERE id > %(began)s", began=d.key(self._began))
        statuses = {status for (status,) in rows}
        is_owed = self._scenario.is_scheduled and not statuses
        return not is_owed and statuses <= TERMINAL

    def _can_move(self) -> bool:
        """Whether time or a worker may still move something: all but what waits for an event."""
        waits = Q(status=Status.WAITING, wake_at=None, waiting_on__startswith="event:")
        is_owed = self._scenario.is_scheduled and not self._runs().exists()
        return is_owed or self._runs().exclude(waits).exclude(status__in=TERMINAL).exists()

    def _runs(self) -> QuerySet[Run]:
        return Run.objects.filter(pk__gt=self._began)

    def _stored(self) -> Snapshot:
        """Every row of every run with every column."""
        return [
            *self._runs().order_by("pk").values(),
            *JournalEntry.objects.filter(run_id__gt=self._began).order_by("run_id", "seq").values(),
            *Payload.objects.filter(run_id__gt=self._began).order_by("run_id", "kind").values(),
        ]

    def _unfinished(self) -> str:
        live = self._runs().exclude(status__in=TERMINAL)
        whys = [f"{run.workflow} is {run.status}: {RunHandle[Any](run.pk).why()}" for run in live]
        return f"not finished: {'; '.join(whys) or 'the schedule has not fired'}"

    # --- what the victim asks for ----------------------------------------------------------------

    def note(self, what: str, run_id: str) -> None:
        self._witness.note(what, run=run_id)

    def note_fault(self, action: str, label: str) -> None:
        settled = JournalEntry.objects.filter(run_id__gt=self._began, status__in=SETTLED).values_list("run_id", "path")
        self._witness.note("fault", action=action, label=label, settled=[[str(run), path] for run, path in settled])

    def terminate(self, sessions: list[int]) -> None:
        for pid in sessions:
            self._looks.rows("SELECT pg_terminate_backend(%(pid)s, 5000)", pid=pid)

    def _alive(self, sessions: list[int]) -> bool:
        return bool(self._looks.rows("SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%(pids)s)", pids=sessions))

    # --- watching ------------------------------------------------------------------------------

    def begins(self, *step: Any) -> None:
        """A body begins, here (a ``CurrentStep``) or in the victim (its run, path, attempt and token)."""
        run_id, path, attempt, token = _facts_of(step)
        d = self._looks.dialect
        settled = self._looks.rows(
            "SELECT 1 FROM django_durable_journalentry WHERE run_id = %(run)s AND path = %(path)s "
            "AND status IN ('succeeded', 'failed')",
            run=d.key(run_id),
            path=path,
        )
        self._witness.note("begin", run=run_id, path=path, attempt=attempt, token=token, settled=bool(settled))
        if path == self._scenario.body_to_cancel_in(is_postgres=self._is_postgres) and not self._asked_to_cancel:
            self._asked_to_cancel = True
            self._outside.submit(self._cancel_root, run_id).result()

    def ends(self, *step: Any) -> None:
        if isinstance(step[0], CurrentStep):
            current, value = step
            step = (current.run_id, current.path, current.lease.token.hex, value)
        run_id, path, token, value = step
        self._witness.note("end", run=run_id, path=path, token=token, value=value)

    def _cancel_root(self, run_id: UUID) -> None:
        self._cancel(Run.objects.values_list("root_id", flat=True).get(pk=run_id))

    def _cancel(self, run_id: UUID) -> None:
        if cancel_runs([run_id]):
            self._witness.note("cancelled", run=run_id)


def first_id() -> UUID:
    """No id of this millisecond, and of those to come, is below it."""
    return UUID(int=time.time_ns() // 1_000_000 << 80)


def _facts_of(step: tuple[Any, ...]) -> tuple[UUID, str, int, str]:
    if isinstance(step[0], CurrentStep):
        current = step[0]
        return current.run_id, current.path, current.attempt, current.lease.token.hex
    return step
