"""The supervisor's child: a worker process whose supervisor speaks to it through a pipe.

The pipe's end is the supervisor's end: a child whose supervisor was killed drains as if it had been told to.
Signals mean nothing more than "drain" here; who counts them is the supervisor.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from typing import Any
from uuid import UUID

from .process import WorkerOptions, WorkerProcess

logger = logging.getLogger("django_durable.worker")

DONE, DONE_BUSY, DONE_GAVE_UP = 10, 11, 12
"""Exit statuses of a child whose options said that it was done: every run was let go; some code outlived the grace
time of the drain; a step would not end. None is 0, 1 or 2: with these, user code or Python itself ended the process."""

DRAINED, STILL_BUSY, GAVE_UP = 20, 21, 22
"""The same for a child that drained for another reason (an order, a signal, a step that would not end)."""

YOUNG_OBJECTS = 10_000
"""As many as are made before Python looks for cycles among them."""


def run_child(worker_id: UUID, options: WorkerOptions, orders: int, reports: int) -> None:
    """Work until told to drain; never returns. ``orders`` and ``reports`` are file descriptors of pipes."""
    process = WorkerProcess(worker_id, options, lambda word: _report(reports, word))
    threading.Thread(target=_obey, args=(orders, process), name="durable-orders", daemon=True).start()

    def drain(number: int, frame: Any) -> None:
        process.drain()

    signal.signal(signal.SIGTERM, drain)
    signal.signal(signal.SIGINT, drain)
    # What the project has imported stays: a full collection that walks through all of it stops every run meanwhile.
    gc.freeze()
    _collect_less_often()
    is_empty = process.run()
    if not is_empty:
        logger.warning("not all was let go within the grace time; the process ends and its runs are handed back")
    logging.shutdown()
    # Not sys.exit: threads that still run the user's code would keep the interpreter alive.
    os._exit(_status(process, is_empty))


def _collect_less_often() -> None:
    """Steps make thousands of objects a second, hardly any of them in cycles. To look through the young ones each 700,
    as Python does by itself, takes a tenth of a busy process's CPU; what the project has set higher, or off, stays."""
    young, *older = gc.get_threshold()
    if 0 < young < YOUNG_OBJECTS:
        gc.set_threshold(YOUNG_OBJECTS, *older)


def _status(process: WorkerProcess, is_empty: bool) -> int:
    empty, busy, gave_up = (DONE, DONE_BUSY, DONE_GAVE_UP) if process.is_done else (DRAINED, STILL_BUSY, GAVE_UP)
    return empty if is_empty else gave_up if process.gave_up else busy


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
