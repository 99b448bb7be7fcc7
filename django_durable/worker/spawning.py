"""How a worker process is made: the supervisor's own command, executed again, and two pipes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

CHILD_ENV = "DURABLE_WORKER_CHILD"
"""Tells a re-executed ``durable_worker`` that it is a child: its id, its pipes, whether it is isolated."""


@dataclass(slots=True)
class Child:
    """A worker process. ``place`` is its number among its siblings, None for one that is isolated."""

    id: UUID
    process: subprocess.Popen[bytes]
    orders: int
    reports: int
    place: int | None
    started: float
    is_draining: bool = False

    def drain(self) -> None:
        """Close the pipe of orders; its end is the order. Never from a signal handler: it would close twice."""
        if not self.is_draining:
            self.is_draining = True
            os.close(self.orders)


def spawn(command: Sequence[str], place: int | None) -> Child:
    """Start a worker process with ``command``; the one at place 0 runs the loops."""
    orders_read, orders_write = os.pipe()
    reports_read, reports_write = os.pipe()
    worker_id = uuid4()
    told = {
        "id": str(worker_id),
        "orders": orders_read,
        "reports": reports_write,
        "isolated": place is None,
        "loops": place == 0,
    }
    process = subprocess.Popen(  # noqa: S603  (our own command, executed again)
        command,
        env={**os.environ, CHILD_ENV: json.dumps(told)},
        pass_fds=(orders_read, reports_write),
    )
    os.close(orders_read)
    os.close(reports_write)
    os.set_blocking(reports_read, False)
    return Child(worker_id, process, orders_write, reports_read, place, time.monotonic())


def own_command() -> list[str]:
    """How this process was started, to be executed again: ``manage.py``, ``django-admin`` or ``python -m``."""
    from django.utils.autoreload import get_child_arguments

    return get_child_arguments()
