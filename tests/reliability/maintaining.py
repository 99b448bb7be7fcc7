"""What time does to runs, and who looks after them then, in the store and in its model."""

from __future__ import annotations

from datetime import timedelta
from math import inf

from django_durable.core import clock
from django_durable.core.journal.states import Status
from django_durable.models import Run
from django_durable.store import recovery
from tests.reliability.model import LEASE, LEASELESS, MAX_CRASHES, TICK, ModelRun
from tests.reliability.scene import Scene


class Maintenance:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def let_time_pass(self) -> None:
        self.scene.now += TICK
        clock.set_offset(timedelta(seconds=self.scene.now))

    def lapse(self) -> None:
        """The lease of one run alone is over, as if its worker had not renewed it."""
        run = self.scene.run
        if run.status == Status.RUNNING:
            Run.objects.filter(pk=run.id).update(lease_expires_at=self.scene.instant() - timedelta(seconds=1))
            run.lease_ends = self.scene.now

    def reap(self) -> None:
        lapsed = [run for run in self.scene.running() if run.lease_ends <= self.scene.now]
        dead = {process.number for process in self.scene.processes if self.scene.now - process.heard_at >= LEASE}
        taken = recovery.reap(self.scene.db, 100, lease=LEASE, max_crashes=MAX_CRASHES)
        self._lose(taken, lapsed, dead)

    def bury(self) -> None:
        """Its supervisor has seen the process die: no need to wait for the leases."""
        process = self.scene.process
        lost = [run for run in self.scene.running() if run.owner == process.number]
        taken = recovery.reap_worker(self.scene.db, process.id, lease=LEASE, max_crashes=MAX_CRASHES)
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
        return [run for run in self.scene.model.values() if run.status in (Status.SCHEDULED, Status.WAITING)]

    def promote(self) -> None:
        due = [run for run in self._asleep() if run.wake_at <= self.scene.now]
        assert {ready.id for ready in recovery.promote(self.scene.db, 100)} == {run.id for run in due}
        for run in due:
            run.set(Status.QUEUED, wake_at=inf)
