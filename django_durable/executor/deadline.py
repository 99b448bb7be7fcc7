"""Time-outs of code that runs in a thread.

A thread cannot be killed. When its time is over an exception is injected, which Python raises at the thread's next
bytecode; until then the step keeps its slot and the run its lease, so that two workers never run one step at once.
Code that does not react within the grace time (a blocked C call) is reported as stuck: the process then drains and
dies, and only then is the run somebody else's.
"""

from __future__ import annotations

import ctypes
import heapq
import logging
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from ..conf import durable_settings
from ..core.payloads.surviving import survive
from ..exceptions import StepTimeout

logger = logging.getLogger("django_durable.executor")

ROOM = 64
"""How many watches are held before those of finished calls are looked for."""


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

    def fire(self) -> bool:
        """Interrupt the call, and whether there was one to interrupt: False where it is over."""
        with self.lock:
            if not self.is_over:
                self.has_fired = True
                _inject(self.thread_id, _TimeIsOver)
            return self.has_fired

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
        self._due: list[tuple[float, int, _Watch]] = []
        self._room = ROOM
        self._order = count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> int:
        """How many watches it remembers: at most ``ROOM``, or twice as many as were under way when it last looked."""
        return len(self._due)

    def watch(self, watch: _Watch, seconds: float) -> None:
        self._at(time.monotonic() + seconds, watch)

    def _at(self, when: float, watch: _Watch) -> None:
        with self._changed:
            if len(self._due) >= self._room:
                self._forget_finished()
            entry = (when, next(self._order), watch)
            heapq.heappush(self._due, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="durable-watchdog", daemon=True)
                self._thread.start()
            if self._due[0] is entry:
                self._changed.notify()

    def _forget_finished(self) -> None:
        # Else short calls with long time-outs pile up. Only once there are twice as many as were left the last time:
        # that is two entries looked at for each call, however many are under way.
        self._due = [entry for entry in self._due if not entry[2].is_over]
        heapq.heapify(self._due)
        self._room = max(ROOM, 2 * len(self._due))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > time.monotonic():
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
                _, _, watch = heapq.heappop(self._due)
            try:
                self._is_due(watch)
            except BaseException as error:
                # Without this thread no step's time would ever be over.
                survive(error, logger, "what follows the end of the time of %r failed", watch.path)

    def _is_due(self, watch: _Watch) -> None:
        """At first its time is over, then the grace too."""
        if not watch.has_fired:
            if watch.fire():
                self._at(time.monotonic() + durable_settings().SHUTDOWN_GRACE_SECONDS, watch)
        elif not watch.is_over:
            self.on_stuck(watch.path)


watchdog = Watchdog()


def call_in_time(path: str, seconds: float, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """``fn(*args)``, or StepTimeout when it took longer than ``seconds``, whatever it then returned or raised."""
    watch = _Watch(path)
    try:
        try:
            # From here on its time may be over at any place, so before the call too.
            watchdog.watch(watch, seconds)
            return fn(*args)
        finally:
            watch.close()
            if watch.has_fired:
                raise StepTimeout(path, seconds)
    except _TimeIsOver:
        # Raised before the call, between its end and close(), or by code that caught it and raised it again.
        watch.close()
        raise StepTimeout(path, seconds) from None
