"""What a supervisor makes of its children: when they come back, and when it starts others. None is started."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from django_durable.store.database import PrivateDatabase
from django_durable.worker import process as process_module
from django_durable.worker import supervisor as module
from django_durable.worker.child import DONE, DONE_BUSY, DONE_GAVE_UP, DRAINED, GAVE_UP, STILL_BUSY, _status
from django_durable.worker.process import IDLE_LOOK_SECONDS, WorkerOptions, WorkerProcess
from django_durable.worker.spawning import CHILD_ENV, Child, executing, spawn
from django_durable.worker.supervisor import FEWEST_ISOLATED, QUICK_DEATH_SECONDS, Supervisor
from tests.acceptance.traces import new_gate, wait_for_trace
from tests.app import faults
from tests.processes import Worker, is_alive, wait_until
from tests.worker.children import KILLED, Fake, dead, held_by, spawning

pytestmark = pytest.mark.django_db(transaction=True)

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
"""Does not listen to its orders."""


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    supervisor = Supervisor(["never started"], 1)
    yield supervisor
    supervisor._db.close()


def pauses(supervisor: Supervisor, *children: Child) -> list[float]:
    return [supervisor._pause(child) for child in children]


def test_a_child_that_dies_at_its_start_comes_back_more_and_more_slowly(supervisor: Supervisor) -> None:
    assert pauses(supervisor, *(dead() for _ in range(7))) == [0, 1, 3, 7, 15, 30, 30]


def test_a_child_that_has_lived_comes_back_at_once(supervisor: Supervisor) -> None:
    lived = dead(age=QUICK_DEATH_SECONDS + 1)
    assert pauses(supervisor, dead(), dead(), lived, dead()) == [0, 1, 0, 0]


def test_every_place_has_its_own_count(supervisor: Supervisor) -> None:
    assert pauses(supervisor, dead(), dead(), dead(place=1), dead()) == [0, 1, 0, 3]


def test_a_child_that_was_replaced_on_purpose_comes_back_at_once(supervisor: Supervisor) -> None:
    assert pauses(supervisor, dead(), dead(), dead(STILL_BUSY, is_draining=True)) == [0, 1, 0]


# --- who comes back ----------------------------------------------------------------------------


def bury(supervisor: Supervisor, returncode: int, *, is_ordered: bool = False) -> bool:
    """Whether one that ended so is to be started again."""
    child = Fake(supervisor, 0).child
    if is_ordered:
        child.drain()
    cast(Any, child.process).returncode = returncode
    supervisor._children, supervisor._start_at = [child], {}
    supervisor._bury()
    return 0 in supervisor._start_at


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("returncode", [DONE, DONE_BUSY, DONE_GAVE_UP])
def test_a_child_whose_options_ended_it_does_not_come_back(
    returncode: int, is_ordered: bool, supervisor: Supervisor
) -> None:
    assert not bury(supervisor, returncode, is_ordered=is_ordered)


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("returncode", [DRAINED, STILL_BUSY, GAVE_UP, KILLED, 0, 1])
def test_a_child_that_ended_otherwise_comes_back(returncode: int, is_ordered: bool, supervisor: Supervisor) -> None:
    assert bury(supervisor, returncode, is_ordered=is_ordered)


@pytest.mark.parametrize("returncode", [DRAINED, STILL_BUSY, KILLED])
def test_nobody_comes_back_once_the_supervisor_stops(returncode: int, supervisor: Supervisor) -> None:
    supervisor._on_signal(signal.SIGTERM, None)
    supervisor._heed_signals()
    assert not bury(supervisor, returncode)


@pytest.mark.parametrize(
    ("is_done", "is_empty", "gave_up", "status"),
    [
        (True, True, False, DONE),
        (True, False, False, DONE_BUSY),
        (True, False, True, DONE_GAVE_UP),
        (False, True, False, DRAINED),
        (False, False, False, STILL_BUSY),
        (False, False, True, GAVE_UP),
    ],
)
def test_a_child_tells_why_it_ends(is_done: bool, is_empty: bool, gave_up: bool, status: int) -> None:
    process = cast(Any, SimpleNamespace(is_done=is_done, gave_up=gave_up))
    assert _status(process, is_empty) == status


@pytest.mark.parametrize(
    "options",
    [WorkerOptions(max_seconds=0), WorkerOptions(max_runs=0), WorkerOptions(burst=True), WorkerOptions(isolated=True)],
    ids=["max-seconds", "max-runs", "burst", "isolated"],
)
def test_a_process_that_its_options_end_is_done(options: WorkerOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerProcess, "_is_idle", lambda process: True)
    # An isolated one stays for a while, since others may be suspected soon.
    monkeypatch.setattr(process_module, "LINGER_SECONDS", 2 * IDLE_LOOK_SECONDS)
    process = WorkerProcess(uuid4(), options)
    process._work()
    process.drain()
    assert process.is_done


def test_a_process_that_is_told_to_drain_is_not_done() -> None:
    process = WorkerProcess(uuid4(), WorkerOptions(max_seconds=0))
    process.drain()
    process._work()
    assert not process.is_done


def test_only_the_first_of_its_processes_runs_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []

    def started(command: list[str], *, env: dict[str, str], pass_fds: tuple[int, ...]) -> None:
        told.append(json.loads(env[CHILD_ENV]))

    monkeypatch.setattr(subprocess, "Popen", started)
    supervisor = Supervisor(["never started"], 3)
    supervisor._suspects = 1
    supervisor._start_due()
    assert [(one["loops"], one["isolated"]) for one in told] == [
        (True, False),
        (False, False),
        (False, False),
        (False, True),
    ]
    for child in supervisor._children:
        child.close()


@pytest.mark.parametrize(
    ("processes", "words", "started"),
    [
        (1, b"suspects 1\n", 1),
        (1, b"suspects 8\n", 1),
        (1, b"suspects 99\n", 2),
        (4, b"suspects 99\n", 4),
        (4, b"suspects 1\nsuspects 20\n", 3),
        (4, b"suspects \n", 0),
    ],
)
@pytest.mark.usefixtures("transactional_db")
def test_many_suspects_get_several_processes(processes: int, words: bytes, started: int) -> None:
    """Found by chaos, seeds 17 to 25: all of them waited in one line for one process."""
    supervisor = Supervisor(["never started"], processes)
    supervisor._start_at.clear()
    reports, told = os.pipe()
    supervisor._selector.register(reports, selectors.EVENT_READ)
    os.write(told, words)
    supervisor._listen()
    spawned = spawning(supervisor, lambda fake: None)
    supervisor._start_due()
    assert [fake.child.place for fake in spawned] == [None] * started
    supervisor._suspects = 16
    supervisor._start_due()
    assert len(spawned) == max(started, 2), "as many as are wanted, with those that are there"
    supervisor._db.close()
    for end in (reports, told):
        os.close(end)


@pytest.mark.parametrize(
    ("processes", "is_busy", "is_draining", "started"),
    [(1, False, False, 0), (1, True, False, 1), (1, False, True, 1), (3, True, False, 1)],
)
def test_suspects_do_not_wait_for_a_process_that_has_its_hands_full_or_drains(
    supervisor: Supervisor, db: PrivateDatabase, processes: int, is_busy: bool, is_draining: bool, started: int
) -> None:
    supervisor._start_at.clear()
    supervisor._most_isolated = max(processes, FEWEST_ISOLATED)
    there = dead(place=None, is_draining=is_draining)
    supervisor._children.append(there)
    if is_busy:
        held_by(db, there)
    spawned = spawning(supervisor, lambda fake: None)
    supervisor._suspects = 3
    supervisor._start_due()
    assert len(spawned) == started


def test_no_more_processes_are_isolated_than_there_may_be(supervisor: Supervisor, db: PrivateDatabase) -> None:
    supervisor._start_at.clear()
    for _ in range(FEWEST_ISOLATED):
        there = dead(place=None)
        supervisor._children.append(there)
        held_by(db, there)
    spawned = spawning(supervisor, lambda fake: None)
    supervisor._suspects = 50
    supervisor._start_due()
    assert spawned == []


# --- signals -----------------------------------------------------------------------------------


@pytest.fixture
def own_signals() -> Iterator[None]:
    """The test's process is the supervisor's: its handlers go back, and a supervisor that hangs is ended."""

    def hangs(number: int, frame: Any) -> None:
        raise TimeoutError("the supervisor hangs")

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGALRM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def terminate(*_: Any) -> None:
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize("processes", [1, 3])
def test_a_signal_during_a_spawn_drains_that_child_and_no_other_is_spawned(
    processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = Supervisor(["never started"], processes)
    spawned = spawning(supervisor, terminate)
    vain, select = [], supervisor._selector.select

    def noted(wait: float) -> Any:
        found = select(wait)
        vain.extend([wait] if wait and not found else [])
        return found

    monkeypatch.setattr(supervisor._selector, "select", noted)
    supervisor.run()
    assert [fake.returncode for fake in spawned] == [DRAINED]
    assert vain == [], "the drain waited for the end of a select"


@pytest.mark.usefixtures("own_signals")
def test_a_signal_during_the_spawn_of_the_isolated_child_drains_it_and_the_others() -> None:
    supervisor = Supervisor(["never started"], 1)
    supervisor._suspects = 1
    spawned = spawning(supervisor, lambda fake: terminate() if fake.child.place is None else None)
    supervisor.run()
    assert [(fake.child.place, fake.returncode) for fake in spawned] == [(0, DRAINED), (None, DRAINED)]


@pytest.mark.usefixtures("own_signals")
def test_a_signal_before_the_first_spawn_leaves_nobody_to_start() -> None:
    """It comes between the look at who is due and the start."""

    class Interrupted(dict[int | None, float]):
        def items(self) -> Any:
            due = list(super().items())
            terminate()
            return due

    supervisor = Supervisor(["never started"], 2)
    supervisor._start_at = Interrupted(supervisor._start_at)
    supervisor._suspects = 1
    spawned = spawning(supervisor, lambda fake: None)
    supervisor.run()
    assert spawned == []


def test_a_signal_during_a_drain_closes_no_pipe_twice(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second close might hit a descriptor that is somebody else's by then."""
    closed: list[int] = []
    asked: list[str] = []

    class Interrupted(Child):
        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name == "is_draining" and not asked:
                asked.append(name)
                supervisor._on_signal(signal.SIGTERM, None)
            return value

    supervisor._children = [Interrupted(uuid4(), cast(Any, None), 12345, -1, 0, 0.0)]
    monkeypatch.setattr(os, "close", closed.append)
    supervisor._restart_all()
    supervisor._heed_signals()
    monkeypatch.undo()
    assert closed == [12345]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit status with which the supervisor would have ended at once."""
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    return statuses


def test_a_second_signal_kills_and_ends_at_once(supervisor: Supervisor, ended: list[int]) -> None:
    fake = Fake(supervisor, 0)
    supervisor._children = [fake.child]
    supervisor._on_signal(signal.SIGTERM, None)
    assert (ended, fake.poll()) == ([], None)
    supervisor._on_signal(signal.SIGINT, None)
    assert (ended, fake.returncode) == ([128 + signal.SIGINT], KILLED)


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize("processes", [1, 3])
def test_a_second_signal_during_a_spawn_kills_that_child_and_ends_at_once(processes: int, ended: list[int]) -> None:
    """Left alone it would see that its supervisor has gone, and take its time to drain."""
    supervisor = Supervisor(["never started"], processes)
    spawned = spawning(supervisor, lambda fake: (terminate(), terminate()))
    supervisor.run()
    assert [fake.returncode for fake in spawned] == [KILLED]
    assert ended == [128 + signal.SIGTERM]


@pytest.mark.usefixtures("own_signals")
def test_a_second_signal_during_a_real_spawn_leaves_no_process(
    ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    class Interrupted(subprocess.Popen[bytes]):
        """The process is there, and who starts it does not know yet."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            pids.append(self.pid)
            terminate()
            terminate()

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    Supervisor(SLEEPER, 1).run()
    assert ended == [128 + signal.SIGTERM]
    assert not is_alive(pids[0])


