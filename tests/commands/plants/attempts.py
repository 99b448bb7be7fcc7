"""Plants: crashes, attempts, sleeps and limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from django_durable.models import Run
from tests.commands.checking import (
    HOUR,
    a_record,
    a_run,
    an_entry,
    claimed,
    sound,
)
from tests.commands.plants.planting import Plant, Planted, counted


def crashed(problem: str, crashes: int, *, claims: int = 9, **columns: Any) -> Plant:
    def plant() -> Planted:
        return a_run(**{"status": "queued", **claimed(claims), "crashes": crashes, **columns}).pk, problem

    return plant


def suspect_when_over() -> Planted:
    run = sound()
    Run.objects.filter(pk=run.pk).update(suspect=True)
    return run.pk, "succeeded, and suspect"


def suspect_although_it_gets_on() -> Planted:
    run = a_run(age=HOUR, status="running", **claimed(2, suspect=True, crashes=1))
    a_record(run, 2)
    an_entry(run)
    return run.pk, "suspect, and has journaled under its lease"


CRASHES: list[Plant] = [
    crashed("2 crashes in 1 claims", 2, claims=1),
    crashed("-1 crashes in 9 claims", -1),
    crashed("4 crashes, and it may have 3", 4, status="blocked", block_reason="crashed"),
    crashed("queued after 3 crashes", 3),
    crashed("5 crashes, and it may have 3", 5, cancel_requested_at=timezone.now()),
    crashed("blocked for crashes, of none", 0, status="blocked", block_reason="crashed"),
    counted("suspect, and never claimed", suspect=True),
    suspect_when_over,
    suspect_although_it_gets_on,
]


def tried(problem: str, attempt: int, claims: int, **columns: Any) -> Plant:
    def plant() -> Planted:
        return a_run(status="queued", **claimed(claims, attempt=attempt, **columns)).pk, problem

    return plant


def awake_early() -> Planted:
    run = sound()
    ended, wakes = run.created_at, run.created_at + timedelta(seconds=0.5)
    an_entry(run, path="nap", seq=2, kind="sleep", finished_at=ended, wake_at=wakes)
    return run.pk, "the sleep nap ended early"


def above_its_limit() -> Planted:
    first, _ = (a_run(status="running", workflow="app.one_a_tenant", limit_key="app.one_a_tenant:a") for _ in range(2))
    a_run(status="running", workflow="app.one_a_tenant", limit_key="app.one_a_tenant:b")
    return first.pk, "2 runs of its limit are worked on, and it lets 1"


PLANTS: dict[str, list[Plant]] = {
    "I16": CRASHES,
    "I17": [
        tried("attempt 0", 0, 1),
        tried("attempt 3 of 2", 3, 3, max_attempts=2),
        tried("attempt 4 after 2 claims", 4, 2),
        awake_early,
    ],
    "I19": [above_its_limit],
}
