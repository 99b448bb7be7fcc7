"""Reads the evidence of a run of chaos: what the steps, the client and the database have left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.db import connection

from django_durable.core.payloads.codec import decode
from django_durable.models import JournalEntry, Payload, Run, Worker
from tests.app.models import Counter
from tests.chaos.calls import said_by_client
from tests.chaos.evidence import Began, EntryRow, Evidence, Fault, RunRow
from tests.chaos.history import changes, writings
from tests.chaos.released.unpacking import VERSION
from tests.chaos.unknown import ended_unknown
from tests.chaos.witness import witnessed
from tests.invariants import violated

COUNTER, WORKFLOWS = "chaos ", "chaos."


def collect(folder: Path, faults: list[Fault], old_logs: Sequence[Path] = (), *, settled: float = 0.0) -> Evidence:
    """All of it, once nobody works any more. ``old_logs``: those of the workers of the released version; ``settled`` as
    in `tests.invariants`."""
    # Of each supervisor the processes serve a queue that no other one serves.
    rows = list(Worker.objects.all())
    return Evidence(
        runs=_runs(),
        entries=_entries(),
        changes=changes(),
        writings=writings(),
        counters=_counters(),
        lines=witnessed(folder / "witness"),
        said=said_by_client(folder / "client"),
        faults=faults,
        workers={str(row.id): row.pid for row in rows},
        began=[Began(row.pid, ",".join(row.queues), row.started_at.timestamp(), row.is_isolated) for row in rows],
        released={str(row.id) for row in rows if row.version == VERSION},
        ended_unknown=ended_unknown(old_logs),
        invariants=[f"{one.invariant} {one.run_id}: {one.problem}" for one in violated(settled)],
        epoch=_epoch(),
    )


def _epoch() -> float:
    """What to add to CLOCK_MONOTONIC for the database's time: of a few answers the one that took least."""
    found: list[tuple[float, float]] = []
    with connection.cursor() as cursor:
        for _ in range(20):
            before = time.monotonic()
            cursor.execute("SELECT extract(epoch FROM clock_timestamp())::double precision")
            [(said,)] = cursor.fetchall()
            after = time.monotonic()
            found.append((after - before, said - (before + after) / 2))
    return min(found)[1]


def _runs() -> list[RunRow]:
    texts = {(run_id, kind): data for run_id, kind, data in Payload.objects.values_list("run_id", "kind", "data")}

    def read(run: Run, kind: str) -> Any:
        text = texts.get((run.pk, kind))
        return None if text is None else decode(text)

    return [
        RunRow(
            id=str(run.pk),
            tag=(given := read(run, "input"))["tag"],
            program=given["program"],
            status=run.status,
            claims=run.claims,
            output=read(run, "output"),
            error=read(run, "error"),
            parent=None if run.parent_id is None else str(run.parent_id),
            limit_key=run.limit_key,
        )
        for run in Run.objects.filter(workflow__startswith=WORKFLOWS)
    ]


def _entries() -> list[EntryRow]:
    entries = JournalEntry.objects.filter(run__workflow__startswith=WORKFLOWS)
    rows = entries.values_list("run_id", "path", "seq", "kind", "status", "token", "value")
    return [
        EntryRow(str(run_id), path, seq, kind, status, str(token), None if value is None else decode(value))
        for run_id, path, seq, kind, status, token, value in rows
    ]


def _counters() -> dict[str, int]:
    rows = Counter.objects.filter(name__startswith=COUNTER).values_list("name", "value")
    return {name.removeprefix(COUNTER): value for name, value in rows}
