"""The workers that the nemesis hits: supervisors with their processes, each with a queue of its own beside the shared
one."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tests.processes import FAST, Worker

CONCURRENCY = 8
"""Twice what is needed on average. Whatever a process works on is under suspicion when it dies."""
MAX_CRASHES = 20
"""The nemesis does not spare a process that a suspect is alone in: three such deaths by chance are no verdict."""


def queue_of(place: int) -> str:
    """The queue that nobody but the worker at that place serves."""
    return f"own-{place}"


class Fleet:
    """As many supervisors as were asked for, whatever becomes of them.

    ``old``: the environments of those at the first places, which work with a released version.
    """

    def __init__(self, size: int, env: Mapping[str, str], old: Sequence[Mapping[str, str]] = ()) -> None:
        self._env = [*old, *[env] * (size - len(old))]
        self._old = len(old)
        self.old_logs: list[Path] = []
        self.workers: dict[int, Worker] = {place: self._start(place) for place in range(size)}
        self.frozen: set[int] = set()
        self._leaving: list[Worker] = []

    def _start(self, place: int) -> Worker:
        arguments = ("--queues", f"default,{queue_of(place)}", "--concurrency", str(CONCURRENCY))
        # One of the release knows of no such option, and has none.
        durable = {**FAST, "MAX_CRASHES": MAX_CRASHES}
        worker = Worker(*arguments, durable=durable, env=self._env[place], standby=True)
        if place < self._old:
            self.old_logs.append(worker.log_file)
        return worker

    def wait_for_start(self) -> float:
        """In how many seconds the slowest has come to work."""
        return max(worker.wait_for_start() for worker in self.workers.values())

    @property
    def free(self) -> list[int]:
        """The places whose workers go on, but for the only one of a release: somebody has to."""
        going_on = [place for place in self.workers if place not in self.frozen]
        sides = ([place for place in going_on if (place < self._old) is is_old] for is_old in (True, False))
        return [place for side in sides if len(side) > 1 for place in side]

    def processes(self, place: int) -> list[int]:
        """Those under the supervisor; none where that is about to begin or to end."""
        try:
            return self.workers[place].children()
        except psutil.NoSuchProcess:
            return []

    def kill_group(self, place: int) -> None:
        """As when the machine goes; another worker takes its place."""
        self.workers[place].kill()
        self.workers[place] = self._start(place)

    def drain(self, place: int) -> None:
        """Tell it to end, and have another worker take its place at once."""
        self.workers[place].signal(signal.SIGTERM)
        self._leaving.append(self.workers[place])
        self.workers[place] = self._start(place)

    def freeze(self, place: int) -> None:
        self.frozen.add(place)
        self.workers[place].freeze()

    def thaw(self, place: int) -> None:
        self.workers[place].thaw()
        self.frozen.discard(place)

    def heal(self) -> None:
        for place in list(self.frozen):
            self.thaw(place)
        for place, worker in self.workers.items():
            if not worker.running:
                self.workers[place] = self._start(place)

    def stop(self, timeout: float) -> list[str]:
        """Drain everybody; what did not end in time, or as it should."""
        for worker in self.workers.values():
            worker.signal(signal.SIGTERM)
        ends = time.monotonic() + timeout
        wrong = []
        for worker in [*self._leaving, *self.workers.values()]:
            try:
                status = worker.wait(max(0.1, ends - time.monotonic()))
            except Exception:
                wrong.append(f"{worker} did not end")
            else:
                wrong += [f"{worker} ended with {status}"] if status else []
        return wrong
