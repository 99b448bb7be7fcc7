"""Plants: the order in a journal, and idempotency keys."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from django.utils import timezone

from django_durable.models import IdempotencyKey
from tests.commands.checking import (
    HOUR,
    JOURNAL,
    KEY,
    an_entry,
    sound,
)
from tests.commands.conftest import allow_anything
from tests.commands.plants.planting import Plant, Planted
from tests.commands.rows import execute


def same_number() -> Planted:
    run = sound()
    an_entry(run, path="other", seq=1)
    return run.pk, "journal number 1 stands 2 times"


def number_zero() -> Planted:
    run = sound()
    an_entry(run, path="other", seq=0)
    return run.pk, "journal number 0 is not above zero"


def same_path() -> Planted:
    run = sound()
    columns = "run_id, path, kind, status, attempts, started_at, awaits, token"
    allow_anything(JOURNAL, "django_durable_journalentry_pkey")
    execute(f"INSERT INTO {JOURNAL} ({columns}, seq) SELECT {columns}, 2 FROM {JOURNAL} WHERE run_id = %s", run.pk)
    return run.pk, "2 journal entries at double"


def a_key(run_id: UUID, **columns: Any) -> IdempotencyKey:
    values = {"workflow": "app.doubling", "key": "k", "key_hash": "h", "input_hash": "i", "run_id": run_id}
    return IdempotencyKey.objects.create(**{**values, "expires_at": timezone.now() + HOUR, **columns})


def two_runs_for_a_key() -> Planted:
    first, second = sound(), sound()
    a_key(first.pk)
    allow_anything(KEY, "durable_idempotency_once")
    columns = "workflow, key, key_hash, input_hash, expires_at"
    execute(f"INSERT INTO {KEY} (id, run_id, {columns}) SELECT id + 1, %s, {columns} FROM {KEY}", second.pk)
    return second.pk, "a second run for one idempotency key of app.doubling"


def key_of_another_workflow() -> Planted:
    run = sound()
    a_key(run.pk, workflow="app.sleepy")
    return run.pk, "not a run of app.sleepy, whose idempotency key names it"


def key_without_run() -> Planted:
    gone = uuid4()
    a_key(gone)
    return gone, "no run, but an idempotency key of app.doubling names it"


PLANTS: dict[str, list[Plant]] = {
    "I6": [same_number, number_zero],
    "I8": [same_path],
    "I13": [two_runs_for_a_key, key_of_another_workflow, key_without_run],
}
