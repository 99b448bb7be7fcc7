"""Old and new code of a renamed workflow, at the same moment: on SQLite there is none, it has one writer."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from django_durable import Context, durable_workflow
from django_durable.core import registry
from django_durable.models import Run
from django_durable.store.database import Database, PrivateDatabase
from tests.store.parallel import Threads, answer, session, wait_until_blocked

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


def fulfil(ctx: Context, number: int) -> int:
    return number


def declared(name: str, *aliases: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The workflow as a process knows it that has this code and no other."""
    registry.definitions()
    for kept in ("_named", "_duplicates", "_unnamed"):
        monkeypatch.setattr(registry, kept, type(getattr(registry, kept))())
    workflow = durable_workflow(name=name, aliases=aliases)(fulfil)
    registry.definitions()
    return workflow


def test_old_and_new_code_that_start_at_once_start_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    old = declared("shop.order", monkeypatch=monkeypatch)
    new = declared("shop.fulfil", "shop.order", monkeypatch=monkeypatch)
    watching = PrivateDatabase()
    with Threads() as threads:
        with transaction.atomic():
            run = old.using(idempotency_key="order-1").enqueue(1)
            other = threads.start(new.using(idempotency_key="order-1").enqueue, 1)
            wait_until_blocked(watching, session(Database()))
        assert answer(other) == run
    watching.close()
    assert Run.objects.count() == 1
