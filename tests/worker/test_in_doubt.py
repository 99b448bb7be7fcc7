"""Commits that were never answered: what has become durable is told once, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db.utils import OperationalError

from django_durable import signals
from django_durable.core.clock import DatabaseClock
from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Failed, Outcome, Released, Suspended
from django_durable.core.journal.states import Status
from django_durable.core.payloads.codec import encode
from django_durable.models import Run
from django_durable.queues import Ready
from django_durable.queues.database import DatabaseQueue
from django_durable.store import committing
from django_durable.store.claiming import Claim, claim_ids
from django_durable.store.database import PrivateDatabase
from django_durable.store.receipts import Receipt
from django_durable.worker import batch_writer
from django_durable.worker.aftermath import Aftermath
from django_durable.worker.committer import Committer
from django_durable.worker.slots import Slots
from tests.app import workflows
from tests.store.rows import (
    LEASE,
    child_entry,
    claimant,
    entries,
    event_entry,
    fresh,
    journal_row,
    make_run,
    new_run,
    send,
    sleep_entry,
    step_entry,
)

pytestmark = pytest.mark.django_db(transaction=True)

DOUBLING = workflows.doubling.name
DONE = Write(entries(step_entry("double")), outcome=Completed(encode(4)))


class Queue(DatabaseQueue):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[UUID] = []

    def push(self, runs: Sequence[Ready]) -> None:
        self.ids += [run.id for run in runs]


class Connection:
    """Stands before ``write_batch``: the next commit is not answered, whether it ``happens`` or not."""

    def __init__(self) -> None:
        self.happens = True
        self.meanwhile: Callable[[], object] = lambda: None
        self._breaks = True

    def __call__(self, db: PrivateDatabase, writes: Sequence[tuple[Lease, Write]], **options: Any) -> Any:
        if not self._breaks:
            return committing.write_batch(db, writes, **options)
        self._breaks = False
        if self.happens:
            committing.write_batch(db, writes, **options)
        self.meanwhile()
        raise OperationalError("server closed the connection unexpectedly")


class Worker:
    """The parts of a worker process that a commit and what follows it go through."""

    def __init__(self, db: PrivateDatabase) -> None:
        self.queue = Queue()
        self._db = db
        self._slots = Slots(8)
        self._aftermath = Aftermath(self.queue, self._slots)
        self._aftermath.begin()
        self._committer = Committer(PrivateDatabase(), self._aftermath.committed, self._aftermath.in_doubt)

    def claim(self, **columns: Any) -> Claim:
        run = make_run(**{"workflow": DOUBLING, **columns})
        who = claimant(DOUBLING)
        (claimed,) = claim_ids(self._db, who, [run.pk], lease=LEASE, time=DatabaseClock())
        self._slots.take(claimed)
        return claimed

    def write(self, claim: Claim, write: Write) -> Receipt:
        """Commit, then let the attempt end as the executor does."""
        receipt = self._committer.write(claim.lease, write)
        self._slots.free(claim.lease)
        return receipt

    def close(self) -> None:
        self._aftermath.flush(10)
        self._aftermath.stop()
        self._committer.close()


@pytest.fixture
def lost_answer(monkeypatch: pytest.MonkeyPatch) -> Connection:
    connection = Connection()
    monkeypatch.setattr(batch_writer, "write_batch", connection)
    return connection


@pytest.fixture
def worker(db: PrivateDatabase) -> Iterator[Worker]:
    worker = Worker(db)
    yield worker
    worker.close()


@pytest.fixture
def heard() -> Iterator[list[tuple[str, UUID]]]:
    """Signal and run of everything that is sent."""
    found: list[tuple[str, UUID]] = []
    receivers = []
    for name in ("run_waiting", "run_succeeded", "run_failed", "run_cancelled", "step_succeeded"):

        def receive(sender: object, run_id: UUID, name: str = name, **facts: Any) -> None:
            assert sender is workflows.doubling
            found.append((name, run_id))

        getattr(signals, name).connect(receive)
        receivers.append((getattr(signals, name), receive))
    yield found
    for signal, receive in receivers:
        signal.disconnect(receive)


def waiting_parent() -> Run:
    parent = make_run(Status.WAITING, workflow="app.parent", waiting_on="child:inside", wake_at=None)
    journal_row(parent, child_entry("inside"))
    return parent


Heard = list[tuple[str, UUID]]


@pytest.mark.parametrize("happens", [True, False])
def test_an_outcome_is_told_once_and_wakes_the_parent(
    happens: bool, worker: Worker, lost_answer: Connection, heard: Heard
) -> None:
    lost_answer.happens = happens
    parent = waiting_parent()
    child = worker.claim(parent_id=parent.pk, parent_path="inside", root_id=parent.pk)
    worker.write(child, DONE)
    worker.close()
    assert fresh(child.run_id).status == "succeeded"
    assert fresh(parent).status == "queued"
    assert worker.queue.ids == [parent.pk]
    assert heard == [("step_succeeded", child.run_id), ("run_succeeded", child.run_id)]


@pytest.mark.parametrize("happens", [True, False])
def test_a_cancellation_that_won_is_what_is_told(
    happens: bool, worker: Worker, lost_answer: Connection, heard: Heard
) -> None:
    lost_answer.happens = happens
    claim = worker.claim()
    Run.objects.update(cancel_requested_at="2040-01-01T00:00Z")
    worker.write(claim, Write(outcome=Failed({"type": "ValueError", "message": "no"})))
    worker.close()
    assert heard == [("run_cancelled", claim.run_id)]


@pytest.mark.parametrize("happens", [True, False])
def test_a_run_that_waits_shortly_is_hinted_at(
    happens: bool, worker: Worker, lost_answer: Connection, heard: Heard
) -> None:
    """A worker that nobody tells of it would look for it with its next sweep."""
    lost_answer.happens = happens
    claim = worker.claim()
    worker.write(claim, Write(entries(sleep_entry(0.5)), outcome=Suspended("sleep:nap", wake_after=0.5)))
    worker.close()
    assert fresh(claim.run_id).status == "waiting"
    assert worker.queue.ids == [claim.run_id]
    assert heard == [("run_waiting", claim.run_id)]


@pytest.mark.parametrize("outcome", [Released(), Suspended("event:packed")], ids=["released", "suspended"])
def test_a_run_that_is_queued_again_is_hinted_at(
    outcome: Outcome, worker: Worker, lost_answer: Connection, heard: Heard
) -> None:
    claim = worker.claim()
    send(claim.run_id)
    worker.write(claim, Write(entries(event_entry()), outcome=outcome))
    worker.close()
    assert fresh(claim.run_id).status == "queued"
    assert worker.queue.ids == [claim.run_id]
    assert heard == []


def test_a_run_that_was_taken_away_is_not_taken_for_our_outcome(
    worker: Worker, lost_answer: Connection, heard: Heard
) -> None:
    def reap() -> None:
        Run.objects.update(status="queued", lease_token=None, leased_by=None, lease_expires_at=None)

    lost_answer.happens, lost_answer.meanwhile = False, reap
    claim = worker.claim()
    assert worker.write(claim, DONE).is_lost
    worker.close()
    assert fresh(claim.run_id).status == "queued"
    assert heard == []


@pytest.mark.parametrize("is_over", [False, True], ids=["running", "over"])
def test_a_run_that_was_claimed_again_is_told_of_by_who_has_it(
    is_over: bool, worker: Worker, lost_answer: Connection, heard: Heard, db: PrivateDatabase
) -> None:
    def go_on() -> None:
        (again,) = claim_ids(db, claimant(DOUBLING), [claim.run_id], lease=LEASE, time=DatabaseClock())
        if is_over:
            committing.write_batch(db, [(again.lease, DONE)])

    lost_answer.meanwhile = go_on
    claim = worker.claim()
    assert worker.write(claim, Write(outcome=Released())).is_lost
    worker.close()
    assert heard == [] and worker.queue.ids == []


WAITS = Write(entries(step_entry("double"), event_entry()), outcome=Suspended("event:packed"))


@pytest.mark.parametrize("is_claimed", [False, True], ids=["queued", "claimed again"])
def test_steps_of_an_outcome_are_told_although_the_run_has_gone_on(
    is_claimed: bool, worker: Worker, lost_answer: Connection, heard: Heard, db: PrivateDatabase
) -> None:
    """Their rows are there, under our token. Whether the run has rested before it went on nobody can tell."""
    claim = worker.claim()
    send(claim.run_id)
    if is_claimed:
        who = claimant(DOUBLING)
        lost_answer.meanwhile = lambda: claim_ids(db, who, [claim.run_id], lease=LEASE, time=DatabaseClock())
    assert worker.write(claim, WAITS).is_lost
    worker.close()
    assert heard == [("step_succeeded", claim.run_id)]


def test_steps_of_an_outcome_that_was_not_durable_are_not_told(
    worker: Worker, lost_answer: Connection, heard: Heard, db: PrivateDatabase
) -> None:
    """Whoever has the run now came to the same: under another token."""

    def go_on() -> None:
        Run.objects.update(status="queued", lease_token=None, leased_by=None, lease_expires_at=None)
        (again,) = claim_ids(db, claimant(DOUBLING), [claim.run_id], lease=LEASE, time=DatabaseClock())
        committing.write_batch(db, [(again.lease, WAITS)])

    lost_answer.happens, lost_answer.meanwhile = False, go_on
    claim = worker.claim()
    assert worker.write(claim, WAITS).is_lost
    worker.close()
    assert heard == []


@pytest.mark.parametrize("happens", [False, True])
def test_children_of_an_outcome_prove_it_where_the_run_has_gone_on(
    happens: bool, worker: Worker, lost_answer: Connection, db: PrivateDatabase
) -> None:
    told: list[UUID] = []

    def receive(sender: object, run_id: UUID, **facts: Any) -> None:
        told.append(run_id)

    signals.run_enqueued.connect(receive)
    lost_answer.happens = happens
    lost_answer.meanwhile = lambda: Run.objects.filter(pk=claim.run_id).update(
        status="queued", waiting_on="", lease_token=None, leased_by=None, lease_expires_at=None
    )
    claim = worker.claim()
    child = new_run(parent_id=claim.run_id, parent_path="child", root_id=claim.run_id)
    worker.write(claim, Write(entries(child_entry()), children=[child], outcome=Suspended("child:child")))
    worker.close()
    signals.run_enqueued.disconnect(receive)
    assert told == ([child.id] if happens else [])


@pytest.mark.parametrize(
    "left",
    [
        {"status": "paused"},
        {"status": "blocked", "block_reason": "crashed", "suspect": True},
        # It was queued in between, and nobody came who knew the workflow.
        {"status": "blocked", "block_reason": "unknown_workflow"},
    ],
)
def test_what_the_reaper_has_left_is_not_taken_for_our_outcome(
    left: dict[str, Any], worker: Worker, lost_answer: Connection, heard: Heard
) -> None:
    def reap() -> None:
        Run.objects.update(lease_token=None, leased_by=None, lease_expires_at=None, **left)

    lost_answer.happens, lost_answer.meanwhile = False, reap
    claim = worker.claim()
    assert worker.write(claim, DONE).is_lost
    worker.close()
    assert heard == []


def test_an_outcome_is_told_although_the_lease_has_ended_meanwhile(
    worker: Worker, lost_answer: Connection, heard: Heard
) -> None:
    """The heartbeat saw that the token is gone, or the database was away for long."""
    lost_answer.meanwhile = lambda: claim.lease.lose()
    claim = worker.claim()
    assert worker.write(claim, DONE).is_lost
    worker.close()
    assert heard == [("step_succeeded", claim.run_id), ("run_succeeded", claim.run_id)]


def test_what_is_lost_without_a_doubt_is_not_told(worker: Worker, heard: Heard) -> None:
    claim = worker.claim()
    Run.objects.update(lease_token=uuid4())
    assert worker.write(claim, DONE).is_lost
    worker.close()
    assert heard == []


@pytest.mark.parametrize("happens", [True, False])
def test_children_are_hinted_at(happens: bool, worker: Worker, lost_answer: Connection) -> None:
    lost_answer.happens = happens
    claim = worker.claim()
    child = new_run(parent_id=claim.run_id, parent_path="child", root_id=claim.run_id)
    assert worker.write(claim, Write(entries(child_entry()), children=[child])).is_held
    worker.close()
    assert worker.queue.ids == [child.id]


def test_a_database_that_is_away_again_leaves_it_to_the_sweep(
    worker: Worker, lost_answer: Connection, heard: Heard, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def away(*args: Any, **options: Any) -> None:
        raise OperationalError("away")

    claim = worker.claim()
    with monkeypatch.context() as broken:
        broken.setattr("django_durable.worker.in_doubt.Database", away)
        assert worker.write(claim, DONE).is_lost
        worker.close()
    assert "the sweep will" in caplog.text
    assert heard == []
