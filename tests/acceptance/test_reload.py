"""`--reload`: the supervisor stays, owns the signals, and puts fresh children in the place of those with old code."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_durable.models import Worker as WorkerRow
from tests.acceptance.traces import new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults
from tests.processes import Worker, is_alive, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

CODE = """
from tests.settings import *
DURABLE["VERSION"] = "{version}"
"""


def test_changed_code_replaces_the_children_after_their_steps_and_a_signal_still_drains(tmp_path: Path) -> None:
    settings = tmp_path / "edited_settings.py"
    settings.write_text(CODE.format(version="old"))
    worker = Worker("--reload", env={"PYTHONPATH": str(tmp_path), "DJANGO_SETTINGS_MODULE": settings.stem})
    run = faults.held_inside.enqueue(gate := new_gate())
    wait_for_trace(run.id, "second")
    [before] = worker.children()

    settings.write_text(CODE.format(version="edited"))
    worker.wait_for_log("draining worker=")
    assert worker.children() == [before], "the step under way was not waited for"
    open_gate(gate)
    wait_for_success(run.id)
    wait_until(lambda: WorkerRow.objects.filter(stopped_at=None, version="edited").exists(), message="a new child")
    [after] = worker.children()
    assert (run.refresh().run.crashes, is_alive(before)) == (0, False)

    assert worker.stop() == 0
    assert not is_alive(after)
    assert not WorkerRow.objects.filter(stopped_at=None).exists()


def test_who_stands_by_is_replaced_too(tmp_path: Path) -> None:
    settings = tmp_path / "edited_settings.py"
    settings.write_text(CODE.format(version="old"))
    environment = {"PYTHONPATH": str(tmp_path), "DJANGO_SETTINGS_MODULE": settings.stem}
    worker = Worker("--reload", standby=True, env=environment)
    before = set(wait_until(lambda: len(found := worker.children()) == 2 and found, message="one to stand by"))

    settings.write_text(CODE.format(version="edited"))
    after = wait_until(lambda: len(found := set(worker.children()) - before) == 2 and found, message="two new ones")
    wait_until(lambda: set(worker.children()) == after, message="no other")
    assert worker.stop() == 0
    assert not any(map(is_alive, after))
