"""Rows of the statistics that an open transaction holds: a heartbeat does not wait for it, nor does the pruning."""

from __future__ import annotations

import pytest
from django.db.utils import OperationalError

from django_durable.models import Tally
from django_durable.store import tallying
from django_durable.store.tallying import add
from tests.store.conftest import Connect
from tests.store.test_tallying import one

pytestmark = pytest.mark.django_db(transaction=True)


def test_who_adds_does_not_wait_for_long(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallying, "WAIT_SECONDS", 0.05)
    holder, db = connect(), connect()
    add(db, {one(): 1})
    with holder.transaction():
        holder.rows("UPDATE django_durable_tally SET started = started")
        with pytest.raises(OperationalError, match="lock timeout"):
            add(db, {one(): 1})
    add(db, {one(): 1})
    assert Tally.objects.get().started == 2


def test_what_somebody_holds_is_left_for_the_next_time(connect: Connect) -> None:
    holder, db = connect(), connect()
    add(db, {one(workflow="held"): 1, one(workflow="free"): 1})
    with holder.transaction():
        holder.rows("UPDATE django_durable_tally SET started = started WHERE workflow = 'held'")
        tallying.prune(db, 10, 0)
        assert [row.workflow for row in Tally.objects.all()] == ["held"]
