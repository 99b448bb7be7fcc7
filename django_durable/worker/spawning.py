"""How a worker process is made: two pipes, and the supervisor's own command, executed again, or a copy of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID, uuid4

CHILD_ENV = "DURABLE_WORKER_CHILD"
"""Tells a re-executed ``durable_worker`` that it is a child, and what a child is told."""
CALL = b"\n"

Told = dict[str, Any]
"""What a worker process is told: its id, its ends of the pipes, whether it is isolated, stands by, runs the loops; and
to which CPU it is pinned, None for any."""


class Process(Protocol):
    """As far as a supervisor asks of ``subprocess.Popen``."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int | None: ...

    def kill(self) -> None: ...


Start = Callable[[Told, Sequence[int]], Process]
"""Starts a process with what it is told, and without the descriptors given. Raises OSError where it can't."""


@dataclass(slots=True)
class Child:
    """A worker process. ``place`` is its number among its siblings, None for one that is isolated.

    One that stands by is to be isolated, and does nothing until it is called.
    """

    id: UUID
    process: Process
    orders: int
    reports: int
    place: int | None
    started: float
    is_draining: bool = False
    is_standby: bool = False
    was_called: bool = False

    def close(self) -> None:
        """Close what is left of the pipes: it has ended, or this is a copy that has nothing to do with it."""
        for end in self.pipes:
            os.close(end)

    @property
    def pipes(self) -> tuple[int, ...]:
        """The supervisor's ends, as far as they are open."""
        return (self.reports,) if self.is_draining else (self.reports, self.orders)

    def call(self) -> None:
        """What stood by is to work. Where it still imports the project it hears of this afterwards.

        Raises OSError where it is dead.
        """
        os.write(self.orders, CALL)
        self.is_standby, self.was_called = False, True

    def drain(self) -> None:
        """Close the pipe of orders; its end is the order. Never from a signal handler: it would close twice."""
        if not self.is_draining:
            self.is_draining = True
            os.close(self.orders)


def spawn(start: Start, place: int | None, *, is_standby: bool = False, cpu: int | None = None) -> Child:
    """Start a worker process; the one at place 0 runs the loops. Raises OSError where there are no processes or
    descriptors left, or the program is gone, as after a deploy that removes what it replaces."""
    worker_id, pipes = uuid4(), list[int]()
    try:
        pipes += os.pipe()
        pipes += os.pipe()
        orders_read, orders_write, reports_read, reports_write = pipes
        told = {
            "id": str(worker_id),
            "orders": orders_read,
            "reports": reports_write,
            "isolated": place is None,
            "stands_by": is_standby,
            "loops": place == 0,
            "cpu": cpu,
        }
        process = start(told, (orders_write, reports_read))
    except BaseException:
        for end in pipes:
            os.close(end)
        raise
    os.close(orders_read)
    os.close(reports_write)
    os.set_blocking(reports_read, False)
    return Child(worker_id, process, orders_write, reports_read, place, time.monotonic(), is_standby=is_standby)


def executing(command: Sequence[str]) -> Start:
    """Starts ``command``, which inherits no other descriptors than those that it is told of."""

    def start(told: Told, not_its: Sequence[int]) -> Process:
        # Ctrl-C comes to the whole group. It waits until the child has imported the project and can obey: before,
        # Python would end with a traceback. Threads and processes that the project starts while it is imported stay
        # without it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            return subprocess.Popen(  # noqa: S603  (our own command, executed again)
                command,
                env={**os.environ, CHILD_ENV: json.dumps(told)},
                pass_fds=(told["orders"], told["reports"]),
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    return start


def own_command() -> list[str]:
    """How this process was started, to be executed again: ``manage.py``, ``django-admin`` or ``python -m``."""
    from django.utils.autoreload import get_child_arguments

    return get_child_arguments()
