"""The supervisor's child: a worker process whose supervisor speaks to it through a pipe.

The pipe's end is the supervisor's end: a child whose supervisor was killed drains as if it had been told to.
Signals mean nothing more than "drain" here; who counts them is the supervisor.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from typing import Any
from uuid import UUID

from . import memory
from .process import WorkerOptions, WorkerProcess

logger = logging.getLogger("django_durable.worker")

DONE, DONE_BUSY, DONE_GAVE_UP = 10, 11, 12
"""Exit statuses of a child whose options said that it was done: every run was let go; some code outlived the grace
time of the drain; a step would not end. None is 0, 1 or 2: with these, user code or Python itself ended the process."""

DRAINED, STILL_BUSY, GAVE_UP = 20, 21, 22
"""The same for a child that drained for another reason (an order, a signal, a step that would not end)."""


def run_child(worker_id: UUID, options: WorkerOptions, orders: int, reports: int, *, stands_by: bool = False) -> None:
    """Work until told to drain; never returns. ``orders`` and ``reports`` are file descriptors of pipes. One that
    ``stands_by`` has all that it needs but for connections, and begins when it is called."""
    alarm_read, alarm_write = os.pipe()

    def drain(number: int, frame: Any) -> None:
        # Nothing with a lock, which this thread may hold just now: an Event that it waits for has one.
        os.write(alarm_write, b"\0")

    # Before anything is made: what they find half made would end with a traceback.
    signal.signal(signal.SIGTERM, drain)
    signal.signal(signal.SIGINT, drain)
    # Held back since before the first import, or since this was copied: see ``spawning`` and ``forking``.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])
    process = WorkerProcess(worker_id, options, lambda word: _report(reports, word))
    called = threading.Event()
    obeying = (orders, alarm_read, process, called)
    threading.Thread(target=_obey, args=obeying, name="durable-orders", daemon=True).start()
    memory.settle()
    if stands_by:
        called.wait()
    is_empty = process.run()
    if not is_empty:
        logger.warning("not all was let go within the grace time; the process ends and its runs are handed back")
    logging.shutdown()
    # Not sys.exit: threads that still run the user's code would keep the interpreter alive.
    os._exit(_status(process, is_empty))


def _status(process: WorkerProcess, is_empty: bool) -> int:
    empty, busy, gave_up = (DONE, DONE_BUSY, DONE_GAVE_UP) if process.is_done else (DRAINED, STILL_BUSY, GAVE_UP)
    return empty if is_empty else gave_up if process.gave_up else busy


def _obey(orders: int, alarm: int, process: WorkerProcess, called: threading.Event) -> None:
    """Until it is to drain: by the end of the orders, or by a signal."""
    while alarm not in select.select([orders, alarm], [], [])[0] and os.read(orders, 64):
        called.set()
    process.drain()
    called.set()


def _report(reports: int, word: str) -> None:
    try:
        os.write(reports, f"{word}\n".encode())
    except OSError:
        # The supervisor is gone; the pipe of orders says so as well.
        return
