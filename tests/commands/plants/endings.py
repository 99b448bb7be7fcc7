"""Plants: leases and ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models.functions import Now
from django.utils import timezone

from django_durable.models import Audit, Payload, Run
from tests.commands.checking import (
    HOUR,
    a_record,
    a_run,
    an_entry,
    change,
    claimed,
    sound,
    with_belongings,
)
from tests.commands.plants.planting import Plant, Planted

LEASE = {"lease_token": "id", "leased_by": "id", "lease_expires_at": "queued_at"}
"""What makes a lease, and columns to take a value for it from."""


def running_with(*columns: str) -> Plant:
    def plant() -> Planted:
        lease = "".join(f", {column} = {LEASE[column]}" for column in columns)
        run = a_run(status="queued", **claimed(2))
        return change(run, f"status = 'running'{lease}", "durable_run_lease"), "running without a whole lease"

    return plant


def queued_with(*columns: str) -> Plant:
    def plant() -> Planted:
        lease = ", ".join(f"{column} = {LEASE[column]}" for column in columns)
        return change(a_run(status="queued"), lease, "durable_run_lease"), "queued with a lease"

    return plant


def over_without_end() -> Planted:
    return change(sound(), "finished_at = NULL"), "succeeded without finished_at"


def end_without_over() -> Planted:
    run = a_run(status="queued")
    return change(run, "finished_at = created_at"), "queued with finished_at"


def outcome(status: str, problem: str, *kinds: str) -> Plant:
    def plant() -> Planted:
        run = a_run(status=status)
        for kind in kinds:
            Payload.objects.create(run_id=run.pk, kind=kind, data="1")
        return run.pk, problem

    return plant


def claimed_when_over() -> Planted:
    run = with_belongings(a_run(age=HOUR, **claimed(2)))
    a_record(run, 2, claimed_at=timezone.now())
    return run.pk, "succeeded, and claimed after that"


def first_claimed_when_over() -> Planted:
    run = a_run(age=HOUR, status="cancelled", **claimed(1, timedelta(0)))
    return run.pk, "cancelled, and claimed after that"


def journaled_when_over() -> Planted:
    run = sound()
    an_entry(run, path="late", seq=2, finished_at=timezone.now())
    return run.pk, "succeeded, and journaled something after that"


def asked_when_over(verb: str, problem: str) -> Plant:
    def plant() -> Planted:
        run = sound()
        Audit.objects.create(run_id=run.pk, verb=verb, status_before="succeeded")
        return run.pk, problem

    return plant


def leave_payload(kind: str, **columns: Any) -> Run:
    run = a_run(**{**claimed(1), **columns})
    Payload.objects.create(run_id=run.pk, kind=kind, data="1")
    return run


def alive_again(status: str, kind: str, problem: str, **columns: Any) -> Plant:
    def plant() -> Planted:
        # Two that are sound: one undoes what it did before it ends with that error, one is tried again after its error.
        leave_payload("error", status="queued", phase="compensating")
        leave_payload("retry", status="queued")
        return leave_payload(kind, status=status, **columns).pk, problem

    return plant


def ended_otherwise(status: str, kind: str) -> Plant:
    def plant() -> Planted:
        run = a_run(status=status, cancel_requested_at=timezone.now())
        Payload.objects.create(run_id=run.pk, kind=kind, data="1")
        return run.pk, f"{status}, and was asked to stop before"

    return plant


def misses(problem: str, assignment: str, **columns: Any) -> Plant:
    """A run that has got into its status without what that one asks for."""

    def plant() -> Planted:
        return change(a_run(**columns), assignment), problem

    return plant


PLANTS: dict[str, list[Plant]] = {
    "status": [
        misses("in a status that there is not: sleeping", "status = 'sleeping'", status="queued"),
        misses("scheduled for no time", "wake_at = NULL", status="scheduled"),
        misses("queued since no time", "queued_at = NULL", status="queued"),
        misses("waiting, and does not say on what", "waiting_on = ''", status="waiting"),
        misses("blocked for no reason", "block_reason = ''", status="blocked"),
        misses("queued, and blocked for diverged", "block_reason = 'diverged'", status="queued"),
    ],
    "I1": [
        running_with(),
        *(running_with(*(column for column in LEASE if column != missing)) for missing in LEASE),
        *(queued_with(column) for column in LEASE),
        queued_with(*LEASE),
    ],
    "I2": [
        over_without_end,
        end_without_over,
        outcome("succeeded", "succeeded without an output"),
        outcome("succeeded", "succeeded with an error", "output", "error"),
        outcome("failed", "failed without an error"),
        outcome("failed", "failed with an output", "output", "error"),
    ],
    "I3": [
        claimed_when_over,
        first_claimed_when_over,
        journaled_when_over,
        asked_when_over("cancel", "cancelled or paused when it was over"),
        asked_when_over("pause", "cancelled or paused when it was over"),
        asked_when_over("resume", "resumed when it had succeeded"),
        alive_again("queued", "output", "queued, and has the output of one that succeeded"),
        alive_again("queued", "error", "queued, and has the error of one that failed"),
        alive_again("running", "error", "running, and has the error of one that failed", cancel_requested_at=Now()),
    ],
    "I14": [ended_otherwise("succeeded", "output"), ended_otherwise("failed", "error")],
}
