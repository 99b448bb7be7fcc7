"""A session that has become read-only: its server was demoted, or has no disk left. What is written there is not at
fault."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.models import JournalEntry
from django_durable.store.database import PrivateDatabase
from django_durable.worker.committer import Committer
from tests.store.rows import entries, running, step_entry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def committer(db: PrivateDatabase) -> Iterator[Committer]:
    committer = Committer(db, lambda *_: None)
    yield committer
    committer.close()


@pytest.fixture
def lease(db: PrivateDatabase) -> Lease:
    lease = running(db).lease
    # As a server that was demoted says it of every session, and this one only until it is made anew.
    db.rows("SET default_transaction_read_only = on")
    return lease


def test_a_commit_that_is_refused_by_a_read_only_session_is_sent_again_on_another_one(
    committer: Committer, lease: Lease
) -> None:
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(committer.write, lease, Write(entries(step_entry("step"))))
    assert writing.exception() is None
    receipt = writing.result()
    assert (receipt.is_held, receipt.is_lost) == (True, False)
    assert JournalEntry.objects.filter(run_id=lease.run_id).count() == 1
