"""The claimer of an isolated process: one suspect at a time, which makes room for the next once it is none any more.

Found by chaos, seeds 17 to 25: one line for one process, and a limit that waited behind a backlog.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_durable.core import clock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed
from django_durable.models import Run
from django_durable.store.claiming import Claim
from django_durable.store.committing import write_batch
from django_durable.store.database import PrivateDatabase
from django_durable.worker import process as processes
from django_durable.worker import suspects as module
from django_durable.worker.process import WorkerOptions, WorkerProcess
from django_durable.worker.slots import Slots
from django_durable.worker.suspects import SuspectClaimer
from tests.store.rows import at, claimant, entries, make_run, status_of, step_entry
from tests.worker.test_claimer import Listed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for who is not there."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)


class Alone:
    """The claimer, ticked by hand."""

    def __init__(self, db: PrivateDatabase, **options: Any) -> None:
        self.db, self.slots = db, Slots(1, may_overlap=False)
        self.started: list[Claim] = []
        self.claimer = SuspectClaimer(db, Listed(), claimant(), self.slots, 1, self.started.extend, **options)

    def tick(self) -> Claim | None:
        """What that has started."""
        before = len(self.started)
        self.claimer.tick()
        return self.started[-1] if len(self.started) > before else None

    def step(self, claim: Claim) -> None:
        write_batch(self.db, [(claim.lease, Write(entries(step_entry())))])

    def end(self, claim: Claim) -> None:
        write_batch(self.db, [(claim.lease, Write(outcome=Completed("1")))])
        self.slots.free(claim.lease)


@pytest.fixture
def alone(db: PrivateDatabase) -> Alone:
    return Alone(db)


def suspect(**more: object) -> Run:
    return make_run(suspect=True, claims=1, **more)


def test_who_is_alone_with_a_suspect_promotes_nothing(db: PrivateDatabase) -> None:
    """It looks ten times a second whether it is to make room, and no id comes to it."""
    alone = Alone(db)
    make_run(suspect=True)
    assert alone.tick()
    due = make_run("waiting", wake_at=at(timedelta(seconds=-1)))
    assert alone.tick() is None
    assert status_of(due) == "waiting"


def test_it_claims_suspects_only_and_one_at_a_time(alone: Alone) -> None:
    first, second, other = suspect(), suspect(), make_run()
    claim = alone.tick()
    assert claim is not None and claim.lease.is_suspect
    assert alone.tick() is None
    alone.end(claim)
    last = alone.tick()
    assert last is not None and {claim.run_id, last.run_id} == {first.pk, second.pk}
    alone.end(last)
    assert alone.tick() is None and status_of(other) == "queued"
    assert alone.claimer.is_idle.is_set()


def test_suspects_with_a_limit_and_without_take_turns(alone: Alone) -> None:
    for _ in range(3):
        suspect()
        suspect(limit_key="a")
    keys = []
    for _ in range(4):
        claim = alone.tick()
        assert claim is not None
        keys.append(claim.limit_key)
        alone.end(claim)
    assert sorted(map(str, keys)) == ["None", "None", "a", "a"]


def test_who_is_cleared_goes_on_among_the_others_while_another_waits(alone: Alone) -> None:
    suspect(), suspect()
    claim = alone.tick()
    assert claim is not None
    alone.tick()
    assert not claim.lease.release_requested, "it is under suspicion still"
    alone.step(claim)
    alone.tick()
    assert claim.lease.release_requested


@pytest.mark.parametrize("makes_room", [True, False])
def test_in_a_worker_that_ends_nobody_is_left_to_others_that_may_have_ended(
    db: PrivateDatabase, makes_room: bool
) -> None:
    alone = Alone(db, makes_room=makes_room)
    suspect(), suspect()
    claim = alone.tick()
    assert claim is not None
    alone.step(claim)
    alone.tick()
    assert claim.lease.release_requested is makes_room


@pytest.mark.parametrize(
    ("options", "makes_room"),
    [(WorkerOptions(isolated=True), True), (WorkerOptions(isolated=True, burst=True), False)],
)
def test_a_process_knows_whether_there_will_be_others(options: WorkerOptions, makes_room: bool) -> None:
    process = WorkerProcess(claimant().id, options)
    try:
        assert isinstance(process._claimer, SuspectClaimer)
        assert process._claimer._makes_room is makes_room
    finally:
        process._committer.close()


def test_who_is_cleared_stays_where_nobody_waits(alone: Alone) -> None:
    suspect(), make_run()
    claim = alone.tick()
    assert claim is not None
    alone.step(claim)
    alone.tick()
    assert not claim.lease.release_requested


def test_a_suspect_that_comes_later_is_made_room_for_with_the_next_poll(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [clock.monotonic()]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    suspect()
    claim = alone.tick()
    assert claim is not None
    alone.step(claim)
    alone.tick()
    suspect()
    alone.tick()
    assert not claim.lease.release_requested, "a statement for each look would be many"
    now[0] += 60
    claim.lease.renew(now[0] + 60)
    alone.tick()
    assert claim.lease.release_requested


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        (WorkerOptions(isolated=True), processes.LINGER_SECONDS),
        (WorkerOptions(isolated=True, max_runs=9), processes.SHORT_LINGER_SECONDS),
        (WorkerOptions(isolated=True, max_seconds=9), processes.SHORT_LINGER_SECONDS),
    ],
)
def test_it_waits_for_others_and_not_for_long_in_a_worker_that_ends(options: WorkerOptions, seconds: float) -> None:
    process = WorkerProcess(claimant().id, options)
    try:
        assert process._looks_until_quiet() * processes.IDLE_LOOK_SECONDS == seconds
    finally:
        process._committer.close()
