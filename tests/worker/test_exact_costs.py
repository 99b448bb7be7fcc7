"""What a run costs, in exact numbers: counted on every connection and in every thread of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings as django_settings

from django_durable.client.handle import RunHandle
from django_durable.worker import process as process_module
from django_durable.worker.process import WorkerOptions, WorkerProcess
from tests.app import faults, workflows
from tests.processes import wait_until
from tests.worker.wire import Tap, Wire, tapped

pytestmark = pytest.mark.django_db(transaction=True)

IS_SQLITE = django_settings.BACKEND == "sqlite"
IS_REDIS = django_settings.QUEUE == "redis"
STEPS = 10
WARM = 3
"""Runs before the one that is counted: threads are started, connections opened, statements prepared."""

Run = RunHandle[Any]
Start, Go = Callable[[], Run], Callable[[Run], object]


class Works:
    """A worker process without its own threads for claiming, heartbeats and loops: it claims when it is told to."""

    def __init__(self, process: WorkerProcess, tap: Tap) -> None:
        self._process = process
        self.tap = tap

    def off(self, start: Start, *between: Go) -> Wire:
        """What the process does for one run; the work of the outside (its start, and ``between`` two attempts) is not
        counted."""
        for _ in range(WARM):
            self._count(start(), between)
        return self._count(start(), between)

    def _count(self, run: Run, between: Sequence[Go]) -> Wire:
        wire = Wire()
        for go_on in (None, *between):
            if go_on is not None:
                go_on(run)
            with self.tap.into(wire):
                self._attempt()
        assert run.refresh().status == "succeeded"
        return wire

    def _attempt(self) -> None:
        # Where there are hints it claims by them: no sweep is due.
        self._process._claimer._next_look = inf if IS_REDIS else 0.0
        assert self._process._claimer.tick() == 1
        wait_until(lambda: self._process._slots.used == 0 and self._process._aftermath.is_idle)


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> Iterator[Works]:
    monkeypatch.setattr(process_module, "limits", dict)
    with tapped(monkeypatch) as tap:
        process = WorkerProcess(uuid4(), WorkerOptions(concurrency=1))
        assert process._register()
        process._aftermath.begin()
        yield Works(process, tap)
        process._threads.close()
        if process._loop is not None:
            process._loop.close()
        process._aftermath.stop()
        process._committer.close()
        process._claimer._db.close()
        process._db.close()


@pytest.mark.parametrize("workflow", [workflows.many_steps, workflows.many_steps_async], ids=["def", "async def"])
def test_a_step_is_one_commit_without_a_new_connection_or_thread(works: Works, workflow: Any) -> None:
    wire = works.off(lambda: workflow.enqueue(STEPS))
    # The claim, the steps, the outcome.
    assert wire.commits == 1 + STEPS + 1, wire.most_common()
    # SQLite: BEGIN, fence, rows, COMMIT; one more for the outcome, which has a payload.
    assert wire.round_trips == (1 + 4 * STEPS + 5 if IS_SQLITE else 1 + STEPS + 1), wire.most_common()
    assert wire.redis == (["EVALSHA"] if IS_REDIS else [])
    assert (wire.connections, wire.threads) == (0, 0)


@pytest.mark.parametrize("workflow", [workflows.one_step, workflows.one_step_async], ids=["def", "async def"])
def test_a_last_step_shares_the_commit_of_the_outcome(works: Works, workflow: Any) -> None:
    wire = works.off(workflow.enqueue)
    # The claim; the step and the outcome. SQLite: BEGIN, fence, entry, payload, run, COMMIT.
    assert wire.commits == 2, wire.most_common()
    assert wire.round_trips == (1 + 6 if IS_SQLITE else 2), wire.most_common()


def test_sync_steps_of_an_async_run_share_its_thread(works: Works) -> None:
    one, ten = (works.off(lambda count=count: workflows.many_sync_steps_async.enqueue(count)) for count in (1, STEPS))
    assert (one.commits, ten.commits) == (1 + 1 + 1, 1 + STEPS + 1), ten.most_common()
    assert (ten.connections, ten.threads) == (one.connections, one.threads)
    assert ten.connections == 0


def test_an_atomic_step_is_one_commit_with_what_its_body_wrote(works: Works) -> None:
    wire = works.off(lambda: workflows.many_atomic_steps.enqueue(STEPS))
    assert wire.commits == 1 + STEPS + 1, wire.most_common()
    # BEGIN, its isolation and time-out, the body's one statement, fence and row, COMMIT. SQLite: fence and row are two,
    # and the two of a savepoint stand in place of what the transaction is to be like.
    assert wire.round_trips == (1 + 7 * STEPS + 5 if IS_SQLITE else 1 + 5 * STEPS + 1), wire.most_common()
    # The thread's own, of the project's kind: CONN_MAX_AGE is 0 here, so it ends with the run.
    assert (wire.connections, wire.threads) == (1, 0)


def test_a_run_that_waits_once_and_goes_on(works: Works) -> None:
    wire = works.off(lambda: faults.knocked.enqueue(1), lambda run: run.send_event("knock"))
    # Two claims; what it waits for, with the look for what has come meanwhile; what has come; the outcome; and who has
    # made the second claim, which on PostgreSQL goes with a look and waits for no disk.
    assert wire.commits == 6, wire.most_common()
    assert wire.round_trips == (20 if IS_SQLITE else 15), wire.most_common()
    assert wire.redis == (["EVALSHA"] * 2 if IS_REDIS else [])
    assert (wire.connections, wire.threads) == (0, 0)


def test_an_enqueue_is_one_commit_and_one_push(works: Works) -> None:
    with works.tap.into(Wire()) as wire:
        workflows.many_steps.enqueue(STEPS)
    # SQLite: BEGIN, run, payload, COMMIT.
    assert (wire.commits, wire.round_trips) == (1, 4 if IS_SQLITE else 1), wire.most_common()
    assert wire.redis == (["RPUSH"] if IS_REDIS else [])
