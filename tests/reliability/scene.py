"""One example: the model and the store beside it, and who of them is meant by the next act."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.apps import apps
from django.utils import timezone

from django_durable.core import clock
from django_durable.core.journal.states import Status
from django_durable.store.database import Database
from tests.reliability.model import RUNS, WORKERS, Held, ModelRun, ModelWorker
from tests.store.rows import beating, claimant


class Scene:
    """Begins with empty tables, workers that are alive, and the clock as it is."""

    def __init__(self) -> None:
        # One connection for all, as one thread has it; who is who is told by tokens alone.
        self.db = Database()
        for model in apps.get_app_config("django_durable").get_models():
            self.db.rows(f"DELETE FROM {model._meta.db_table}")
        clock.set_offset(timedelta(0))
        self.now = 0.0
        self.model: dict[UUID, ModelRun] = {}
        self.kept: list[Held] = []
        """Every lease that some worker ever got."""
        self.number, self.wants_current = 0, True
        """Chooses a run, a worker or a lease, and whether rather one of those that stand."""
        self.processes = [ModelWorker(number, claimant().id) for number in range(WORKERS)]
        for process in self.processes:
            beating(process.id)

    @property
    def run(self) -> ModelRun:
        """One of the latest: those are the live ones, and some that are over."""
        runs = list(self.model.values())
        return runs[-1 - self.number % min(len(runs), RUNS + 1)]

    @property
    def process(self) -> ModelWorker:
        return self.processes[self.number % WORKERS]

    def running(self) -> list[ModelRun]:
        return [run for run in self.model.values() if run.status == Status.RUNNING]

    def instant(self) -> datetime:
        """What the clock of this example shows."""
        return timezone.now() + clock.offset()
