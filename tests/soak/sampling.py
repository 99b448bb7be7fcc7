"""Reads everything of a soak at once: the processes of a worker, PostgreSQL, Redis, the runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psutil

from tests.processes import Command
from tests.soak.databases import Endings, read_redis, read_runs, read_sessions, read_tables, read_workers
from tests.soak.measures import Kind, Measure, Sample, Values


def read_process(process: psutil.Process, name: str) -> Values:
    """Memory as it is seen from outside (of PSS what is shared is shared out), open files and sockets, threads.

    Raises psutil.NoSuchProcess.
    """
    memory = process.memory_full_info()
    return {
        Measure(Kind.RSS, name): float(memory.rss),
        Measure(Kind.PSS, name): float(memory.pss),
        Measure(Kind.FDS, name): float(process.num_fds()),
        Measure(Kind.THREADS, name): float(process.num_threads()),
    }


def processes_of(worker: Command) -> dict[str, psutil.Process]:
    """The supervisor and those under it."""
    children = {f"worker {number}": psutil.Process(pid) for number, pid in enumerate(worker.children(), 1)}
    return {"supervisor": psutil.Process(worker.pid), **children}


class Sampler:
    """Of the processes that there are when it is made: who comes in place of another is a stranger to it."""

    def __init__(self, processes: Mapping[str, psutil.Process], redis: Any) -> None:
        self._processes = processes
        self._redis = redis
        self.endings = Endings()

    def read(self, at: float) -> Sample:
        """Raises psutil.NoSuchProcess where one of them is gone."""
        values: Values = {}
        for name, process in self._processes.items():
            values |= read_process(process, name)
        values |= read_tables() | read_sessions() | read_workers()
        return Sample(at, values | read_redis(self._redis) | read_runs(self.endings))
