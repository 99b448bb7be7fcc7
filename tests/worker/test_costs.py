"""What a worker asks of the database: for a run of ten steps exactly, and for a minute in which nothing happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from django_durable.conf import durable_settings
from django_durable.core import clock
from django_durable.core.ids import uuid7
from django_durable.core.registry import limits
from django_durable.executor.sync_attempt import run_attempt
from django_durable.models import Run
from django_durable.queues import Queue
from django_durable.queues.current import current_queue
from django_durable.queues.redis import BLOCK_SECONDS
from django_durable.store.claiming import Claim
from django_durable.store.database import Database, PrivateDatabase
from django_durable.worker import process as process_module
from django_durable.worker.claimer import Claimer
from django_durable.worker.committer import Committer
from django_durable.worker.loops import admit
from django_durable.worker.loops.base import LoopRunner
from django_durable.worker.loops.maintenance import maintenance
from django_durable.worker.process import WorkerOptions, WorkerProcess
from django_durable.worker.slots import Slots
from django_durable.workflows.registry import get_workflow
from tests.app import workflows
from tests.store.rows import claimant

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
    """A queue at which a claimer waits without time passing: the rest of the process goes on meanwhile."""

    def __init__(self, queue: Queue, longest: float, travel: Callable[[float], None], meanwhile: Callable[[], None]):
        self._queue = queue
        self._longest = longest
        self._travel = travel
        self._meanwhile = meanwhile
        self.gives_hints = queue.gives_hints

    def pop(self, queues: Sequence[str], limit: int, timeout: float) -> list[UUID]:
        ends = clock.monotonic() + min(timeout, self._longest)
        while (left := ends - clock.monotonic()) > 0:
            self._travel(min(left, 0.1) + 0.0001)
            self._meanwhile()
        return []

    def length(self, queue: str) -> int:
        return self._queue.length(queue)


@pytest.mark.parametrize("has_limits", [False, True], ids=["no limits", "limits"])
def test_an_idle_minute(travel: Callable[[float], None], monkeypatch: pytest.MonkeyPatch, *, has_limits: bool) -> None:
    """At most two statements a second, however many runs sleep; with limits one more for each look."""
    assert limits()
    if not has_limits:
        for module in (process_module, admit):
            monkeypatch.setattr(module, "limits", dict)
    fall_asleep(1000)
    statements, loops_db = Statements(), PrivateDatabase()
    process = WorkerProcess(uuid4(), WorkerOptions())
    assert process._register()
    claimer, heartbeat = process._claimer, process._heartbeat
    runner = LoopRunner(loops_db, maintenance(loops_db, current_queue(), ("default",), lambda word: None), 1000)
    next_beat = clock.monotonic()

    def loops_and_heartbeat() -> None:
        nonlocal next_beat
        runner.run_due()
        if clock.monotonic() >= next_beat:
            next_beat += durable_settings().HEARTBEAT_SECONDS
            heartbeat.beat()

    longest = BLOCK_SECONDS if django_settings.QUEUE == "redis" else 3600
    monkeypatch.setattr(claimer, "_queue", Hurried(current_queue(), longest, travel, loops_and_heartbeat))

    def work_for(seconds: float) -> None:
        ends = clock.monotonic() + seconds
        while clock.monotonic() < ends:
            assert claimer.tick() == 0

    work_for(30)  # what is done once, at the start
    with statements.counted(claimer._db, heartbeat._db, loops_db, Database()):
        work_for(60)
    most, more = (110, 30) if django_settings.QUEUE == "redis" else (120, 66)
    assert len(statements.sent) <= most + more * has_limits, Counter(statements.sent).most_common()
    process._committer.close()
    for one in (claimer._db, heartbeat._db, loops_db, process._db):
        one.close()


def fall_asleep(count: int) -> None:
    now = timezone.now()
    columns = {
        "workflow": "app.sleepy",
        "queue": "default",
        "status": "waiting",
        "waiting_on": "sleep:nap",
        "claims": 1,
    }
    times = {"wake_at": now + timedelta(hours=1), "queued_at": now, "started_at": now}
    ids = [uuid7() for _ in range(count)]
    Run.objects.bulk_create(Run(id=run_id, root_id=run_id, **columns, **times) for run_id in ids)
