"""Chaos without faults, from end to end: nothing is wrong with it, and what is doctored afterwards is found."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from django_durable.models import JournalEntry, Run
from tests.chaos.checker import check
from tests.chaos.collecting import collect
from tests.chaos.history import begin_history, end_history
from tests.chaos.programs import steps_of
from tests.chaos.rounds import start_client
from tests.chaos.witness import lines_of
from tests.processes import Worker, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

RUNS, RATE = 60, 40.0
OF_A_RUN = ("journalentry", "payload", "tag", "event", "audit", "idempotencykey", "claimrecord", "logline")


@pytest.fixture
def folder(transactional_db: None) -> Iterator[Path]:
    """Where the witness and the client write; the database notes what becomes of runs meanwhile."""
    folder = Path(os.environ["DURABLE_TEST_FOLDER"])
    files = [folder / name for name in ("witness", "client", "client-newest.log", "stop")]
    for file in files:
        file.unlink(missing_ok=True)
    begin_history()
    yield folder
    end_history()
    for file in files:
        file.unlink(missing_ok=True)


def found(folder: Path) -> set[tuple[str, str]]:
    return {(violation.rule, violation.run) for violation in check(collect(folder, []))}


def test_a_loss_a_repetition_and_a_changed_value_are_found(folder: Path) -> None:
    worker = Worker()
    client = start_client(folder, "doctored", RATE, {})
    wait_until(lambda: Run.objects.count() >= RUNS, 30, f"{RUNS} runs")
    (folder / "stop").touch()
    assert client.wait() == 0, (folder / "client-newest.log").read_text()
    wait_until(lambda: not Run.objects.live().exists(), 30, "every run to be over")
    assert worker.stop() == 0
    assert found(folder) == set()

    evidence = collect(folder, [])
    parents = {run.parent for run in evidence.runs}
    whole = [run for run in evidence.runs if run.tag and run.status == "succeeded" and run.id not in parents]
    plain = [run for run in whole if any(step.path == "step0" for step in steps_of(run.program))]
    gone, doubled, changed = plain[:3]

    with connection.cursor() as cursor:
        for table in OF_A_RUN:
            cursor.execute(f"DELETE FROM django_durable_{table} WHERE run_id = %s", [gone.id])
        cursor.execute("DELETE FROM django_durable_run WHERE id = %s", [gone.id])
    expected = {("lost", gone.tag)}
    assert found(folder) == expected

    lines = [said for said in lines_of(folder / "witness") if said[:2] == [doubled.id, "step0"]]
    with (folder / "witness").open("a") as witness:
        for *said, _, at in lines:
            witness.write(json.dumps([*said, "f" * 12, at + 0.001]) + "\n")
    expected |= {("repeated", doubled.id)}
    assert found(folder) == expected

    entry = JournalEntry.objects.filter(run_id=changed.id, path="step0")
    value = json.loads(entry.get().value or "")
    entry.update(value=json.dumps({**value, "value": value["value"] + 1}, separators=(",", ":")))
    # Whoever it was that wrote it, he had no lease.
    expected |= {("result", changed.id), ("stale", changed.id)}
    assert found(folder) == expected
