"""A COMMIT that was sent, whose answer never comes, and that the server is still working on.

Found by chaos beside 0.1.0, seed 20261121: an atomic step was done twice.
"""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import OperationalError

from django_durable import Context, Retry, durable_workflow
from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.outcomes import Completed
from django_durable.executor.sync_attempt import run_attempt
from django_durable.store.claiming import claim_next
from django_durable.store.database import Database, PrivateDatabase
from tests.app.models import Counter
from tests.direct_commit import DirectCommit
from tests.executor.counting import count
from tests.invariants import violated
from tests.store.conftest import Connect
from tests.store.parallel import Threads, answer, wait_until_blocked
from tests.store.rows import claimant

pytestmark = pytest.mark.django_db(transaction=True)


@durable_workflow(name="commits.counting", step_retry=Retry(max_attempts=2, initial=0, maximum=0))
def counting(ctx: Context) -> int:
    return ctx.step("count", count, atomic=True)


class SlowCommit:
    """In the place of Django's COMMIT: the first is sent, its connection is lost, and the server takes its time."""

    def __init__(self, threads: Threads, watching: PrivateDatabase) -> None:
        self._threads = threads
        self._watching = watching
        self.ends: list[Future[None]] = []

    def __call__(self, wrapper: Any) -> None:
        if self.ends:
            wrapper.connection.commit()
            return
        sent, wrapper.connection = wrapper.connection, None
        self.ends.append(self._threads.start(self._end, sent))
        raise OperationalError("server closed the connection unexpectedly")

    def _end(self, sent: Any) -> None:
        # Who does not wait for it has looked too early by then, and done the step again.
        with suppress(AssertionError):
            wait_until_blocked(self._watching, sent.info.backend_pid, seconds=2)
        sent.commit()
        sent.close()


def test_who_loses_the_connection_at_the_commit_of_an_atomic_step_waits_for_its_end(
    db: PrivateDatabase, threads: Threads, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowCommit(threads, connect())
    run = counting.enqueue()
    [claim] = claim_next(db, claimant(counting.name), 1, lease=30, time=DatabaseClock())
    monkeypatch.setattr(BaseDatabaseWrapper, "_commit", lambda wrapper: slow(wrapper))
    outcome = run_attempt(claim, counting, DirectCommit(Database()))
    monkeypatch.undo()
    answer(slow.ends[0])
    assert Counter.objects.get().value == 1, "the step was done twice"
    assert type(outcome) is Completed
    assert run.result() == 1
    assert violated() == []
