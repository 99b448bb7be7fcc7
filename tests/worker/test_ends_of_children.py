"""A parent hears at once of every end of its child: failures and cancellations are not left to the sweep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Cancelled, Completed, Failed, Outcome
from django_durable.store.database import PrivateDatabase
from tests.store.rows import fresh
from tests.worker.test_in_doubt import Worker, waiting_parent

pytestmark = pytest.mark.django_db(transaction=True)

ENDS: dict[str, Outcome] = {
    "succeeded": Completed("4"),
    "failed": Failed({"type": "ValueError", "message": "no", "traceback": ""}),
    "cancelled": Cancelled(),
}


@pytest.fixture
def worker(db: PrivateDatabase) -> Iterator[Worker]:
    worker = Worker(db)
    yield worker
    worker.close()


@pytest.mark.parametrize("status", ENDS)
def test_each_end_of_a_child_wakes_its_parent(worker: Worker, status: str) -> None:
    parent = waiting_parent()
    child = worker.claim(parent_id=parent.pk, parent_path="inside", root_id=parent.pk)
    worker.write(child, Write(outcome=ENDS[status]))
    worker.close()
    assert fresh(child.run_id).status == status
    assert fresh(parent).status == "queued"
    assert worker.queue.ids == [parent.pk]
