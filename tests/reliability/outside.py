"""What the outside does to runs, in the store and in its model: starts, events, cancellations, pauses."""

from __future__ import annotations

from math import inf
from uuid import UUID

from django_durable.core.journal.states import LIVE, TERMINAL, Status
from django_durable.store import recovery, transitions
from django_durable.store.auditing import Verb
from django_durable.store.sending import store_event
from django_durable.store.starting import start_runs
from tests.reliability.model import EVENT, NAP, RESTED, RUNS, ModelRun
from tests.reliability.scene import Scene
from tests.store.rows import new_run


class Outside:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def enqueue(self) -> None:
        if sum(run.status in LIVE for run in self.scene.model.values()) < RUNS:
            self.start(is_later=False)

    def enqueue_later(self) -> None:
        if sum(run.status in LIVE for run in self.scene.model.values()) < RUNS:
            self.start(is_later=True)

    def start(self, *, is_later: bool) -> None:
        new = new_run(run_after=NAP if is_later else None)
        start_runs(self.scene.db, [new])
        run = self.scene.model[new.id] = ModelRun(new.id)
        if is_later:
            run.set(Status.SCHEDULED, wake_at=self.scene.now + NAP)

    def send_event(self) -> None:
        run = self.scene.run
        if run.status in TERMINAL:
            return
        self._store_event(run)
        woken = recovery.wake(self.scene.db, run.id)
        assert [ready.id for ready in woken] == self._wake([run])

    def send_event_and_die(self) -> None:
        """Nobody wakes the run before the sweep comes by."""
        run = self.scene.run
        if run.status in TERMINAL:
            return
        self._store_event(run)
        assert [ready.id for ready in recovery.sweep(self.scene.db, 100)] == self._wake([run])

    def _store_event(self, run: ModelRun) -> None:
        assert store_event(self.scene.db, run.id, EVENT, "null", "") is not None
        run.sent += 1

    def _wake(self, runs: list[ModelRun]) -> list[UUID]:
        woken = [run for run in runs if run.status == Status.WAITING and run.has_reason]
        for run in woken:
            run.set(Status.QUEUED, wake_at=inf)
        return [run.id for run in woken]

    def cancel(self) -> None:
        run = self.scene.run
        done = transitions.cancel(self.scene.db, [run.id], Verb())
        assert done.count == (run.status not in TERMINAL)
        if run.status in TERMINAL:
            return
        run.is_cancelling, run.is_pausing = True, False
        if run.status in (Status.SCHEDULED, Status.BLOCKED) or (run.status != Status.RUNNING and not run.claims):
            run.set(Status.CANCELLED, wake_at=inf)
        elif run.status in (Status.WAITING, Status.PAUSED):
            run.set(Status.QUEUED, wake_at=inf)

    def pause(self) -> None:
        run = self.scene.run
        can = run.status in LIVE - {Status.PAUSED, Status.BLOCKED} and not run.is_cancelling
        can = can and not (run.status == Status.RUNNING and run.is_pausing)
        assert transitions.pause(self.scene.db, [run.id], Verb()) == can
        if can and run.status == Status.RUNNING:
            run.is_pausing = True
        elif can:
            run.set(Status.PAUSED)

    def resume(self) -> None:
        run = self.scene.run
        is_stopped = run.status in (Status.BLOCKED, Status.FAILED, Status.CANCELLED)
        can = is_stopped or run.status == Status.PAUSED or (run.status == Status.RUNNING and run.is_pausing)
        assert len(transitions.resume(self.scene.db, [run.id], Verb())) == can
        if not can:
            return
        run.is_pausing = False
        if is_stopped:
            run.set(Status.QUEUED, is_cancelling=False, **RESTED)
        elif run.status == Status.PAUSED:
            is_early = not run.claims and self.scene.now < run.wake_at < inf
            run.set(Status.SCHEDULED if is_early else Status.QUEUED, wake_at=run.wake_at if is_early else inf)
