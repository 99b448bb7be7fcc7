"""The supervisor's child: a worker process whose supervisor speaks to it through a pipe.

The pipe's end is the supervisor's end: a child whose supervisor was killed drains as if it had been told to.
Signals mean nothing more than "drain" here; who counts them is the supervisor.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import Any
from uuid import UUID

from .process import WorkerOptions, WorkerProcess

logger = logging.getLogger("django_durable.worker")

EMPTY, STILL_BUSY, GAVE_UP = 0, 3, 4
"""Exit statuses: every run was let go; some code outlived the grace time of a drain; a step would not end."""


def run_child(worker_id: UUID, options: WorkerOptions, orders: int, reports: int) -> None:
    """Work until told to drain; never returns. ``orders`` and ``reports`` are file descriptors of pipes."""
    process = WorkerProcess(worker_id, options, lambda word: _report(reports, word))
    threading.Thread(target=_obey, args=(orders, process), name="durable-orders", daemon=True).start()

    def drain(number: int, frame: Any) -> None:
        process.drain()

    signal.signal(signal.SIGTERM, drain)
    signal.signal(signal.SIGINT, drain)
    is_empty = process.run()
    if not is_empty:
        logger.warning("code still runs after the grace time; the process ends and its runs are handed back")
    logging.shutdown()
    # Not sys.exit: threads that still run the user's code would keep the interpreter alive.
    os._exit(EMPTY if is_empty else GAVE_UP if process.gave_up else STILL_BUSY)


def _obey(orders: int, process: WorkerProcess) -> None:
    while os.read(orders, 64):
        pass
    process.drain()


def _report(reports: int, word: str) -> None:
    try:
        os.write(reports, f"{word}\n".encode())
    except OSError:
        # The supervisor is gone; the pipe of orders says so as well.
        return
