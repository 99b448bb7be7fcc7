"""Time-outs of code that runs in a thread."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

from django_durable.exceptions import StepTimeout
from django_durable.executor.deadline import Watchdog, _Watch, call_in_time


def spin(until: threading.Event) -> str:
    while not until.is_set():
        pass
    return "came to its end"


def test_code_in_time_returns_its_value() -> None:
    assert call_in_time("x", 5, lambda: 7, ()) == 7


def test_code_that_spins_is_interrupted() -> None:
    never = threading.Event()
    began = time.monotonic()
    with pytest.raises(StepTimeout, match="'x'"):
        call_in_time("x", 0.05, spin, (never,))
    assert time.monotonic() - began < 2


def test_code_that_swallows_the_interruption_is_late_all_the_same() -> None:
    seen: list[str] = []

    def stubborn() -> str:
        try:
            spin(threading.Event())
        except BaseException as error:
            seen.append(type(error).__name__)
        return "late"

    with pytest.raises(StepTimeout):
        call_in_time("x", 0.05, stubborn, ())
    assert seen == ["_TimeIsOver"]


def test_an_error_in_time_is_the_codes_own() -> None:
    def fail() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        call_in_time("x", 5, fail, ())


def test_nothing_is_injected_after_the_call() -> None:
    watch = _Watch("x")
    watch.close()
    watch.fire()
    assert not watch.has_fired


def test_what_was_injected_and_not_yet_raised_is_taken_back() -> None:
    for _ in range(200):
        with suppress(StepTimeout):
            call_in_time("x", 0.0005, lambda: time.sleep(0.0005), ())
        for _ in range(50):
            pass  # an interruption that was left behind would be raised here


def test_code_that_does_not_end_is_reported(settings: object) -> None:
    dog, stuck, done = Watchdog(), threading.Event(), threading.Event()
    dog.on_stuck = lambda path: stuck.set()
    settings.DURABLE = {"SHUTDOWN_GRACE_SECONDS": 0.05}  # type: ignore[attr-defined]

    def block() -> None:
        watch = _Watch("x")
        dog.watch(watch, 0.01)
        try:
            done.wait(10)
        except BaseException:
            done.wait(10)

    thread = threading.Thread(target=block, daemon=True)
    thread.start()
    assert stuck.wait(5)
    done.set()
    thread.join(5)
