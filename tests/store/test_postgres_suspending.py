"""A suspension looks for reasons to go on in a statement of its own: one that begins when the row is held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_durable.core.journal.outcomes import Suspended
from django_durable.core.journal.states import Status
from django_durable.store.database import PrivateDatabase
from tests.store.rows import child_entry, event_entry, make_run, running, status_of
from tests.store.suspending import finish, send_and_wake, suspend
from tests.store.test_postgres_races import between

__all__ = ["between"]

pytestmark = pytest.mark.django_db(transaction=True)

FENCE = "WHERE r.lease_token = i.token"


def test_an_event_between_the_fence_s_snapshot_and_its_lock_is_seen(db: PrivateDatabase, between: Callable[..., Any]):
    """Its sender found the run at work and woke nobody: a look on the fence's snapshot would lose it for good."""
    claim = running(db)
    woken: list[Any] = []
    receipt = between(
        FENCE,
        lambda gated: suspend(gated, claim, event_entry()),
        lambda: woken.extend(send_and_wake(db, claim.run_id)),
    )
    assert woken == []
    assert receipt.status == status_of(claim.run_id) == Status.QUEUED


def test_the_end_of_a_child_between_the_fence_s_snapshot_and_its_lock_is_seen(
    db: PrivateDatabase, between: Callable[..., Any]
):
    claim = running(db)
    child = make_run(parent_id=claim.run_id, parent_path="child")
    receipt = between(
        FENCE,
        lambda gated: suspend(gated, claim, child_entry(), outcome=Suspended("child:child")),
        lambda: finish(db, child.pk),
    )
    assert receipt.status == status_of(claim.run_id) == Status.QUEUED
