"""Time-outs of code that runs in a thread."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

from django_durable.exceptions import StepTimeout
from django_durable.executor.deadline import ROOM, Watchdog, _Watch, call_in_time, watchdog

from .by_hand import timed_by_hand


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
    assert time.monotonic() - began < 20


def test_code_that_swallows_the_interruption_is_late_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    time_is_over = timed_by_hand(monkeypatch)

    def stubborn() -> str:
        try:
            time_is_over()
            spin(threading.Event())
        except BaseException as error:
            seen.append(type(error).__name__)
        return "late"

    with pytest.raises(StepTimeout):
        call_in_time("x", 5, stubborn, ())
    assert seen == ["_TimeIsOver"]


def test_a_time_that_is_over_before_the_code_begins_is_told_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "watch", lambda watch, seconds: watch.fire())
    with pytest.raises(StepTimeout):
        call_in_time("x", 5, int, ())


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
        try:
            # Its time may be over before this returns.
            dog.watch(watch, 0.01)
            done.wait(100)
        except BaseException:
            done.wait(100)

    thread = threading.Thread(target=block, daemon=True)
    thread.start()
    assert stuck.wait(60)
    done.set()
    thread.join(60)


# --- how much is held ------------------------------------------------------------------------


def test_calls_that_are_over_are_not_held_until_their_time() -> None:
    for _ in range(20 * ROOM):
        call_in_time("x", 3600, int, ())
    assert watchdog.held <= ROOM


def test_what_is_held_is_bounded_by_what_is_under_way() -> None:
    dog = Watchdog()
    under_way = [_Watch("x") for _ in range(2 * ROOM)]
    for watch in under_way:
        dog.watch(watch, 3600)
    for _ in range(20 * ROOM):
        over = _Watch("x")
        dog.watch(over, 3600)
        over.close()
    assert len(under_way) <= dog.held <= 2 * len(under_way)
    for watch in under_way:
        watch.close()
    for _ in range(4 * ROOM):
        over = _Watch("x")
        dog.watch(over, 3600)
        over.close()
    assert dog.held <= ROOM


def test_who_is_under_way_is_timed_however_many_end_meanwhile() -> None:
    begun, ended = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def begin() -> None:
        begun.set()
        spin(ended)

    def work() -> None:
        try:
            call_in_time("x", 0.2, begin, ())
        except StepTimeout as error:
            errors.append(error)
        finally:
            # Its time may be over before it spins.
            begun.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert begun.wait(60)
    for _ in range(4 * ROOM):
        call_in_time("y", 3600, int, ())
    thread.join(60)
    is_alive = thread.is_alive()
    ended.set()
    assert not is_alive
    assert [str(error) for error in errors] == ["Step 'x' took longer than 0.2 s."]
