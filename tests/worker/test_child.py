"""A worker process from its first moment on: what comes while it is made is not lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from django_durable.worker import child
from django_durable.worker.process import WorkerOptions
from tests.processes import PATIENCE


@pytest.fixture
def handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class Ended(Exception):
    """Instead of the end of the test's own process."""


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_is_made_drains_it(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    drained = threading.Event()

    class Made:
        is_done = gave_up = False

        def __init__(self, *given: Any) -> None:
            os.kill(os.getpid(), number)

        def drain(self) -> None:
            drained.set()

        def run(self) -> bool:
            return drained.wait(PATIENCE)

    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(child, "WorkerProcess", Made)
    # For the process as a whole, which here is the tests'.
    monkeypatch.setattr(child.memory, "settle", lambda: None)
    monkeypatch.setattr(child.logging, "shutdown", lambda: None)
    monkeypatch.setattr(child.os, "_exit", end)
    orders, held = os.pipe()
    reports, told = os.pipe()
    with pytest.raises(Ended) as ended:
        child.run_child(uuid4(), WorkerOptions(), orders, told)
    for end_of_pipe in (orders, held, reports, told):
        os.close(end_of_pipe)
    assert ended.value.args == (child.DRAINED,)
