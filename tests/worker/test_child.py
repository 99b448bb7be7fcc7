"""A worker process while it is made: signals that come then are obeyed, and nothing ends with a traceback."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from uuid import uuid4

import pytest

from django_durable.worker import child
from django_durable.worker.process import WorkerOptions
from tests.processes import PATIENCE


def nobody(number: int, frame: Any) -> NoReturn:
    raise AssertionError(f"nobody obeys {signal.Signals(number).name} yet")


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    kept = {number: signal.signal(number, nobody) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    # What nobody has taken is not to end the tests themselves.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in kept.items():
        signal.signal(number, handler)


class Ended(Exception):
    """Instead of the end of the test's own process."""


def run(monkeypatch: pytest.MonkeyPatch, while_it_is_made: Callable[[], None]) -> int:
    """The status with which it ends, drained."""
    drained = threading.Event()

    class Made:
        is_done = gave_up = False

        def __init__(self, *given: Any) -> None:
            while_it_is_made()

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
    pipe, ends = os.pipe, list[int]()

    def kept() -> tuple[int, int]:
        ends.extend(pair := pipe())
        return pair

    monkeypatch.setattr(child.os, "pipe", kept)
    (orders, _), (_, told) = kept(), kept()
    with pytest.raises(Ended) as ended:
        child.run_child(uuid4(), WorkerOptions(), orders, told)
    for end_of_pipe in ends:
        os.close(end_of_pipe)
    [status] = ended.value.args
    return int(status)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_is_made_drains_it(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, lambda: signal.raise_signal(number)) == child.DRAINED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_was_held_back_until_now_drains_it(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the project was imported, or until a copy is its own."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    signal.raise_signal(number)
    assert run(monkeypatch, lambda: None) == child.DRAINED
