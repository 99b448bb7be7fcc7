"""What a worker asks of the database: for a run of ten steps exactly, and for a minute in which nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings as django_settings

from django_durable.core import clock
from django_durable.executor.sync_attempt import run_attempt
from django_durable.queues import Queue, Ready
from django_durable.queues.current import current_queue
from django_durable.store.claiming import Claim
from django_durable.store.database import Database, PrivateDatabase
from django_durable.worker.claimer import Claimer
from django_durable.worker.committer import Committer
from django_durable.worker.loops.base import LoopRunner
from django_durable.worker.process import WorkerOptions, WorkerProcess
from django_durable.worker.slots import Slots
from django_durable.workflows.registry import get_workflow
from tests.app import workflows
from tests.store.rows import claimant, make_run

pytestmark = pytest.mark.django_db(transaction=True)

IS_SQLITE = django_settings.BACKEND == "sqlite"
STEPS = 10


class Statements:
    """Every statement that goes over these connections."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        self.sent.append(sql)
        return execute(sql, params, many, context)

    @contextmanager
    def counted(self, *databases: Database) -> Iterator[None]:
        with ExitStack() as stack:
            for one in databases:
                stack.enter_context(one.connection.execute_wrapper(self))
            yield

    @property
    def commits(self) -> int:
        """Transactions that wrote: each statement outside of one is one of its own."""
        count, is_open = 0, False
        for sql in self.sent:
            is_open = (is_open or sql.startswith("BEGIN")) and sql != "COMMIT"
            count += not is_open
        return count


@contextmanager
def parts(start: Callable[[Sequence[Claim], Committer], None]) -> Iterator[tuple[Claimer, list[PrivateDatabase]]]:
    """A claimer with one slot, and a committer, each on its own connection as in a worker process."""
    databases = [PrivateDatabase(), PrivateDatabase()]
    committer = Committer(databases[1], lambda *_: None)
    who = claimant("app.many_steps")
    claimer = Claimer(databases[0], current_queue(), who, Slots(1), 1, lambda claims: start(claims, committer))
    yield claimer, databases
    committer.close()
    databases[0].close()


def work(claims: Sequence[Claim], committer: Committer) -> None:
    for claim in claims:
        run_attempt(claim, get_workflow(claim.workflow), committer)


def test_a_run_of_ten_steps() -> None:
    run, statements = workflows.many_steps.enqueue(STEPS), Statements()
    with parts(work) as (claimer, databases):
        for one in databases:
            one.rows("SELECT 1")
        with statements.counted(*databases):
            assert claimer.tick() == 1
    assert run.result() == 2 * sum(range(STEPS))
    # The claim, the steps, the outcome.
    assert statements.commits == 1 + STEPS + 1
    # SQLite: BEGIN, fence, rows, COMMIT for a step; one more for the outcome, which has a payload.
    assert len(statements.sent) == (1 + 4 * STEPS + 5 if IS_SQLITE else 1 + STEPS + 1)


class Hurried:
    """A queue in which time passes without being waited for."""

    def __init__(self, queue: Queue, travel: Callable[[float], None]) -> None:
        self._queue = queue
        self._travel = travel
        self.gives_hints = queue.gives_hints

    def push(self, runs: Sequence[Ready]) -> None:
        self._queue.push(runs)

    def pop(self, queues: Sequence[str], limit: int, timeout: float) -> list[UUID]:
        self._travel(min(max(timeout, 0.01), 0.1))
        return []

    def length(self, queue: str) -> int:
        return self._queue.length(queue)

    def close(self) -> None:
        self._queue.close()


def test_an_idle_minute(travel: Callable[[float], None], monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(50):
        make_run("waiting")
    queue, statements = Hurried(current_queue(), travel), Statements()
    process = WorkerProcess(uuid4(), WorkerOptions())
    assert process._register()
    loops_db = PrivateDatabase()
    runner = LoopRunner(loops_db, process._make_loops(loops_db), 1000)
    claimer, heartbeat = process._claimer, process._heartbeat
    monkeypatch.setattr(claimer, "_queue", queue)
    next_beat = clock.monotonic()

    def until(ends: float) -> None:
        nonlocal next_beat
        while clock.monotonic() < ends:
            assert claimer.tick() == 0
            runner.run_due()
            if clock.monotonic() >= next_beat:
                heartbeat.beat()
                next_beat = clock.monotonic() + 10

    until(clock.monotonic() + 30)  # what is done once at the start
    with statements.counted(claimer._db, heartbeat._db, loops_db, Database()):
        until(clock.monotonic() + 60)
    process._committer.close()
    runner.stop()
    for one in (claimer._db, heartbeat._db, process._db):
        one.close()
    from collections import Counter
    for sql, n in Counter(" ".join(s.split())[:150] for s in statements.sent).most_common():
        print(n, sql)
    assert 60 < len(statements.sent) <= 2 * 60
