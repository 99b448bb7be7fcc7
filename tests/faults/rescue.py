"""The other process of a case: the outside, another worker, and in the end the clean one and the checker.

It stays from case to case, and so do its connections. What happens to a run beside the victim happens here: steps that
begin are looked up in the journal, a cancellation comes, sessions are terminated, a lapsed lease is taken over.
"""

from __future__ import annotations

import traceback
from bisect import bisect
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.db import connection

from django_durable.client.verbs import send_event
from django_durable.conf import durable_settings
from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.states import TERMINAL
from django_durable.models import Schedule
from django_durable.store import locking
from django_durable.store.claiming import Claimant, claim_ids, claim_suspect
from django_durable.store.database import PrivateDatabase
from django_durable.store.recovery import reap
from django_durable.store.scheduling import database_now
from django_durable.workflows.registry import get_workflow
from tests.app import enumerated
from tests.app.models import Counter
from tests.faults import sessions
from tests.faults.checker import Facts, problems_of
from tests.faults.emptying import are_lists_empty, empty, empty_lists
from tests.faults.pumped import PumpedWorker
from tests.faults.rows import Rows, Snapshot
from tests.faults.scenarios import DUE_SECONDS, EVENT, FAMILY, FIRING, SCENARIOS, Scenario, case_key
from tests.faults.watch import Watch
from tests.faults.witness import Witness
from tests.invariants import violated, violated_in_lists

ROUNDS = 5
"""So often the clean worker goes round, each time a lease later: enough for a lapse that SQLite has to see twice, a
nap, and a schedule's minute."""
LOOPS = tuple(dict.fromkeys((*FAMILY, *FIRING)))


class Rescue:
    """``serve`` answers until the pipe ends."""

    def __init__(self, folder: Path) -> None:
        self._is_postgres = connection.vendor == "postgresql"
        self._witness = Witness(folder / "witness")
        self._looks = PrivateDatabase()
        self._watch = Watch(self._witness)
        self._scenario: Scenario
        self._rows: Rows
        self._worker = PumpedWorker(LOOPS)
        self._isolated = PumpedWorker((), isolated=True)
        self._cases: list[UUID] = []
        """When each case since the last inspection began: runs that came later have later ids."""
        self._key = ""
        self._left: Snapshot | None = None
        # It need not be patient: whoever holds a row while it waits stands still until it has given up.
        locking.LOCK_SECONDS = 0.2
        enumerated.watcher = self._watch  # type: ignore[assignment]

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
        self._rows = Rows(self._scenario, self._looks)
        self._cases.append(self._rows.began)
        self._watch.watch(self._rows, self._scenario.body_to_cancel_in(is_postgres=self._is_postgres))
        self._key = case_key(clock.offset())
        self._witness.forget()
        # Hints of cases before would be the first that the worker takes.
        empty_lists()
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
            # They have idled for too long.
            sessions.await_end(self._looks, dying)
        self.pass_time([])
        self._work_to_the_end()
        # A start that stands still has made no run yet.
        self._left = self._rows.stored() if self._rows.is_over() and self._rows.runs().exists() else None
        self._witness.note("taken over")
        return clock.offset()

    def pass_time(self, dying: list[int]) -> timedelta:
        clock.set_offset(clock.offset() + timedelta(seconds=durable_settings().LEASE_SECONDS + 1))
        return clock.offset()

    def finish(self, label: str, action: str | None) -> list[str]:
        """Do what the outside has still to do, be the clean worker, and check; what is wrong."""
        # First: what leads to no run is dropped by whoever takes it out.
        listed = [] if are_lists_empty() else violated_in_lists()
        strange = [f"{one.invariant}: {one.problem}" for one in listed]
        self._do_duties()
        if not self._rows.is_over():
            self._work_to_the_end()
        problems = [] if self._rows.is_over() else [self._rows.unfinished()]
        if self._left is not None and self._left != self._rows.stored():
            problems.append("rows of runs that were over have changed")
        facts = Facts(self._scenario, self._witness.lines(), label, action, self._rows.began)
        return strange + problems + problems_of(facts)

    def is_over(self) -> bool:
        """Whether the victim has come to the end of the scenario by itself."""
        return self._rows.is_over()

    def _do_duties(self) -> None:
        scenario = self._scenario
        if scenario.is_keyed:
            get_workflow(scenario.workflow).using(idempotency_key=self._key).enqueue()
        for run in self._rows.runs().filter(workflow=scenario.workflow).exclude(status__in=TERMINAL):
            if scenario.awaits_event:
                send_event(run.pk, EVENT, EVENT, "once")
            if scenario.cancels_waiting:
                self._watch.cancel(run.pk)

    def _work_to_the_end(self) -> None:
        self._worker.begin()
        self._isolated.begin()
        for _ in range(ROUNDS):
            for part in (self._work, self._worker.maintain, self._work):
                part()
                if self._rows.is_over():
                    return
            if not self._rows.can_move():
                return
            self.pass_time([])

    def _work(self) -> None:
        self._worker.work()
        self._isolated.work()

    # --- what the victim asks for ----------------------------------------------------------------

    def note(self, what: str, run_id: str) -> None:
        self._witness.note(what, run=run_id)

    def note_fault(self, action: str, label: str) -> None:
        settled = [[str(run_id), path] for run_id, path in self._rows.settled()]
        at_stake = [str(run_id) for run_id in self._rows.at_stake()]
        self._witness.note("fault", action=action, label=label, settled=settled, at_stake=at_stake)

    def crash(self, run_id: UUID) -> timedelta:
        """Have so many processes die with the run that one more is too many; the time. The lease of the latest has
        lapsed, and nobody has taken it away yet."""
        settings = durable_settings()
        lease, time = settings.LEASE_SECONDS, DatabaseClock()
        for dead in range(settings.MAX_CRASHES):
            who = Claimant(uuid4(), ("default",), (self._scenario.workflow,))
            if dead:
                reap(self._looks, 1, lease=lease, max_crashes=settings.MAX_CRASHES)
                claims = claim_suspect(self._looks, who, lease=lease, time=time)
            else:
                claims = claim_ids(self._looks, who, [run_id], lease=lease, time=time)
            assert [claim.run_id for claim in claims] == [run_id]
            self.pass_time([])
        return clock.offset()

    def begins(self, *step: Any) -> None:
        self._watch.begins(*step)

    def ends(self, *step: Any) -> None:
        self._watch.ends(*step)

    def terminate(self, pids: list[int]) -> None:
        sessions.terminate(self._looks, pids)
