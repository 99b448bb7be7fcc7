"""Chaos sees an outcome that was sent under a lost claim to an engine that compares no tokens, although what such an
engine stores bears the token of whoever has the run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import async_to_sync

from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.executor.async_attempt import aperform_attempt
from django_durable.executor.sync_attempt import perform_attempt
from django_durable.store import committing, recovery
from django_durable.store.claiming import Claim, claim_ids
from django_durable.store.committing import write_batch
from django_durable.store.database import Database
from django_durable.store.receipts import Receipt
from django_durable.store.sql import commits, leases
from django_durable.workflows.registry import get_workflow
from tests.chaos.checker import STALE, check
from tests.chaos.collecting import collect
from tests.chaos.history import begin_history, end_history
from tests.chaos.mixture import workflow_called
from tests.chaos.planting import ONE_STEP
from tests.chaos.programs import Program
from tests.chaos.story import CLOCK_STEP
from tests.direct_commit import DirectCommit
from tests.reliability.unfenced import FENCED
from tests.store.rows import claimant

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 3600.0
BAD: Program = [["step", 1, 0.0], ["bad"]]
UNDONE: Program = [["undoable", 1], ["bad"]]


@pytest.fixture
def folder(transactional_db: None) -> Iterator[Path]:
    """Where the witness writes; the database notes what becomes of runs meanwhile."""
    folder = Path(os.environ["DURABLE_TEST_FOLDER"])
    (folder / "witness").unlink(missing_ok=True)
    begin_history()
    yield folder
    end_history()
    (folder / "witness").unlink(missing_ok=True)


@contextmanager
def without_comparison() -> Iterator[None]:
    """The one line that a fence is, and nothing else: what is written is signed as ever."""
    ours = leases.ours

    def anybodys(d: Any, ids: str = "") -> str:
        assert ours(d, ids).count(FENCED) == 1, "the fence is not where it was"
        return ours(d, ids).replace(FENCED, "1 = 1")

    leases.ours = commits.ours = anybodys  # type: ignore[attr-defined]
    committing._at_once.cache_clear()
    try:
        yield
    finally:
        leases.ours = commits.ours = ours  # type: ignore[attr-defined]
        committing._at_once.cache_clear()


class Working:
    """Claims a run and works on it to the end of the attempt; what it comes to is sent when it is told so."""

    def __init__(self, run: UUID, name: str) -> None:
        self._db = Database()
        self._id = uuid4()
        who = claimant(f"chaos.{name}", worker=self._id)
        [self.claim] = claim_ids(self._db, who, [run], lease=LONG, time=DatabaseClock())
        self.write = Write()

    def attempt(self) -> None:
        self.write = attempt(self._db, self.claim)

    def give_back(self) -> None:
        recovery.release_worker(self._db, self._id)

    def send(self) -> Receipt:
        return write_batch(self._db, [(self.claim.lease, self.write)])[self.claim.run_id]


def attempt(db: Database, claim: Claim) -> Write:
    workflow = get_workflow(claim.workflow)
    perform: Any = async_to_sync(aperform_attempt) if workflow.is_async else perform_attempt
    write: Write | None = perform(claim, workflow, DirectCommit(db))[1]
    assert write is not None
    return write


def stale(folder: Path) -> list[tuple[str, str]]:
    return [(one.rule, one.run) for one in check(collect(folder, [])) if one.rule in STALE]


@pytest.mark.parametrize("name", ["interpret", "interpret_async"])
@pytest.mark.parametrize(("program", "status"), [(ONE_STEP, "succeeded"), (BAD, "failed")])
def test_who_ends_a_run_of_its_heir_is_seen(folder: Path, name: str, program: Program, status: str) -> None:
    run = workflow_called(name).enqueue("odd", program)
    zombie = Working(run.id, name)
    zombie.attempt()
    zombie.give_back()
    heir = Working(run.id, name)

    assert zombie.send().is_lost
    with without_comparison():
        assert zombie.send().status == status
    assert stale(folder) == [("stale", str(run.id))]
    # That the heir comes to the same end later on explains nothing.
    time.sleep(2 * CLOCK_STEP)
    heir.attempt()
    assert heir.send().is_lost
    assert stale(folder) == [("stale", str(run.id))]


@pytest.mark.parametrize("name", ["interpret", "interpret_async"])
@pytest.mark.parametrize("program", [ONE_STEP, BAD, UNDONE])
def test_who_ends_a_run_of_its_own_is_not(folder: Path, name: str, program: Program) -> None:
    run = workflow_called(name).enqueue("odd", program)
    zombie = Working(run.id, name)
    zombie.attempt()
    zombie.give_back()
    while run.refresh().status == "queued":
        heir = Working(run.id, name)
        heir.attempt()
        assert not heir.send().is_lost
    assert zombie.send().is_lost
    assert run.refresh().status == ("succeeded" if program is ONE_STEP else "failed")
    assert stale(folder) == []
