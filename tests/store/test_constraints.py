"""The tables refuse a lease that is none, and a second of what there is one of: whoever writes past the store is
stopped by the database. What else a row must have `durable_check` looks at."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from django_durable.core.ids import uuid7
from django_durable.core.journal.states import Status
from django_durable.models import Event, Fire, IdempotencyKey, JournalEntry, Payload, Run, Schedule, Tag
from tests.store.rows import journal_row as journal
from tests.store.rows import make_run, send, step_entry

pytestmark = pytest.mark.django_db

LEASE = {"lease_token": uuid4(), "leased_by": uuid4(), "lease_expires_at": timezone.now()}
NOT_RUNNING = sorted(set(Status) - {Status.RUNNING})

ILLEGAL: list[tuple[str, str, dict[str, Any]]] = [
    *(("durable_run_lease", Status.RUNNING, {column: None}) for column in LEASE),
    *(("durable_run_lease", status, {column: value}) for status in NOT_RUNNING for column, value in LEASE.items()),
]


def test_a_run_that_the_tests_make_is_legal_in_every_status():
    assert {make_run(status).status for status in Status} == set(Status)


@pytest.mark.parametrize(("constraint", "status", "wrong"), ILLEGAL)
def test_illegal_row(constraint: str, status: str, wrong: dict[str, Any]):
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        make_run(status, **wrong)
    assert not Run.objects.exists()


@pytest.mark.parametrize(("constraint", "status", "wrong"), ILLEGAL)
def test_illegal_update(constraint: str, status: str, wrong: dict[str, Any]):
    run = make_run(status)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**wrong)


def refused(make: Any) -> bool:
    try:
        with transaction.atomic():
            make()
    except IntegrityError:
        return True
    return False


def test_what_must_be_unique_is():
    run, other = make_run(), make_run()
    now = timezone.now()
    schedule = Schedule.objects.create(workflow="w", name="n", expression="@daily")
    key = {"workflow": "w", "key_hash": "h", "key": "k", "run_id": run.pk, "input_hash": "i", "expires_at": now}
    once = [
        lambda run_id: journal(Run(id=run_id), step_entry("same")),
        lambda run_id: Payload.objects.create(run_id=run_id, kind="output", data="1"),
        lambda run_id: Event.objects.create(run_id=run_id, name="e", payload="1", idempotency_key="k"),
        lambda run_id: Tag.objects.create(run_id=run_id, name="t"),
    ]
    for make in once:
        assert not refused(lambda make=make: make(run.pk))
        assert not refused(lambda make=make: make(other.pk))
        assert refused(lambda make=make: make(run.pk))
    assert not refused(lambda: Fire.objects.create(schedule=schedule, scheduled_for=now, fired_at=now))
    assert refused(lambda: Fire.objects.create(schedule=schedule, scheduled_for=now, fired_at=now))
    assert not refused(lambda: IdempotencyKey.objects.create(**key))
    assert refused(lambda: IdempotencyKey.objects.create(**{**key, "run_id": uuid7()}))
    assert refused(lambda: make_run(id=run.pk))
    send(run.pk)
    assert not refused(lambda: send(run.pk))
    assert JournalEntry.objects.count() == 2


@pytest.mark.parametrize("status", sorted(Status))
def test_what_is_legal_passes_validation_too(status: str):
    """A ``CheckConstraint`` is also asked in Python, by ``full_clean()``."""
    make_run(status).validate_constraints()
