"""What workers do, in the store and in its model. Each keeps every lease it ever got, so that stale ones are as
frequent as they like: what is written under one of them must come to nothing.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any
from uuid import UUID

from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Entry, Write
from django_durable.core.journal.outcomes import Cancelled, Completed, Failed, Outcome, Released, Suspended
from django_durable.core.journal.states import EntryStatus, Kind, Status
from django_durable.core.payloads.codec import encode
from django_durable.models import Event, Worker
from django_durable.store import recovery
from django_durable.store.claiming import Claim, claim_ids, claim_next, claim_suspect
from django_durable.store.committing import write_batch
from tests.reliability.model import EVENT, HANDED_BACK, LEASE, NAP, RESTED, RUNS, Held, ModelRun, ModelWorker
from tests.reliability.scene import Scene
from tests.store.rows import claimant

ERROR = {"type": "ValueError", "message": "no", "traceback": ""}


class Workers:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @property
    def lease(self) -> Held:
        """One that some worker keeps."""
        if self.scene.wants_current and not self.scene.running():
            # An idle worker looks for work before it does anything else.
            self.claim_best()
        those = [one for one in self.scene.kept if one.is_current is self.scene.wants_current] or self.scene.kept
        return those[-1 - self.scene.number % len(those)]

    def claim(self) -> None:
        run, process = self.scene.run, self.scene.process
        claims = claim_ids(self.scene.db, self._who(process), [run.id], lease=LEASE, time=DatabaseClock())
        assert len(claims) == (run.status == Status.QUEUED and not run.is_suspect)
        self.scene.kept += [self._take(one, process) for one in claims]

    def claim_best(self) -> None:
        """What is queued, and what has come due."""
        process, limit = self.scene.process, 1 + self.scene.number % RUNS
        ready = {run.id for run in self.scene.model.values() if self._is_ready(run) and not run.is_suspect}
        claims = claim_next(self.scene.db, self._who(process), limit, lease=LEASE, time=DatabaseClock())
        assert len(claims) == min(limit, len(ready))
        assert {one.run_id for one in claims} <= ready
        self.scene.kept += [self._take(one, process) for one in claims]

    def claim_alone(self) -> None:
        process, suspects = self.scene.process, self._suspects()
        claims = claim_suspect(self.scene.db, self._who(process), lease=LEASE, time=DatabaseClock())
        assert len(claims) == min(1, len(suspects))
        assert {one.run_id for one in claims} <= suspects
        self.scene.kept += [self._take(one, process, is_isolated=True) for one in claims]

    def _suspects(self) -> set[UUID]:
        return {run.id for run in self.scene.model.values() if run.status == Status.QUEUED and run.is_suspect}

    def _who(self, process: ModelWorker) -> Any:
        return claimant(worker=process.id)

    def _is_ready(self, run: ModelRun) -> bool:
        is_asleep = run.status in (Status.SCHEDULED, Status.WAITING)
        return run.status == Status.QUEUED or (is_asleep and run.wake_at <= self.scene.now)

    def _take(self, claim: Claim, process: ModelWorker, *, is_isolated: bool = False) -> Held:
        run = self.scene.model[claim.run_id]
        run.claims += 1
        run.set(
            Status.RUNNING,
            token=claim.lease.token,
            lease_ends=self.scene.now + LEASE,
            owner=process.number,
            wake_at=inf,
        )
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
        renewed = recovery.renew(self.scene.db, [one.claim.lease], lease=LEASE)
        if not one.is_current:
            assert renewed == {}
            return
        asked = recovery.Asked(one.run.is_cancelling, one.run.comes_to_rest)
        assert renewed == {one.claim.lease.token: asked}
        one.run.lease_ends = self.scene.now + LEASE

    def tell_of_life(self) -> None:
        process = self.scene.process
        Worker.objects.filter(pk=process.id).update(heartbeat_at=self.scene.instant())
        process.heard_at = self.scene.now

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
            self._suspend(one.run, self.scene.now + NAP)

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
            one.run.set(Status.PAUSED if one.run.comes_to_rest else Status.QUEUED, **HANDED_BACK)

    def _write(self, one: Held, outcome: Outcome | None, *entries: Entry, **more: Any) -> bool:
        """Whether it is durable: if and only if the lease is the run's own."""
        for entry in entries:
            one.claim.journal.add(entry)
        write = Write({entry.path: entry for entry in entries}, outcome=outcome, **more)
        writes = [(one.claim.lease, write)]
        receipt = write_batch(self.scene.db, writes)[one.run.id]
        assert (receipt.is_held, receipt.is_lost) == (one.is_current, not one.is_current)
        if receipt.is_held:
            assert (receipt.cancelling, receipt.pausing) == (one.run.is_cancelling, one.run.comes_to_rest)
        return receipt.is_held


def _is_taken(entry: Entry) -> bool:
    return entry.kind == Kind.EVENT and entry.status == EntryStatus.SUCCEEDED