@pytest.mark.usefixtures("own_signals")
def test_a_second_signal_that_interrupts_a_look_at_a_child_does_not_wait_for_that(
    supervisor: Supervisor, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEATH_SECONDS", 0.05)
    child = spawn(executing(SLEEPER), 0)
    supervisor._children = [child]
    with cast(Any, child.process)._waitpid_lock:
        supervisor._on_signal(signal.SIGTERM, None)
        supervisor._on_signal(signal.SIGTERM, None)
    assert ended == [128 + signal.SIGTERM]
    assert cast(Any, child.process).wait(60) == KILLED
    child.close()


def test_a_second_signal_that_interrupts_a_line_of_the_log_ends_at_once_as_well(
    supervisor: Supervisor, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise RuntimeError("reentrant call inside a stream")

    monkeypatch.setattr(module.logger, "warning", refuse)
    fake = Fake(supervisor, 0)
    supervisor._children = [fake.child]
    supervisor._on_signal(signal.SIGTERM, None)
    with pytest.raises(RuntimeError, match="reentrant"):
        supervisor._on_signal(signal.SIGTERM, None)
    assert (ended, fake.returncode) == ([128 + signal.SIGTERM], KILLED)


# --- with processes ----------------------------------------------------------------------------


def test_a_child_that_outlives_the_grace_after_max_seconds_is_not_replaced() -> None:
    run = faults.held_inside.enqueue(new_gate())
    # Time to come to its second step; and no lease lapses while it is slow.
    worker = Worker("--max-seconds", "5", durable={"SHUTDOWN_GRACE_SECONDS": 0.5, "LEASE_SECONDS": 300})
    wait_for_trace(run.id, "second")
    assert worker.wait() == 0
    assert worker.starts == 1
    row = run.refresh().run
    assert (row.status, row.lease_token, row.crashes) == ("queued", None, 0)


def test_a_child_that_gets_the_signal_itself_is_replaced() -> None:
    worker = Worker()
    worker.wait_for_start()
    os.kill(worker.children()[0], signal.SIGTERM)
    wait_until(lambda: worker.starts == 2, message="the next child")
    assert worker.stop() == 0
