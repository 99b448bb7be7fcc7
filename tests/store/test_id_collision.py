"""An id that is taken: who starts a run with it hears so, and of the run that has it nothing changes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from django_durable.client import pushing
from django_durable.core.journal.states import Status
from django_durable.models import IdempotencyKey, Payload, Run, Tag
from django_durable.signals import run_enqueued
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.starting import start_runs
from django_durable.workflows import definition
from tests.app.workflows import doubling
from tests.store.conftest import Connect
from tests.store.parallel import Threads, session, wait_until_blocked
from tests.store.rows import make_run, new_run, payload

pytestmark = pytest.mark.django_db(transaction=True)


def everything() -> dict[str, list[Any]]:
    """Every column of every row that a start may make."""
    return {
        model.__name__: list(model.objects.order_by("pk").values()) for model in (Run, Payload, Tag, IdempotencyKey)
    }


@pytest.fixture(params=["django", "private"])
def any_db(request: pytest.FixtureRequest, db: PrivateDatabase) -> Database:
    return db if request.param == "private" else Database()


@pytest.mark.parametrize("others", [0, 2], ids=["alone", "among others"])
@pytest.mark.parametrize("status", [Status.QUEUED, Status.RUNNING, Status.WAITING, Status.SUCCEEDED])
def test_a_start_with_an_id_that_is_taken_stores_nothing(any_db: Database, status: Status, others: int) -> None:
    run = make_run(status)
    before = everything()
    forged = new_run(id=run.pk, workflow="tests.other", input="[2]", queue="other", tags=("forged",))
    with pytest.raises(IntegrityError):
        start_runs(any_db, [*(new_run(tags=("well",)) for _ in range(others)), forged])
    assert everything() == before


@pytest.mark.parametrize("is_inside", [False, True], ids=["alone", "in the caller's transaction"])
def test_nobody_hears_of_a_start_that_was_refused_and_its_key_is_free(
    monkeypatch: pytest.MonkeyPatch, is_inside: bool
) -> None:
    taken = doubling.enqueue(number=1)
    before = everything()
    heard: list[Any] = []

    def hear(**told: Any) -> None:
        heard.append(told)

    run_enqueued.connect(hear)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(definition, "uuid7", lambda: taken.id)
            patched.setattr(pushing, "_hint", lambda *told: heard.append(told))
            with pytest.raises(IntegrityError), transaction.atomic() if is_inside else nullcontext():
                doubling.using(idempotency_key="once", tags=["forged"]).enqueue(number=2)
    finally:
        run_enqueued.disconnect(hear)
    assert heard == []
    assert everything() == before
    again = doubling.using(idempotency_key="once").enqueue(number=2)
    assert again.id != taken.id
    assert payload(again.id, "input") != payload(taken.id, "input")


@pytest.mark.parametrize("fails", [False, True], ids=["commits", "rolls back"])
def test_of_two_who_start_at_once_with_one_id_one_does(connect: Connect, threads: Threads, fails: bool) -> None:
    watching, first = connect(), new_run(input="[1]")
    second = new_run(id=first.id, input="[2]")
    with transaction.atomic():
        start_runs(Database(), [first])
        starting = threads.start(lambda: start_runs(Database(), [second]))
        wait_until_blocked(watching, session(Database()))
        assert not starting.done()
        transaction.set_rollback(fails)
    assert isinstance(starting.exception(60), type(None) if fails else IntegrityError)
    assert payload(first.id, "input") == ("[2]" if fails else "[1]")
    assert Run.objects.count() == Payload.objects.count() == 1
