"""Time-outs of code that runs in a thread.

A thread cannot be killed. When its time is over an exception is injected, which Python raises at the thread's next
bytecode; until then the step keeps its slot and the run its lease, so that two workers never run one step at once.
Code that does not react within the grace time (a blocked C call) is reported as stuck: the process then drains and
dies, and only then is the run somebody else's.
"""

from __future__ import annotations

import ctypes
import heapq
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from ..conf import durable_settings
from ..exceptions import StepTimeout


class _TimeIsOver(BaseException):
    """Injected into the thread; never leaves ``call_in_time``."""


class _Watch:
    """One call that is being timed."""

    __slots__ = ("has_fired", "is_over", "lock", "path", "thread_id")

    def __init__(self, path: str) -> None:
        self.path = path
        self.thread_id = threading.get_ident()
        self.lock = threading.Lock()
        self.has_fired = False
        self.is_over = False

    def fire(self) -> None:
        with self.lock:
            if not self.is_over:
                self.has_fired = True
                _inject(self.thread_id, _TimeIsOver)

    def close(self) -> None:
        """From here on nothing is injected; what was injected and not yet raised is taken back."""
        with self.lock:
            self.is_over = True
            if self.has_fired:
                _inject(self.thread_id, None)


def _inject(thread_id: int, error: type[BaseException] | None) -> None:
    target = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), target)


class Watchdog:
    """One thread for all time-outs of the process, started at the first."""

    def __init__(self) -> None:
        self.on_stuck: Callable[[str], None] = lambda path: None
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def watch(self, watch: _Watch, seconds: float) -> None:
        self._at(time.monotonic() + seconds, lambda: self._fire(watch))

    def _fire(self, watch: _Watch) -> None:
        watch.fire()
        if watch.has_fired:
            grace = durable_settings().SHUTDOWN_GRACE_SECONDS
            self._at(time.monotonic() + grace, lambda: None if watch.is_over else self.on_stuck(watch.path))

    def _at(self, when: float, act: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._due, (when, next(self._order), act))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="durable-watchdog", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > time.monotonic():
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
                _, _, act = heapq.heappop(self._due)
            act()


watchdog = Watchdog()


def call_in_time(path: str, seconds: float, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """``fn(*args)``, or StepTimeout when it took longer than ``seconds``, whatever it then returned or raised."""
    watch = _Watch(path)
    watchdog.watch(watch, seconds)
    try:
        try:
            return fn(*args)
        finally:
            watch.close()
            if watch.has_fired:
                raise StepTimeout(path, seconds)
    except _TimeIsOver:
        # Raised between the call's end and close(), or by code that caught it and raised it again.
        watch.close()
        raise StepTimeout(path, seconds) from None
