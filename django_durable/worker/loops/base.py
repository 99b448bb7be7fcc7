"""The runner: ticks that are due, one after the other, in one thread on one connection."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from typing import Protocol

from django.db.utils import Error

from ...core import clock
from ...core.payloads.surviving import survive, warn
from ...store.database import PrivateDatabase

logger = logging.getLogger("django_durable.worker")


FIRST_BACK_OFF, LAST_BACK_OFF = 0.1, 5.0
"""Seconds that a loop rests at least after it failed, twice as long each time. Once it is no more than that, however
seldom the loop is due: a session that was lost is a new one by then."""


class Loop(Protocol):
    """One job of maintenance."""

    @property
    def interval(self) -> float:
        """Seconds between ticks."""

    def tick(self) -> int:
        """Do what is due, up to a batch; how much that was. A full batch asks for another tick at once."""


class LoopRunner:
    """Jittered, so that a fleet started together does not tick together. One failing loop never stops the others."""

    def __init__(self, db: PrivateDatabase, loops: Sequence[Loop], batch: int) -> None:
        self._db = db
        self._batch = batch
        self._back_offs: dict[Loop, float] = {}
        """How long those rest at least that failed at their last tick."""
        self._due = {loop: clock.monotonic() for loop in loops}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="durable-loops", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._db.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.run_due()
            wait = min(self._due.values(), default=clock.monotonic() + 1.0) - clock.monotonic()
            self._stop.wait(max(0.0, wait))

    def run_due(self) -> None:
        """One tick of every loop whose time has come."""
        for loop, due in list(self._due.items()):
            if clock.monotonic() >= due and not self._stop.is_set():
                self._due[loop] = clock.monotonic() + self._tick(loop) * random.uniform(0.9, 1.0)

    def _tick(self, loop: Loop) -> float:
        """How many seconds the loop may rest after it."""
        try:
            done = loop.tick()
        except Error as error:
            warn(logger, "the database refused %s, trying again: %s", type(loop).__name__, error)
            self._db.close()
            return self._back_off(loop)
        except BaseException as error:
            survive(error, logger, "%s stumbled", type(loop).__name__)
            return self._back_off(loop)
        self._back_offs.pop(loop, None)
        return 0.0 if done >= self._batch else loop.interval

    def _back_off(self, loop: Loop) -> float:
        is_first = loop not in self._back_offs
        self._back_offs[loop] = min(2 * self._back_offs.get(loop, FIRST_BACK_OFF / 2), LAST_BACK_OFF)
        return FIRST_BACK_OFF if is_first else max(loop.interval, self._back_offs[loop])
