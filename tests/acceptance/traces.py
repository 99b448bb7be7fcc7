"""What the steps of `tests/app/faults.py` left behind, and the gates that they wait at."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psutil
from django.db import OperationalError, connection

from django_durable.models import JournalEntry, Payload, Run, Worker
from tests.app import faults
from tests.app.faults import gate_file, trace_file
from tests.processes import PATIENCE, Command, wait_until
from tests.store.rows import PAST, at


@dataclass(frozen=True)
class Trace:
    run: str
    path: str
    attempt: int
    pid: int
    moment: str
    at: float


def traces(run_id: UUID, path: str | None = None, moment: str = "begin") -> list[Trace]:
    lines = trace_file().read_text().splitlines(keepends=True) if trace_file().exists() else []
    # The last line may be read while it is written.
    found = [Trace(**json.loads(line)) for line in lines if str(run_id) in line and line.endswith("\n")]
    return [one for one in found if one.moment == moment and path in (None, one.path)]


def executions(run_id: UUID) -> Counter[str]:
    """How often the body of each step began."""
    return Counter(one.path for one in traces(run_id))


def wait_for_trace(run_id: UUID, path: str, moment: str = "begin", count: int = 1) -> Trace:
    """The latest trace, once there are `count` of it."""
    what = f"trace {count} of {moment} of {path}"
    wait_until(lambda: len(traces(run_id, path, moment)) >= count, message=what)
    return traces(run_id, path, moment)[-1]


def wait_for_entry(run_id: UUID, path: str) -> None:
    """Until the step is journaled."""
    entries = JournalEntry.objects.filter(run_id=run_id, path=path, status="succeeded")
    wait_until(entries.exists, message=f"the journal entry of {path}")


def new_gate() -> str:
    return uuid4().hex


def open_gate(gate: str) -> None:
    gate_file(gate).touch()


def stored(run_id: UUID) -> list[Any]:
    """Every row of the run with every column, to see that nothing was touched."""
    return [
        *Run.objects.filter(pk=run_id).values(),
        *JournalEntry.objects.filter(run_id=run_id).order_by("seq").values(),
        *Payload.objects.filter(run_id=run_id).order_by("kind").values(),
    ]


def let_leases_lapse() -> None:
    """As if time had passed since everybody died: the leases are over, and of nobody has been heard since."""
    Run.objects.filter(status="running").update(lease_expires_at=at(PAST))
    Worker.objects.update(heartbeat_at=at(PAST))


def freeze_between_writes(worker: Command) -> None:
    """On SQLite who is frozen in a transaction would keep the one write lock, and nobody else could go on."""
    while True:
        worker.freeze()
        wait_until(lambda: all(map(is_stopped, [worker.pid, *worker.children()])), message="all of it to stand still")
        if connection.vendor != "sqlite" or may_write():
            return
        worker.thaw()


def is_stopped(pid: int) -> bool:
    return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)


def may_write() -> bool:
    """Whether nobody keeps SQLite's write lock for half a second."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        [usual] = cursor.fetchone()
        cursor.execute("PRAGMA busy_timeout = 500")
        try:
            cursor.execute("BEGIN IMMEDIATE")
        except OperationalError:
            return False
        else:
            cursor.execute("ROLLBACK")
            return True
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {usual}")


def kill_in_step() -> int:
    """Start a run, and SIGKILL the process that works on its second step, which succeeds when it is made again; the
    number of that process."""
    gate = new_gate()
    run = faults.held_inside.enqueue(gate)
    killed = wait_for_trace(run.id, "second").pid
    os.kill(killed, signal.SIGKILL)
    open_gate(gate)
    wait_for_success(run.id)
    assert executions(run.id) == {"first": 1, "second": 2, "third": 1}
    return killed


def wait_for_success(*run_ids: UUID, timeout: float = PATIENCE) -> None:
    runs = Run.objects.filter(pk__in=run_ids)
    wait_until(
        lambda: runs.filter(status="succeeded").count() == len(run_ids), timeout, f"{len(run_ids)} runs to succeed"
    )
