"""A worker that freezes while it holds leases, loses them, and thaws: what it could have changed, row by row."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db.models import Q

from django_durable.models import Run, Tally, Worker
from django_durable.store import recovery
from django_durable.store.database import Database
from tests.acceptance.traces import freeze_between_writes
from tests.app.models import Counter
from tests.processes import Worker as WorkerProcess
from tests.processes import wait_until
from tests.store.rows import PAST, at

SETTINGS = "tests.reliability.settings"
BELIEVES = {"LEASE_SECONDS": 120, "HEARTBEAT_SECONDS": 40, "REAP_SECONDS": 60}
"""Thawed, it believes that its leases stand, and writes: only the fence in the database can refuse it."""
SEES = {"LEASE_SECONDS": 2, "HEARTBEAT_SECONDS": 0.5, "REAP_SECONDS": 60}
"""Thawed, it sees by its own clock that they are over."""
LONG = 3600.0
UNTOLD = (Worker, Tally)
"""What a process says of itself and of what it has done, whoever holds the leases now."""


class Zombie(WorkerProcess):
    """A worker process that is going to be frozen. ``is_fenced``: whether its engine is the real one."""

    def __init__(self, durable: dict[str, Any], *, is_fenced: bool = True) -> None:
        env = {"DJANGO_SETTINGS_MODULE": SETTINGS, **({} if is_fenced else {"DURABLE_TEST_UNFENCED": "1"})}
        super().__init__("--verbosity", "2", durable=durable, env=env)

    def freeze(self) -> None:
        super().freeze()
        self._said = len(self.log)

    def freeze_between_beats(self) -> None:
        """At a moment at which its heartbeat is in no statement: frozen in one it would hold rows."""
        before = last_beat()
        wait_until(lambda: last_beat() != before, message="a beat")
        # A beat is seen before it has given up the lock of its transaction.
        freeze_between_writes(self)

    def wait_for_end(self, run_id: UUID) -> str:
        """What the thawed process says of how its attempt at the run has ended."""
        told = re.compile(rf"ended run={run_id} workflow=\S+ as=(\w+)")
        return wait_until(lambda: told.search(self.log, self._said), message=f"{self} to end run {run_id}")[1]


def last_beat() -> object:
    return Worker.objects.order_by("-heartbeat_at").values_list("heartbeat_at", flat=True).first()


def lose_leases(*run_ids: UUID) -> None:
    """Let the leases be over by the database's clock, and take them away."""
    Run.objects.filter(pk__in=run_ids).update(lease_expires_at=at(PAST))
    reap(*run_ids)


def wait_until_lapsed(*run_ids: UUID) -> None:
    """Until the leases are over by themselves, and taken away."""
    wait_until(lambda: set(recovery.find_lapsed(Database(), 100)) == set(run_ids), message="the leases to lapse")
    reap(*run_ids)


def reap(*run_ids: UUID) -> None:
    # A lease so long that the frozen process passes for alive: its runs are nobody's suspects.
    taken = recovery.reap(Database(), 100, lease=LONG, max_crashes=3)
    assert {one.ready.id for one in taken} == set(run_ids)


def rows_of(run_id: UUID) -> dict[str, list[dict[str, Any]]]:
    """Every row that belongs to the run or to a child of it, with every column."""
    runs = Run.objects.filter(Q(pk=run_id) | Q(parent_id=run_id))
    ids = list(runs.values_list("pk", flat=True))
    found = {"Run": list(runs.order_by("pk").values())}
    for model in apps.get_app_config("django_durable").get_models():
        if any(field.attname == "run_id" for field in model._meta.concrete_fields):
            found[model.__name__] = sorted(model.objects.filter(run_id__in=ids).values(), key=repr)
    return found


def all_rows() -> dict[str, list[dict[str, Any]]]:
    """Every row of the engine's and of the test project's, but for what processes say of themselves."""
    models = [model for model in apps.get_app_config("django_durable").get_models() if model not in UNTOLD]
    return {model.__name__: sorted(model.objects.values(), key=repr) for model in (*models, Counter)}
