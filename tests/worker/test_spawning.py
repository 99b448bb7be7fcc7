"""Children that cannot be started: nothing is left of them, the others go on, and they are tried again."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

import psutil
import pytest

from django_durable.worker import spawning as module
from django_durable.worker.child import DRAINED
from django_durable.worker.spawning import Child, executing, spawn
from django_durable.worker.supervisor import LONGEST_RESTART_PAUSE, Supervisor
from tests.processes import PATIENCE, is_alive
from tests.worker.test_supervisor import SLEEPER, Fake, own_signals, terminate  # noqa: F401  (one is a fixture)

pytestmark = pytest.mark.django_db(transaction=True)

MISSING = ["/no/such/python"]
"""As when a deploy has removed the virtual environment that the supervisor was started from."""


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    supervisor = Supervisor(MISSING, 2)
    yield supervisor
    supervisor._db.close()


@pytest.fixture
def no_descriptor_left() -> Iterator[None]:
    # A supervisor of an earlier test is part of a cycle: with it something would be closed in the middle of this one.
    gc.collect()
    before = psutil.Process().num_fds()
    yield
    assert psutil.Process().num_fds() == before


def refuse(*_: object, **__: object) -> NoReturn:
    raise BlockingIOError(errno.EAGAIN, "too many processes")


def refusing(supervisor: Supervisor, then: Callable[[int], object] = lambda count: None) -> list[int | None]:
    """The places at which a child was tried in vain; ``then`` happens after each, with how many these are."""
    tried: list[int | None] = []

    def spawn(place: int | None, *, is_standby: bool) -> Child:
        tried.append(place)
        then(len(tried))
        refuse()

    cast(Any, supervisor)._spawn = spawn
    return tried


@pytest.mark.usefixtures("no_descriptor_left")
def test_nothing_is_left_of_a_child_whose_program_is_gone() -> None:
    with pytest.raises(FileNotFoundError):
        spawn(executing(MISSING), 0)


def test_ctrl_c_waits_until_a_child_can_obey() -> None:
    """And who starts it is hit by it as before."""
    says = "import signal, sys; sys.exit(7 if signal.SIGINT in signal.pthread_sigmask(0, []) else 8)"
    child = spawn(executing([sys.executable, "-c", says]), 0)
    try:
        assert cast(Any, child.process).wait(PATIENCE) == 7
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        child.close()


@pytest.mark.usefixtures("no_descriptor_left")
def test_nothing_is_left_where_there_are_descriptors_for_one_pipe_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, pipes = os.pipe, list[tuple[int, int]]()

    def once() -> tuple[int, int]:
        if pipes:
            raise OSError(errno.EMFILE, "Too many open files")
        pipes.append(pipe())
        return pipes[0]

    monkeypatch.setattr(module.os, "pipe", once)
    with pytest.raises(OSError, match="Too many"):
        spawn(executing(SLEEPER), 0)


def test_a_child_whose_reports_cannot_be_heard_is_none(
    supervisor: Supervisor, no_descriptor_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be in no list, and its order to drain would never come."""
    pids: list[int] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            pids.append(self.pid)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setattr(supervisor._selector, "register", refuse)
    supervisor._execute = executing(SLEEPER)
    supervisor._start(0)
    assert supervisor._children == []
    assert [is_alive(pid) for pid in pids] == [False]


@pytest.mark.usefixtures("own_signals")
def test_the_others_go_on_where_one_cannot_be_started(supervisor: Supervisor) -> None:
    there = Fake(supervisor, 0)
    supervisor._children, supervisor._start_at = [there.child], {1: 0.0}
    tried = refusing(supervisor, lambda count: count == 2 and terminate())
    supervisor.run()
    assert tried == [1, 1]
    assert there.returncode == DRAINED


@pytest.mark.usefixtures("own_signals")
def test_a_supervisor_that_can_start_nobody_goes_on_trying_until_it_is_told_to_stop(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    tried = refusing(supervisor, lambda count: count == 3 and terminate())
    with caplog.at_level(logging.INFO, "django_durable"):
        supervisor.run()
    assert tried == [0, 1, 0]
    assert caplog.messages == [
        f"could not start a worker process, trying again: [Errno {errno.EAGAIN}] too many processes",
        "draining: SIGTERM",
    ]


@pytest.mark.parametrize("place", [0, None], ids=["ordinary", "isolated"])
def test_it_is_tried_again_more_and_more_slowly(supervisor: Supervisor, place: int | None) -> None:
    refusing(supervisor)
    for pause in (0, 1, 3, 7, 15, 30, 30):
        began = time.monotonic()
        supervisor._start(place)
        assert began + pause <= supervisor._start_at[place] <= time.monotonic() + pause


def test_who_waits_for_an_isolated_process_is_not_forgotten(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A burst would end before its last runs."""
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    supervisor._start_at.clear()
    tried = refusing(supervisor)
    supervisor._suspects = 20
    supervisor._start_due()
    assert tried == [None], "one at a time, as long as there is none to be had"
    # Told of again, and still no other try before its time.
    supervisor._start_due()
    supervisor._suspects = 20
    supervisor._start_due()
    assert tried == [None, None]
    supervisor._start_at[None] = 0.0
    cast(Any, supervisor)._spawn = lambda place, *, is_standby: Fake(supervisor, place).child
    supervisor._start_due()
    assert supervisor._children
    # Once one could be started, the next that cannot is tried again at once.
    refusing(supervisor)
    supervisor._start(None)
    assert supervisor._start_at[None] <= time.monotonic()


def test_of_many_vain_starts_the_log_tells_now_and_then(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    refusing(supervisor)
    for _ in range(20):
        supervisor._start(0)
        supervisor._start(1)
    assert len(caplog.messages) == 1
    supervisor._next_warning -= LONGEST_RESTART_PAUSE
    supervisor._start(0)
    assert len(caplog.messages) == 2
