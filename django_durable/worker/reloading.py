"""``--reload``: the supervisor watches the code and replaces its children; it owns the signals, so draining works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from django.utils.autoreload import StatReloader

from ..core.payloads.surviving import survive

logger = logging.getLogger("django_durable.worker")

SECONDS = 1.0


class Watcher:
    """Calls ``changed`` when a file that the process has imported has changed, or there is a new one beside it."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._files = StatReloader()
        self._seen = self._look()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="durable-reload", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(SECONDS):
            try:
                self.tick()
            except BaseException as error:
                survive(error, logger, "the look for changed code stumbled")

    def tick(self) -> None:
        """Look once."""
        now = self._look()
        if now != self._seen:
            self._seen = now
            self._changed()

    def _look(self) -> dict[Path, float]:
        return dict(self._files.snapshot_files())
