"""A CPU for each worker process, whose threads take turns anyway. As ``worker_cpu_affinity`` of nginx.

One thread of a process executes Python at a time. Whoever goes on is woken on a CPU that idles, from where it asks for
the interpreter that another thread still has, and sleeps once more. Pinned to one CPU it comes to its turn when the
thread before it has come to its wait. Figures: docs/performance.md.
"""

from __future__ import annotations

import logging
import os
import random
import sys
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger("django_durable.worker")

THREADS = Path("/proc/self/task")
CORES = Path("/sys/devices/system/cpu")


class Cpus:
    """Which CPU is whose: those that this process may use at the time, beginning at a random one, since supervisors on
    one machine know nothing of each other. Of threads of one core the first of each come before the second ones."""

    def __init__(self) -> None:
        """Raises NotImplementedError where that is not possible, or would do harm."""
        if not hasattr(os, "sched_setaffinity"):
            raise NotImplementedError("this system cannot pin a process to a CPU")
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise NotImplementedError("without a GIL the threads of a process use as many CPUs as there are")
        self._first = random.randrange(self.count)

    @property
    def count(self) -> int:
        return len(os.sched_getaffinity(0))

    def of(self, place: int) -> int:
        """The CPU for the process at ``place`` (from 0 on) among its siblings; where they are too many they share."""
        allowed = sorted(os.sched_getaffinity(0), key=_rank)
        return allowed[(self._first + place) % len(allowed)]


def _rank(cpu: int) -> tuple[int, int]:
    siblings = [cpu]
    with suppress(OSError, ValueError):
        siblings = _listed((CORES / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text())
    return (siblings.index(cpu) if cpu in siblings else 0), cpu


def _listed(text: str) -> list[int]:
    """Linux writes ``0,4`` or ``0-1``."""
    ranges = [part.partition("-") for part in text.strip().split(",")]
    return [cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)]


def pin_to(cpu: int) -> None:
    """All threads of this process, and what they start from now on, threads and programs. Where the CPU may not be used
    any more they go on as before, with a warning."""
    try:
        # There may be others already, which the project has started while it was imported.
        for thread in os.listdir(THREADS) if THREADS.exists() else ("0",):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), {cpu})
    except OSError as error:
        logger.warning("pid=%d could not be pinned to cpu=%d: %s", os.getpid(), cpu, error)
    else:
        logger.info("pinned pid=%d cpu=%d", os.getpid(), cpu)
