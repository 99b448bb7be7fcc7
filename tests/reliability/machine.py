"""Runs, workers and a clock in dicts beside the real store: both are told the same, and have to come to the same.

The model knows what docs/state-machine.md says and nothing of SQL. A worker is an object that keeps every lease it ever
got, so that stale ones are as frequent as they like; the clock moves by ticks that are shorter than a lease and longer
than an example takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from typing import Any
from uuid import UUID

from django.apps import apps
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Entry, Write
from django_durable.core.journal.outcomes import Cancelled, Completed, Failed, Outcome, Released, Suspended
from django_durable.core.journal.states import LIVE, TERMINAL, EntryStatus, Kind, Status
from django_durable.core.payloads.codec import encode
from django_durable.models import Event, Run, Worker
from django_durable.store import recovery, transitions
from django_durable.store.auditing import Verb
from django_durable.store.claiming import Claim, claim_ids, claim_next, claim_suspect
from django_durable.store.committing import write_batch
from django_durable.store.database import Database
from django_durable.store.sending import store_event
from django_durable.store.starting import start_runs
from tests.invariants import violated
from tests.store.rows import beating, claimant, new_run

ACTS = (
    *("enqueue", "enqueue_later", "send_event", "send_event_and_die", "cancel", "cancel", "pause", "resume", "resume"),
    *("claim", "claim_best", "claim_best", "claim_best", "claim_alone", "renew", "journal", "journal", "journal"),
    *("take_event", "wait_for_event", "sleep", "complete", "fail", "heed_the_cancellation", "release"),
    *("let_time_pass", "reap", "reap", "promote", "lapse", "bury", "tell_of_life"),
)
"""What may happen, as often as it should. Of rules Hypothesis leaves out some for whole examples: in most of them no
run would get anywhere."""

TICK, LEASE, NAP = 20.0, 30.0, 30.0
"""Two ticks are over both of the others, one is not; an example may take the seconds between."""
MAX_CRASHES = 3
RUNS, WORKERS = 3, 2
"""Few, so that they meet."""
LOOKS_EVERY = 5
"""Steps between two looks at the invariants."""
EVENT = "packed"
ERROR = {"type": "ValueError", "message": "no", "traceback": ""}
LEASELESS: dict[str, Any] = {"token": None, "lease_ends": inf}
RESTED: dict[str, Any] = {"wake_at": inf, "is_suspect": False, "crashes": 0, **LEASELESS}


@dataclass
class ModelRun:
    """What the row of a run should say, and its journal."""

    id: UUID
    status: Status = Status.QUEUED
    wake_at: float = inf
    token: UUID | None = None
    lease_ends: float = inf
    owner: int = -1
    claims: int = 0
    crashes: int = 0
    is_suspect: bool = False
    is_cancelling: bool = False
    is_pausing: bool = False
    steps: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    taken: int = 0
    is_listening: bool = False
    """Whether its journal has an entry that waits for the event."""

    def set(self, status: Status, **columns: Any) -> None:
        self.status = status
        for name, value in columns.items():
            setattr(self, name, value)

    @property
    def has_reason(self) -> bool:
        """Why it need not wait any longer, time aside."""
        return self.is_cancelling or (self.is_listening and self.sent > self.taken)

    @property
    def comes_to_rest(self) -> bool:
        """Whether it is paused where it would else be queued."""
        return self.is_pausing and not self.is_cancelling


@dataclass
class ModelWorker:
    """A process that claims, and remembers each lease of its whole life."""

    number: int
    id: UUID
    heard_at: float = 0.0


@dataclass(eq=False)
class Held:
    """A claim as its worker keeps it: current, or stale without knowing."""

    claim: Claim
    run: ModelRun
    is_isolated: bool = False

    @property
    def is_current(self) -> bool:
        return self.run.token == self.claim.lease.token


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        # One connection for all, as one thread has it; who is who is told by tokens alone.
        self.db = Database()
        for model in apps.get_app_config("django_durable").get_models():
            self.db.rows(f"DELETE FROM {model._meta.db_table}")
        clock.set_offset(timedelta(0))
        self.now, self.steps = 0.0, 0
        self.model: dict[UUID, ModelRun] = {}
        self.kept: list[Held] = []
        self.number, self.wants_current = 0, True
        self.processes = [ModelWorker(number, claimant().id) for number in range(WORKERS)]
        for process in self.processes:
            beating(process.id)

    def teardown(self) -> None:
        clock.set_offset(timedelta(0))

    # --- the outside -----------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        """Most of what may go wrong begins with a run that somebody works on."""
        self._enqueue(is_later=False)
        self.claim()

    @rule(act=st.sampled_from(ACTS), number=st.integers(0, 9), is_current=st.sampled_from([True, True, True, False]))
    def happens(self, act: str, number: int, is_current: bool) -> None:
        """``number`` chooses a run, a worker or a lease, ``is_current`` whether rather one of those that stand."""
        self.number, self.wants_current = number, is_current
        getattr(self, act)()

    @property
    def run(self) -> ModelRun:
        """One of the latest: those are the live ones, and some that are over."""
        runs = list(self.model.values())
        return runs[-1 - self.number % min(len(runs), RUNS + 1)]

    @property
    def process(self) -> ModelWorker:
        return self.processes[self.number % WORKERS]

    @property
    def lease(self) -> Held:
        """One that some worker keeps."""
        if self.wants_current and not self._running():
            # An idle worker looks for work before it does anything else.
            self.claim_best()
        those = [one for one in self.kept if one.is_current is self.wants_current] or self.kept
        return those[-1 - self.number % len(those)]

    def enqueue(self) -> None:
        if sum(run.status in LIVE for run in self.model.values()) < RUNS:
            self._enqueue(is_later=False)

    def enqueue_later(self) -> None:
        if sum(run.status in LIVE for run in self.model.values()) < RUNS:
            self._enqueue(is_later=True)

    def _enqueue(self, *, is_later: bool) -> None:
        new = new_run(run_after=NAP if is_later else None)
        start_runs(self.db, [new])
        run = self.model[new.id] = ModelRun(new.id)
        if is_later:
            run.set(Status.SCHEDULED, wake_at=self.now + NAP)

    def send_event(self) -> None:
        run = self.run
        if run.status in TERMINAL:
            return
        self._store_event(run)
        woken = recovery.wake(self.db, run.id)
        assert [ready.id for ready in woken] == self._wake([run])

    def send_event_and_die(self) -> None:
        """Nobody wakes the run before the sweep comes by."""
        run = self.run
        if run.status in TERMINAL:
            return
        self._store_event(run)
        assert [ready.id for ready in recovery.sweep(self.db, 100)] == self._wake([run])

    def _store_event(self, run: ModelRun) -> None:
        assert store_event(self.db, run.id, EVENT, "null", "") is not None
        run.sent += 1

    def _wake(self, runs: list[ModelRun]) -> list[UUID]:
        woken = [run for run in runs if run.status == Status.WAITING and run.has_reason]
        for run in woken:
            run.set(Status.QUEUED, wake_at=inf)
        return [run.id for run in woken]

    def cancel(self) -> None:
        run = self.run
        done = transitions.cancel(self.db, [run.id], Verb())
        assert done.count == (run.status not in TERMINAL)
        if run.status in TERMINAL:
            return
        run.is_cancelling, run.is_pausing = True, False
        if run.status in (Status.SCHEDULED, Status.BLOCKED) or (run.status != Status.RUNNING and not run.claims):
            run.set(Status.CANCELLED, wake_at=inf)
        elif run.status in (Status.WAITING, Status.PAUSED):
            run.set(Status.QUEUED, wake_at=inf)

    def pause(self) -> None:
        run = self.run
        can = run.status in LIVE - {Status.PAUSED, Status.BLOCKED} and not run.is_cancelling
        can = can and not (run.status == Status.RUNNING and run.is_pausing)
        assert transitions.pause(self.db, [run.id], Verb()) == can
        if can and run.status == Status.RUNNING:
            run.is_pausing = True
        elif can:
            run.set(Status.PAUSED)

    def resume(self) -> None:
        run = self.run
        is_stopped = run.status in (Status.BLOCKED, Status.FAILED, Status.CANCELLED)
        can = is_stopped or run.status == Status.PAUSED or (run.status == Status.RUNNING and run.is_pausing)
        assert len(transitions.resume(self.db, [run.id], Verb())) == can
        if not can:
            return
        run.is_pausing = False
        if is_stopped:
            run.set(Status.QUEUED, is_cancelling=False, **RESTED)
        elif run.status == Status.PAUSED:
            is_early = not run.claims and self.now < run.wake_at < inf
            run.set(Status.SCHEDULED if is_early else Status.QUEUED, wake_at=run.wake_at if is_early else inf)

    # --- workers ---------------------------------------------------------------------------------

    def claim(self) -> None:
        run, process = self.run, self.process
        claims = claim_ids(self.db, self._who(process), [run.id], lease=LEASE, time=DatabaseClock())
        assert len(claims) == (run.status == Status.QUEUED and not run.is_suspect)
        self.kept += [self._take(one, process) for one in claims]

    def claim_best(self) -> None:
        """What is queued, and what has come due."""
        process, limit = self.process, 1 + self.number % RUNS
        ready = {run.id for run in self.model.values() if self._is_ready(run) and not run.is_suspect}
        claims = claim_next(self.db, self._who(process), limit, lease=LEASE, time=DatabaseClock())
        assert len(claims) == min(limit, len(ready))
        assert {one.run_id for one in claims} <= ready
        self.kept += [self._take(one, process) for one in claims]

    def claim_alone(self) -> None:
        process, suspects = self.process, self._suspects()
        claims = claim_suspect(self.db, self._who(process), lease=LEASE, time=DatabaseClock())
        assert len(claims) == min(1, len(suspects))
        assert {one.run_id for one in claims} <= suspects
        self.kept += [self._take(one, process, is_isolated=True) for one in claims]

    def _suspects(self) -> set[UUID]:
        return {run.id for run in self.model.values() if run.status == Status.QUEUED and run.is_suspect}

    def _who(self, process: ModelWorker) -> Any:
        return claimant(worker=process.id)

    def _is_ready(self, run: ModelRun) -> bool:
        is_asleep = run.status in (Status.SCHEDULED, Status.WAITING)
        return run.status == Status.QUEUED or (is_asleep and run.wake_at <= self.now)

    def _take(self, claim: Claim, process: ModelWorker, *, is_isolated: bool = False) -> Held:
        run = self.model[claim.run_id]
        run.claims += 1
        run.set(Status.RUNNING, token=claim.lease.token, lease_ends=self.now + LEASE, owner=process.number, wake_at=inf)
        # What a replay begins with: every step that was acknowledged, and no other.
        steps = {path: entry for path, entry in claim.journal.entries.items() if entry.kind == Kind.STEP}
        assert {path: entry.value for path, entry in steps.items()} == {
            path: encode(value) for path, value in run.steps.items()
        }
        # What came before its first claim a run finds when it suspends.
        assert claim.journal.inbox.has_event([EVENT]) == (run.sent > run.taken and run.claims > 1)
        assert claim.claims == run.claims
        return Held(claim, run, is_isolated)

    def renew(self) -> None:
        one = self.lease
        renewed = recovery.renew(self.db, [one.claim.lease], lease=LEASE)
        if not one.is_current:
            assert renewed == {}
            return
        asked = recovery.Asked(one.run.is_cancelling, one.run.comes_to_rest)
        assert renewed == {one.claim.lease.token: asked}
        one.run.lease_ends = self.now + LEASE

    def tell_of_life(self) -> None:
        process = self.process
        Worker.objects.filter(pk=process.id).update(heartbeat_at=self._instant())
        process.heard_at = self.now

    def _instant(self) -> datetime:
        return timezone.now() + clock.offset()

    def journal(self) -> None:
        one = self.lease
        value = len(one.run.steps)
        path = f"step[{len(one.claim.journal.entries)}]"
        entry = Entry(path, Kind.STEP, EntryStatus.SUCCEEDED, attempts=1, value=encode(value))
        if self._write(one, None, entry):
            one.run.steps[path] = value
            if one.is_isolated:
                one.run.is_suspect, one.run.crashes = False, 0

    def take_event(self) -> None:
        """At the path at which it waits or would have waited."""
        one = self.lease
        run, path = one.run, self._wait_path(one)
        sent = Event.objects.filter(run_id=run.id, consumed_at=None).order_by("pk").first()
        if sent is None:
            return
        entry = Entry(path, Kind.EVENT, EntryStatus.SUCCEEDED, value="null", awaits=EVENT)
        if self._write(one, None, entry, consumed={sent.pk: path}):
            run.taken += 1
            run.is_listening = False
            if one.is_isolated:
                run.is_suspect, run.crashes = False, 0

    def _wait_path(self, one: Held) -> str:
        return f"wait[{sum(1 for entry in one.claim.journal.entries.values() if _is_taken(entry))}]"

    def wait_for_event(self) -> None:
        one = self.lease
        path = self._wait_path(one)
        entry = Entry(path, Kind.EVENT, EntryStatus.WAITING, awaits=EVENT)
        if self._write(one, Suspended(f"event:{path}"), *self._abandoned(one, path), entry):
            one.run.is_listening = True
            self._suspend(one.run, inf)

    def sleep(self) -> None:
        one = self.lease
        entry = Entry("nap", Kind.SLEEP, EntryStatus.WAITING, wake_after=NAP)
        if self._write(one, Suspended("sleep:nap", wake_after=NAP), *self._abandoned(one, "nap"), entry):
            one.run.is_listening = False
            self._suspend(one.run, self.now + NAP)

    def _abandoned(self, one: Held, path: str) -> list[Entry]:
        """Who suspends leaves nothing waiting but what it waits for."""
        waiting = one.claim.journal.of(EntryStatus.WAITING)
        return [replace(entry, status=EntryStatus.ABANDONED) for entry in waiting if entry.path != path]

    def _suspend(self, run: ModelRun, until: float) -> None:
        goes_on = run.has_reason
        status = Status.PAUSED if run.comes_to_rest else Status.QUEUED if goes_on else Status.WAITING
        run.set(status, **{**RESTED, "wake_at": inf if goes_on else until})

    def complete(self) -> None:
        one = self.lease
        if self._write(one, Completed('"done"')):
            one.run.set(Status.CANCELLED if one.run.is_cancelling else Status.SUCCEEDED, **RESTED)

    def fail(self) -> None:
        one = self.lease
        if self._write(one, Failed(ERROR)):
            one.run.set(Status.CANCELLED if one.run.is_cancelling else Status.FAILED, **RESTED)

    def heed_the_cancellation(self) -> None:
        one = self.lease
        # Of a stale one too, whose worker has heard of a cancellation in time.
        if one.run.is_cancelling and self._write(one, Cancelled()):
            one.run.set(Status.CANCELLED, **RESTED)

    def release(self) -> None:
        one = self.lease
        if self._write(one, Released()):
            one.run.set(Status.PAUSED if one.run.comes_to_rest else Status.QUEUED, **RESTED)

    def _write(self, one: Held, outcome: Outcome | None, *entries: Entry, **more: Any) -> bool:
        """Whether it is durable: if and only if the lease is the run's own."""
        for entry in entries:
            one.claim.journal.add(entry)
        write = Write({entry.path: entry for entry in entries}, outcome=outcome, **more)
        writes = [(one.claim.lease, write)]
        receipt = write_batch(self.db, writes)[one.run.id]
        assert (receipt.is_held, receipt.is_lost) == (one.is_current, not one.is_current)
        if receipt.is_held:
            assert (receipt.cancelling, receipt.pausing) == (one.run.is_cancelling, one.run.comes_to_rest)
        return receipt.is_held

    # --- maintenance -----------------------------------------------------------------------------

    def let_time_pass(self) -> None:
        self.now += TICK
        clock.set_offset(timedelta(seconds=self.now))

    def lapse(self) -> None:
        """The lease of one run alone is over, as if its worker had not renewed it."""
        run = self.run
        if run.status == Status.RUNNING:
            Run.objects.filter(pk=run.id).update(lease_expires_at=self._instant() - timedelta(seconds=1))
            run.lease_ends = self.now

    def _running(self) -> list[ModelRun]:
        return [run for run in self.model.values() if run.status == Status.RUNNING]

    def reap(self) -> None:
        lapsed = [run for run in self._running() if run.lease_ends <= self.now]
        dead = {process.number for process in self.processes if self.now - process.heard_at >= LEASE}
        taken = recovery.reap(self.db, 100, lease=LEASE, max_crashes=MAX_CRASHES)
        self._lose(taken, lapsed, dead)

    def bury(self) -> None:
        """Its supervisor has seen the process die: no need to wait for the leases."""
        process = self.process
        lost = [run for run in self._running() if run.owner == process.number]
        taken = recovery.reap_worker(self.db, process.id, lease=LEASE, max_crashes=MAX_CRASHES)
        self._lose(taken, lost, {process.number})

    def _lose(self, taken: list[recovery.Taken], lost: list[ModelRun], dead: set[int]) -> None:
        for run in lost:
            is_dead = run.owner in dead
            is_guilty = run.is_suspect and is_dead
            run.crashes += is_guilty
            run.is_suspect = run.is_suspect or is_dead
            status = Status.PAUSED if run.comes_to_rest else Status.QUEUED
            if is_guilty and run.crashes >= MAX_CRASHES:
                status = Status.CANCELLED if run.is_cancelling else Status.BLOCKED
            run.set(status, **LEASELESS)
        told = {one.ready.id: (one.status, one.suspect) for one in taken}
        assert told == {run.id: (run.status, run.is_suspect) for run in lost}

    def _asleep(self) -> list[ModelRun]:
        return [run for run in self.model.values() if run.status in (Status.SCHEDULED, Status.WAITING)]

    def promote(self) -> None:
        due = [run for run in self._asleep() if run.wake_at <= self.now]
        assert {ready.id for ready in recovery.promote(self.db, 100)} == {run.id for run in due}
        for run in due:
            run.set(Status.QUEUED, wake_at=inf)

    # --- what always holds -----------------------------------------------------------------------

    @invariant()
    def the_rows_say_what_the_model_says(self) -> None:
        columns = ("pk", "status", "lease_token", "claims", "crashes", "suspect")
        rows = {row[0]: row[1:] for row in Run.objects.values_list(*columns)}
        assert rows == {
            run.id: (run.status, run.token, run.claims, run.crashes, run.is_suspect) for run in self.model.values()
        }

    @invariant()
    def nothing_impossible_is_stored(self) -> None:
        self.steps += 1
        # It takes longer than all the rest; what is impossible stays so for a while.
        assert self.steps % LOOKS_EVERY or violated() == []


def _is_taken(entry: Entry) -> bool:
    return entry.kind == Kind.EVENT and entry.status == EntryStatus.SUCCEEDED
