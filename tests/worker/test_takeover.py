"""What becomes of the runs of a child that is dead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.utils import OperationalError

from django_durable.models import Worker as WorkerRow
from django_durable.store.database import PrivateDatabase
from django_durable.worker import takeover as module
from django_durable.worker.child import DONE, DONE_BUSY, DONE_GAVE_UP, DRAINED, GAVE_UP, STILL_BUSY
from django_durable.worker.takeover import Takeover
from tests.store.rows import beating, fresh, running
from tests.worker.children import KILLED, dead, held_by

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def takeover() -> Iterator[Takeover]:
    db = PrivateDatabase()
    yield Takeover(db)
    db.close()


@pytest.mark.parametrize(
    ("returncode", "is_suspect"),
    [
        (STILL_BUSY, False),
        (DONE_BUSY, False),
        (GAVE_UP, True),
        (DONE_GAVE_UP, True),
        (KILLED, True),
        (1, True),
        (0, True),
    ],
)
def test_what_a_dead_child_held_goes_on(
    returncode: int, is_suspect: bool, takeover: Takeover, db: PrivateDatabase
) -> None:
    child = dead(returncode, is_draining=True)
    beating(child.id)
    held = held_by(db, child)
    others = running(db)
    suspects = takeover.of(child)
    run = fresh(held)
    assert (run.status, run.suspect, run.crashes, run.lease_token) == ("queued", is_suspect, 0, None)
    assert suspects == is_suspect
    assert fresh(others.run_id).status == "running"
    assert WorkerRow.objects.get(pk=child.id).stopped_at is not None


@pytest.mark.parametrize("returncode", [DONE, DRAINED])
def test_a_child_that_ended_well_holds_nothing_and_nobody_asks(
    returncode: int, takeover: Takeover, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "recovery", None)
    takeover.of(dead(returncode))


def test_a_database_that_is_away_leaves_it_to_the_reaper(
    takeover: Takeover, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*args: Any, **options: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(module.recovery, "reap_worker", away)
    takeover.of(dead())
    assert "could not take over" in caplog.text
