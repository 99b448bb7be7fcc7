"""Where no CTE writes, that a lease was taken away and that its claim was lost are two statements, in one commit."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError

from django_durable.store import recovery
from django_durable.store.database import PrivateDatabase
from tests.store.rows import LEASE, claim, fresh, make_run

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_lease_is_taken_away_and_noted_as_lost_together_or_not_at_all(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the run may be claimed anew in between: ``lost_at`` is then later than that claim, or missing for good."""
    run = make_run()
    claim(db, run, worker=uuid4(), lease=-1)

    def refuse(*_: Any) -> str:
        raise OperationalError("database is locked")

    monkeypatch.setattr("django_durable.store.sql.leases.lose_claims", refuse)
    with pytest.raises(OperationalError):
        recovery.reap(db, 10, lease=LEASE, max_crashes=3)
    assert fresh(run).status == "running"
