"""What a run costs, in exact numbers: counted on every connection and in every thread of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from django_durable.client.handle import RunHandle
from django_durable.conf import durable_settings
from django_durable.queues.current import let_go
from django_durable.store import database as database_module
from django_durable.worker import process as process_module
from django_durable.worker.process import WorkerOptions, WorkerProcess
from tests.app import faults, workflows
from tests.processes import wait_until
from tests.worker.wire import Tap, Wire, tapped

pytestmark = pytest.mark.django_db(transaction=True)

IS_SQLITE = django_settings.BACKEND == "sqlite"
IS_REDIS = django_settings.QUEUE == "redis"
POP = "BLPOP EVALSHA"
STEPS = 10
COMPANY = 16
"""Runs that are in flight together."""
WARM = 3
"""Runs before the one that is counted: threads are started, connections opened, statements prepared."""

Run = RunHandle[Any]
Start, Go = Callable[[], Run | list[Run]], Callable[[Run], object]


@pytest.fixture(autouse=True)
def _lasting_hints(patient: None) -> Iterator[None]:
    """Who has given Redis up claims by a look at the database."""
    # Connections keep the patience that they were made with.
    let_go()
    yield
    let_go()


class Works:
    """A worker process without its own threads for claiming, heartbeats and loops: it claims when it is told to."""

    def __init__(self, process: WorkerProcess, tap: Tap) -> None:
        self._process = process
        self.tap = tap
        self._in_vain: list[str] = []
        """What a leader waited for that did not come. It goes on all the same: nobody else would lead."""

    def off(self, start: Start, *between: Go) -> Wire:
        """What the process does for one run, or for several in company; the work of the outside (its start, and
        ``between`` two attempts) is not counted."""
        warming = [self.once(start, *between) for _ in range(WARM)]
        wire = self.once(start, *between)
        # Each statement that is counted was prepared before, or none: one that is not costs a single round trip too.
        to_prepare = set(wire.sent) if durable_settings().PREPARED_STATEMENTS else ()
        assert sum(one.prepares for one in warming) == len(to_prepare)
        return wire

    def once(self, start: Start, *between: Go) -> Wire:
        """The same, whether the process has done it before or not."""
        started, wire = start(), Wire()
        runs = started if isinstance(started, list) else [started]
        for go_on in (None, *between):
            if go_on is not None:
                for run in runs:
                    go_on(run)
            with self.tap.into(wire):
                self._attempt(len(runs))
        assert {run.refresh().status for run in runs} == {"succeeded"}
        assert self._in_vain == []
        return wire

    def _attempt(self, count: int) -> None:
        # Where there are hints it claims by them: no sweep is due.
        self._process._claimer._next_look = inf if IS_REDIS else 0.0
        assert self._process._claimer.tick() == count
        wait_until(lambda: self._process._slots.used == 0 and self._process._aftermath.is_idle)

    def gather(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on whoever leads a commit waits until all runs in flight are in line: who is first is chance, what
        goes into one commit is not.

        Of those in flight, not of a number: where the worker commits one by one it goes on, and the count tells.
        """
        committer, slots = self._process._committer, self._process._slots
        take = committer._take

        def take_all() -> Any:
            try:
                wait_until(lambda: len(committer._waiting) >= slots.used, message="all runs in line")
            except AssertionError as error:
                self._in_vain.append(str(error))
            return take()

        monkeypatch.setattr(committer, "_take", take_all)


@contextmanager
def working(monkeypatch: pytest.MonkeyPatch, concurrency: int) -> Iterator[Works]:
    monkeypatch.setattr(process_module, "limits", dict)
    with tapped(monkeypatch) as tap:
        process = WorkerProcess(uuid4(), WorkerOptions(concurrency=concurrency))
        assert process._register()
        process._aftermath.begin()
        try:
            yield Works(process, tap)
        finally:
            process._threads.close()
            if process._loop is not None:
                process._loop.close()
            process._aftermath.stop()
            process._committer.close()
            process._claimer._db.close()
            process._db.close()


@pytest.fixture
def works(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Works]:
    is_prepared = getattr(request, "param", False)
    if is_prepared:
        # Stopped: after a second statements would be prepared again, in the midst of what is counted.
        monkeypatch.setattr(database_module, "clock", SimpleNamespace(monotonic=lambda: 0.0))
    durable = {**django_settings.DURABLE, "PREPARED_STATEMENTS": is_prepared}
    with override_settings(DURABLE=durable), working(monkeypatch, 1) as works:
        yield works


@pytest.fixture
def company(monkeypatch: pytest.MonkeyPatch) -> Iterator[Works]:
    """A process with as many slots as there are runs, whose commits wait for all of them."""
    with working(monkeypatch, COMPANY) as works:
        works.gather(monkeypatch)
        # Each waits for its step in a thread: from now on there are as many as there can be.
        works.once(lambda: workflows.many_steps.enqueue_many([{"count": 1}] * COMPANY))
        yield works


def together(sorts: Sequence[Any], **inputs: Any) -> Start:
    """Starts a company, of each sort as many."""
    share = COMPANY // len(sorts)
    return lambda: [run for workflow in sorts for run in workflow.enqueue_many([inputs] * share)]


prepared_or_not = pytest.mark.parametrize(
    "works",
    [False] if IS_SQLITE else [False, True],
    indirect=True,
    ids=["plain"] if IS_SQLITE else ["plain", "prepared"],
)


