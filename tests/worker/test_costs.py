"""What a worker asks of the database in a minute in which nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from django_durable.conf import durable_settings
from django_durable.core import clock
from django_durable.core.ids import uuid7
from django_durable.core.registry import limits
from django_durable.models import Run
from django_durable.queues import Queue
from django_durable.queues.current import current_queue
from django_durable.queues.redis import BLOCK_SECONDS
from django_durable.store.database import PrivateDatabase
from django_durable.worker import process as process_module
from django_durable.worker.loops import admit
from django_durable.worker.loops.base import LoopRunner
from django_durable.worker.loops.maintenance import maintenance
from django_durable.worker.process import WorkerOptions, WorkerProcess
from tests.worker.wire import Wire, tapped

pytestmark = pytest.mark.django_db(transaction=True)

IS_REDIS = django_settings.QUEUE == "redis"


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


@pytest.mark.parametrize("kind", ["no limits", "limits", "rates"])
def test_an_idle_minute(travel: Callable[[float], None], monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """At most two statements a second, and fewer with Redis, however many runs sleep and whatever is limited."""
    declared = {
        "no limits": {},
        "limits": {name: bounds for name, bounds in limits().items() if bounds.rate is None},
        "rates": limits(),
    }[kind]
    assert len(declared) > 1 or kind == "no limits"
    for module in (process_module, admit):
        monkeypatch.setattr(module, "limits", lambda: declared)
    fall_asleep(1000)
    with tapped(monkeypatch) as tap:
        process, loops_db = WorkerProcess(uuid4(), WorkerOptions()), PrivateDatabase()
        assert process._register()
        work_for = moved_on(process, loops_db, travel, monkeypatch)
        work_for(30)  # what is done once, at the start
        with tap.into(Wire()) as wire:
            work_for(60)
        process._committer.close()
        for one in (process._claimer._db, process._heartbeat._db, loops_db, process._db):
            one.close()
    assert wire.statements <= (119 if IS_REDIS else 120), wire.most_common()


def moved_on(
    process: WorkerProcess, loops_db: PrivateDatabase, travel: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> Callable[[float], None]:
    """Lets the process work for so many seconds, in which nothing waits but the clock is moved."""
    claimer, heartbeat = process._claimer, process._heartbeat
    runner = LoopRunner(loops_db, maintenance(loops_db, current_queue(), ("default",), lambda word: None), 1000)
    next_beat = clock.monotonic()

    def loops_and_heartbeat() -> None:
        nonlocal next_beat
        runner.run_due()
        if clock.monotonic() >= next_beat:
            next_beat += durable_settings().HEARTBEAT_SECONDS
            heartbeat.beat()

    longest = BLOCK_SECONDS if IS_REDIS else 3600
    monkeypatch.setattr(claimer, "_queue", Hurried(current_queue(), longest, travel, loops_and_heartbeat))

    def work_for(seconds: float) -> None:
        ends = clock.monotonic() + seconds
        while clock.monotonic() < ends:
            assert claimer.tick() == 0

    return work_for


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
