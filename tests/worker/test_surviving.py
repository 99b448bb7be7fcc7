"""No thread of a worker ends by what code of a project raises in it, be it no Exception: the process would live on
without it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

import pytest
from django.db.backends.signals import connection_created
from django.db.utils import OperationalError

from django_durable import AsyncContext, durable_workflow, signals
from django_durable.core import clock
from django_durable.core.ids import uuid7
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed
from django_durable.executor.deadline import Watchdog, _Watch
from django_durable.queues.database import DatabaseQueue
from django_durable.store.database import PrivateDatabase
from django_durable.store.receipts import Receipt
from django_durable.worker.announcer import Announcer
from django_durable.worker.announcing import maintained
from django_durable.worker.background import Background
from django_durable.worker.claimer import Claimer
from django_durable.worker.committer import Committer
from django_durable.worker.heartbeat import Heartbeat
from django_durable.worker.loops.base import LoopRunner
from django_durable.worker.notifier import Notifier
from django_durable.worker.pools import LoopPool, Outcomes
from django_durable.worker.reloading import Watcher
from django_durable.worker.slots import Slots
from django_durable.worker.submission import Submission, answer_all
from tests.hostile.rude import ERRORS
from tests.processes import wait_until
from tests.store.rows import claimant, entries, running, step_entry
from tests.worker.committing.lining_up import awrite
from tests.worker.test_pools import Ends, OwnThread, claims_of

pytestmark = pytest.mark.django_db(transaction=True)

WHAT = ["SystemExit", "KeyboardInterrupt", "no Exception", "CancelledError", "MemoryError"]
Connect = Callable[[], PrivateDatabase]


def fail(what: str) -> NoReturn:
    raise ERRORS[what]()


class Once:
    """Raises when it is first called, and counts."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.calls = 0

    def __call__(self, *_args: Any, **_named: Any) -> None:
        """As a receiver, a tick, a task, whatever is asked for."""
        self.calls += 1
        if self.calls == 1:
            fail(self.what)

    interval = 0.01

    def tick(self) -> int:
        self()
        return 0

    def is_called_again(self) -> bool:
        return self.calls > 1


@pytest.fixture(params=WHAT)
def once(request: pytest.FixtureRequest) -> Once:
    return Once(request.param)


def in_a_thread(do: Callable[..., None], *arguments: Any) -> None:
    thread = threading.Thread(target=do, args=arguments)
    thread.start()
    thread.join()


def test_loops_go_on(once: Once, connect: Connect) -> None:
    runner = LoopRunner(connect(), [once], batch=100)
    runner.begin()
    wait_until(once.is_called_again)
    runner.stop()


@pytest.mark.parametrize("what", WHAT)
def test_loops_go_on_where_a_connection_cannot_be_used(what: str, connect: Connect) -> None:
    """``connection_created`` is sent by Django wherever the engine connects, and lets through what receivers raise."""
    db, refuse = connect(), Once(what)

    class Asks:
        interval = 0.01

        def tick(self) -> int:
            return len(db.rows("SELECT 1"))

    connection_created.connect(refuse)
    runner = LoopRunner(db, [Asks()], batch=100)
    try:
        runner.begin()
        wait_until(lambda: refuse.calls)
        wait_until(lambda: db.connection.connection is not None and runner._back_offs == {})
    finally:
        connection_created.disconnect(refuse)
        runner.stop()