@prepared_or_not
@pytest.mark.parametrize("workflow", [workflows.many_steps, workflows.many_steps_async], ids=["def", "async def"])
def test_a_step_is_one_commit_without_a_new_connection_or_thread(works: Works, workflow: Any) -> None:
    wire = works.off(lambda: workflow.enqueue(STEPS))
    # The claim, the steps, the outcome.
    assert wire.commits == 1 + STEPS + 1, wire.most_common()
    # SQLite: BEGIN, fence, rows, COMMIT; one more for the outcome, which has a payload.
    assert wire.round_trips == (1 + 4 * STEPS + 5 if IS_SQLITE else 1 + STEPS + 1), wire.most_common()
    assert wire.redis == ([POP] if IS_REDIS else [])
    assert (wire.connections, wire.threads) == (0, 0)


@prepared_or_not
@pytest.mark.parametrize("history", [0, 3])
def test_a_turn_of_a_loop_costs_what_its_step_costs(works: Works, history: int) -> None:
    """Its state goes with the step of the next one, and so does what is over and leaves the journal."""
    wire = works.off(lambda: workflows.many_turns.enqueue(STEPS, history))
    # The claim, the steps, the loop's end with the outcome.
    assert wire.commits == 1 + STEPS + 1, wire.most_common()
    # SQLite: BEGIN, fence, rows, COMMIT, and at the end payload and run; one more for what is deleted, by each commit
    # once there is something.
    deleting = STEPS - history
    assert wire.round_trips == (1 + 4 * STEPS + 6 + deleting if IS_SQLITE else 1 + STEPS + 1), wire.most_common()
    assert wire.redis == ([POP] if IS_REDIS else [])
    assert (wire.connections, wire.threads) == (0, 0)


@prepared_or_not
@pytest.mark.parametrize(
    ("workflow", "threads"), [(workflows.one_step, 0), (workflows.one_step_async, 1)], ids=["def", "async def"]
)
def test_a_last_step_shares_the_commit_of_the_outcome(works: Works, workflow: Any, threads: int) -> None:
    wire = works.off(workflow.enqueue)
    # The claim; the step and the outcome. SQLite: BEGIN, fence, entry, payload, run, COMMIT.
    assert wire.commits == 2, wire.most_common()
    assert wire.round_trips == (1 + 6 if IS_SQLITE else 2), wire.most_common()
    assert wire.redis == ([POP] if IS_REDIS else [])
    # An async run has a thread of its own for what is not: here for its step.
    assert (wire.connections, wire.threads) == (0, threads)


@pytest.mark.parametrize(
    "sorts",
    [[workflows.many_steps], [workflows.many_steps_async], [workflows.many_steps, workflows.many_steps_async]],
    ids=["def", "async def", "both"],
)
def test_the_steps_of_runs_in_company_cost_what_those_of_one_run_cost(company: Works, sorts: Sequence[Any]) -> None:
    wire = company.off(together(sorts, count=STEPS))
    # As for one: all are claimed together, and each turn of steps is one commit, and so are the outcomes.
    assert wire.commits == 1 + STEPS + 1, wire.most_common()
    assert wire.round_trips == (1 + 4 * STEPS + 5 if IS_SQLITE else 1 + STEPS + 1), wire.most_common()
    assert wire.redis == ([POP] if IS_REDIS else [])
    assert (wire.connections, wire.threads) == (0, 0)


@pytest.mark.parametrize(
    ("sorts", "threads"),
    [
        ([workflows.one_step], 0),
        ([workflows.one_step_async], COMPANY),
        ([workflows.one_step, workflows.one_step_async], COMPANY // 2),
    ],
    ids=["def", "async def", "both"],
)
def test_the_last_steps_of_runs_in_company_share_one_commit(company: Works, sorts: Sequence[Any], threads: int) -> None:
    wire = company.off(together(sorts))
    # As for one: the claim of all, and all the steps with all the outcomes.
    assert wire.commits == 2, wire.most_common()
    assert wire.round_trips == (1 + 6 if IS_SQLITE else 2), wire.most_common()
    assert wire.redis == ([POP] if IS_REDIS else [])
    # One for each async run, as when it is alone.
    assert (wire.connections, wire.threads) == (0, threads)


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
    assert wire.redis == ([POP] * 2 if IS_REDIS else [])
    assert (wire.connections, wire.threads) == (0, 0)


def test_an_enqueue_is_one_commit_and_one_push(works: Works) -> None:
    with works.tap.into(Wire()) as wire:
        workflows.many_steps.enqueue(STEPS)
    # SQLite: BEGIN, run, payload, COMMIT.
    assert (wire.commits, wire.round_trips) == (1, 4 if IS_SQLITE else 1), wire.most_common()
    assert wire.redis == (["RPUSH"] if IS_REDIS else [])


def test_an_enqueue_of_many_costs_what_one_costs(works: Works) -> None:
    with works.tap.into(Wire()) as wire:
        runs = workflows.many_steps.enqueue_many({"count": STEPS} for _ in range(500))
    assert len(runs) == 500
    # SQLite: BEGIN, runs, payloads, COMMIT.
    assert (wire.commits, wire.round_trips) == (1, 4 if IS_SQLITE else 1), wire.most_common()
    assert wire.redis == (["RPUSH"] if IS_REDIS else [])
