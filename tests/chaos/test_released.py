"""A deployment of the released version beside this checkout: what it is, and what is made of what it did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from tests.chaos.checker import check, told
from tests.chaos.evidence import RunRow
from tests.chaos.fleet import Fleet
from tests.chaos.handovers import TO_NEW, TO_OLD, handovers
from tests.chaos.making import WORKER, Making
from tests.chaos.programs import Program
from tests.chaos.released.unpacking import CHECKOUT, VERSION, environment, unpack
from tests.chaos.unknown import count_not_undone, ended_unknown
from tests.chaos.witness import RETURN, witnessed

OLD_WORKER, NEW_WORKER = "worker-old", WORKER
TWO_STEPS: Program = [["step", 1, 0.0], ["step", 2, 0.0]]
UNDOABLE: Program = [["undoable", 1], ["step", 2, 0.0]]


@pytest.fixture
def making() -> Making:
    making = Making()
    making.evidence.workers[OLD_WORKER] = 200
    making.evidence.released = {OLD_WORKER}
    return making


# --- whose code it is ------------------------------------------------------------------------

LOOK = """
import json, django, django_durable
django.setup()
from django.apps import apps
from django.conf import settings
from django_durable.worker import process
from django_durable.workflows.registry import workflows
tables = [model._meta.db_table for model in apps.get_app_config("app").get_models()]
print(json.dumps([django_durable.__file__, process.__file__, sorted(workflows()), settings.DURABLE["VERSION"], tables]))
"""


END = """
import django
from uuid import UUID
django.setup()
from django_durable.core.context import Context
from django_durable.core.flow import Flow, RunInfo
from django_durable.core.journal import MemoryJournal
from django_durable.core.lease import Lease
from django_durable import get_workflow
run, token = UUID(int=1), UUID(int=2)
journal = MemoryJournal()
flow = Flow(RunInfo(run, "chaos.plain"), journal, Lease(run, token, 1e9))
get_workflow("chaos.plain").fn(Context(flow, None), "odd", [])
"""


@pytest.fixture
def released(tmp_path: Path) -> Path:
    return unpack(tmp_path)


def look(*command: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DURABLE_TEST_BACKEND": "sqlite", **env}
    return subprocess.run([sys.executable, *command], env=env, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)


def test_a_process_of_it_finds_the_released_version_and_nothing_newer(released: Path) -> None:
    done = look("-c", LOOK, env=environment(released))
    assert done.returncode == 0, done.stderr
    package, module, names, version, tables = json.loads(done.stdout)
    assert Path(package).is_relative_to(released)
    assert Path(module).is_relative_to(released)
    assert names == ["app.doubling", "chaos.plain", "chaos.plain_async"]
    assert (version, tables) == (VERSION, ["app_counter"])


def test_a_command_of_it_does_although_the_checkout_is_first_on_its_path(released: Path) -> None:
    done = look("tests/manage.py", "durable_worker", "--help", env=environment(released))
    assert done.returncode == 0, done.stderr
    assert "--queues" in done.stdout
    here = look("tests/manage.py", "durable_replay", "--help", env={})
    assert here.returncode == 0, here.stderr
    unknown = look("tests/manage.py", "durable_replay", "--help", env=environment(released))
    assert "Unknown command: 'durable_replay'" in unknown.stderr


def test_in_a_process_of_it_the_function_of_a_run_says_how_it_ends(released: Path, tmp_path: Path) -> None:
    done = look("-c", END, env={**environment(released), "DURABLE_TEST_FOLDER": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    [line] = witnessed(tmp_path / "witness")
    assert (line.run, line.token, line.path, line.moment) == (str(UUID(int=1)), str(UUID(int=2)), "", RETURN)


def test_who_has_loaded_this_checkout_before_is_refused(released: Path) -> None:
    env = {**environment(released), "PYTHONPATH": str(CHECKOUT)}
    done = look("-c", "import django_durable, django; django.setup()", env=env)
    assert "is not of the released version" in done.stderr


# --- who goes on -----------------------------------------------------------------------------


class Standing(Fleet):
    """A fleet of which no process is started."""

    def _start(self, place: int) -> None:  # type: ignore[override]
        return None


@pytest.mark.parametrize(
    ("size", "old", "frozen", "free"),
    [
        (3, 0, [], [0, 1, 2]),
        (3, 0, [1], [0, 2]),
        (3, 0, [1, 2], []),
        (4, 2, [], [0, 1, 2, 3]),
        (4, 2, [0], [2, 3]),
        (4, 2, [3], [0, 1]),
        (4, 2, [1, 2], []),
        (3, 1, [], [1, 2]),
    ],
)
def test_one_worker_of_each_release_is_spared(size: int, old: int, frozen: list[int], free: list[int]) -> None:
    fleet = Standing(size, {}, [{}] * old)
    fleet.frozen.update(frozen)
    assert fleet.free == free


# --- what it hands over ----------------------------------------------------------------------


def play(making: Making, *workers: str) -> None:
    """A run of two steps: who does the first, the second, and who ends it."""
    making.enqueue("odd")
    for number, worker in enumerate(workers):
        token = making.claim("run-odd", worker=worker)
        if number < len(TWO_STEPS):
            making.execute("run-odd", f"step{number}", token, 2 * (number + 1))
        if number < len(workers) - 1:
            making.change("run-odd", "running", "waiting", token, None)
            making.change("run-odd", "waiting", "queued", None, None)
    making.leave("run-odd", token, "odd", TWO_STEPS, "succeeded", claims=len(workers))


@pytest.mark.parametrize(
    ("workers", "counts"),
    [
        ((NEW_WORKER, NEW_WORKER, NEW_WORKER), {}),
        ((OLD_WORKER, OLD_WORKER, OLD_WORKER), {}),
        ((OLD_WORKER, NEW_WORKER, NEW_WORKER), {TO_NEW: 1}),
        ((NEW_WORKER, OLD_WORKER), {TO_OLD: 1}),
        ((NEW_WORKER, NEW_WORKER, OLD_WORKER), {TO_OLD: 1}),
        ((NEW_WORKER, OLD_WORKER, NEW_WORKER), {TO_OLD: 1, TO_NEW: 1}),
    ],
)
def test_a_run_goes_on_where_the_other_release_has_been(
    making: Making, workers: tuple[str, ...], counts: dict[str, int]
) -> None:
    play(making, *workers)
    assert handovers(told(making.evidence)) == counts


def test_a_claim_that_did_nothing_hands_nothing_over(making: Making) -> None:
    making.enqueue("odd")
    making.lose("run-odd", making.claim("run-odd", worker=OLD_WORKER))
    token = making.claim("run-odd")
    making.execute("run-odd", "step0", token, 2)
    making.execute("run-odd", "step1", token, 4)
    making.leave("run-odd", token, "odd", TWO_STEPS, "succeeded", claims=2)
    assert handovers(told(making.evidence)) == {}


# --- what it is known for --------------------------------------------------------------------


def cancelled_without_undoing(making: Making) -> None:
    making.enqueue("odd")
    token = making.claim("run-odd")
    making.execute("run-odd", "undoable0", token, 2)
    making.cancel("odd")
    making.change("run-odd", "running", "queued", token, None, cancelling=True)
    making.change("run-odd", "queued", "cancelled", None, None, cancelling=True)
    making.evidence.runs.append(RunRow("run-odd", "odd", UNDOABLE, "cancelled", claims=1))


def test_what_it_ended_without_undoing_is_counted_and_no_violation(making: Making, tmp_path: Path) -> None:
    cancelled_without_undoing(making)
    assert [one.rule for one in check(making.evidence)] == ["undo"]
    log = tmp_path / "process-1.log"
    log.write_text(
        "2026-01-01 ERROR django_durable.worker blocked run=run-other workflow=chaos.x reason=unknown_workflow\n"
        "2026-01-01 ERROR django_durable.worker cancelled run=run-odd workflow=chaos.x reason=unknown_workflow\n"
        "2026-01-01 INFO django_durable.runs cancelled run=run-third workflow=chaos.x attempt=1\n"
    )
    making.evidence.ended_unknown = ended_unknown([log])
    assert making.evidence.ended_unknown == {"run-odd"}
    assert check(making.evidence) == []
    assert count_not_undone(told(making.evidence)) == 1