@pytest.mark.parametrize("part", ["loops", "heartbeat", "claimer"])
def test_a_filter_of_the_log_that_asks_the_database_that_is_away(
    part: str, connect: Connect, db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.DURABLE = {**settings.DURABLE, "HEARTBEAT_SECONDS": 0.01}
    calls: list[int] = []

    def away(*_: Any) -> Any:
        calls.append(1)
        raise OperationalError("away")

    class Away:
        interval = 0.01
        tick = staticmethod(away)

    claimer = Claimer(db, DatabaseQueue(), claimant(), Slots(1), 1, lambda claims: None)
    monkeypatch.setattr(claimer, "tick", away)
    parts = {
        "loops": lambda: LoopRunner(connect(), [Away()], batch=100),
        "heartbeat": lambda: Heartbeat(connect(), Slots(1), away),
        "claimer": lambda: claimer,
    }
    one = parts[part]()
    log = logging.getLogger("django_durable.worker")
    log.addFilter(away)
    try:
        one.begin()
        # Of each round one is the filter's.
        wait_until(lambda: len(calls) > 4)
    finally:
        log.removeFilter(away)
        one.stop()


def test_the_heart_beats_on(once: Once, connect: Connect, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "HEARTBEAT_SECONDS": 0.01}
    heartbeat = Heartbeat(connect(), Slots(1), once)
    heartbeat.begin()
    wait_until(once.is_called_again)
    heartbeat.stop()


@pytest.mark.parametrize("kind", [partial(Background, "background"), Announcer], ids=["background", "announcer"])
def test_what_follows_a_commit_goes_on(kind: Callable[[], Background], once: Once) -> None:
    background = kind()
    background.begin()
    background.do(once)
    background.do(once)
    assert background.flush(clock.monotonic() + 10) == 0
    assert once.calls == 2
    background.stop()


def test_hints_go_on(once: Once, connect: Connect) -> None:
    notifier = Notifier(connect(), connect(), None)  # type: ignore[arg-type]
    notifier.begin()
    notifier.do(once)
    notifier.do(once)
    assert notifier.flush(clock.monotonic() + 10) == 0
    assert once.calls == 2
    notifier.stop()


def test_time_outs_go_on(once: Once, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "SHUTDOWN_GRACE_SECONDS": 0.01}
    dog = Watchdog()
    dog.on_stuck = once
    for path in ("one", "other"):
        watch = _Watch(path)
        watch.thread_id = 0  # nobody's: there is nothing to interrupt
        dog.watch(watch, 0.0)
    wait_until(once.is_called_again)


def test_looks_for_changed_code_go_on(once: Once, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_durable.worker.reloading.SECONDS", 0.01)
    watcher = Watcher(once)
    monkeypatch.setattr(watcher, "_look", lambda: {once: once.calls})
    watcher.begin()
    watcher._seen = {}
    wait_until(once.is_called_again)
    watcher._stop.set()
    watcher._thread.join()


def test_claims_go_on(once: Once, db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    claimer = Claimer(db, DatabaseQueue(), claimant(), Slots(1), 1, lambda claims: None)
    monkeypatch.setattr(claimer, "tick", once)
    claimer.begin()
    try:
        wait_until(once.is_called_again)
    finally:
        claimer.stop()


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async-def"])
def test_commits_go_on_where_a_connection_cannot_be_used(is_async: bool, once: Once, connect: Connect) -> None:
    """Who leads the commit fails, and leaves nobody waiting for ever."""
    committer, lease = Committer(connect(), lambda *_: None), running(connect()).lease
    told: list[str] = []

    def write(path: str) -> None:
        one = Write(entries(step_entry(path)))
        try:
            receipt = awrite(committer, lease, one) if is_async else committer.write(lease, one)
            told.append("held" if receipt.is_held else "lost")
        except BaseException as error:
            told.append(type(error).__name__)

    connection_created.connect(once)
    try:
        for path in ("one", "other"):
            in_a_thread(write, path)
    finally:
        connection_created.disconnect(once)
        committer.close()
    assert told == [type(ERRORS[once.what]()).__name__, "held"]


def test_what_follows_a_commit_does_not_undo_it(once: Once, connect: Connect) -> None:
    committer, lease = Committer(connect(), once), running(connect()).lease
    told: list[bool] = []

    def write(path: str) -> None:
        told.append(committer.write(lease, Write(entries(step_entry(path)))).is_held)

    for path in ("one", "other"):
        in_a_thread(write, path)
    committer.close()
    assert told == [True, True]
    assert once.calls == 2


def test_what_is_noted_once_it_is_durable_fails_nobody(once: Once, connect: Connect) -> None:
    committer, lease = Committer(connect(), once), running(connect()).lease
    told: list[str] = []

    def note() -> None:
        committer.noted(lease, Write(), Receipt(is_held=True))
        told.append("noted")

    in_a_thread(note)
    committer.close()
    assert told == ["noted"]


def test_all_are_answered(once: Once, db: PrivateDatabase) -> None:
    told = [Submission(running(db).lease, None, then=once) for _ in range(2)]  # type: ignore[arg-type]
    in_a_thread(answer_all, told)
    assert once.calls == 2


def test_a_receiver_keeps_maintenance_from_nothing(once: Once) -> None:
    signals.run_blocked.connect(once)
    in_a_thread(maintained, [(uuid7(), "nobody.knows", "blocked")] * 2)
    assert once.calls == 2


# --- the event loop --------------------------------------------------------------------------


async def fail_async(what: str) -> None:
    fail(what)


@durable_workflow(name="surviving.tasks")
async def making_tasks(ctx: AsyncContext, what: str) -> str:
    """Of its own, and calls them back too."""
    asyncio.get_running_loop().call_soon(lambda: fail(what))
    with suppress(BaseException):
        await asyncio.create_task(fail_async(what))
    return "done"


@durable_workflow(name="surviving.going_on")
async def going_on(ctx: AsyncContext, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "gone on"


@pytest.mark.parametrize("what", ["SystemExit", "KeyboardInterrupt"])
def test_the_event_loop_goes_on_with_all_that_is_in_it(what: str, db: PrivateDatabase) -> None:
    """What else a task raises stays in it."""
    for seconds in (0.0, 0.2):
        going_on.enqueue(seconds)
    making_tasks.enqueue(what)
    ends = Ends()
    pool = LoopPool(Outcomes(OwnThread(db), lambda claim: None, ends))
    pool.start([*claims_of(db, going_on), *claims_of(db, making_tasks)])
    assert sorted(ends.wait_for(3), key=repr) == [Completed('"done"'), *2 * [Completed('"gone on"')]]
    pool.close()
    assert not pool._thread.is_alive()
