"""Branches in real worker processes: side by side in threads, beside each other's waits, through kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_durable.models import JournalEntry, Run
from tests.acceptance.traces import let_leases_lapse
from tests.app import branching
from tests.processes import PATIENCE, Worker, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


def lines(folder: Path, name: str = "log") -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def succeeded(count: int = 1) -> bool:
    return Run.objects.filter(status="succeeded", parent=None).count() == count


@pytest.mark.behaviour("FLOW-01a")
def test_branches_run_side_by_side_in_threads_and_as_tasks() -> None:
    Worker()
    sync, asynchronous = branching.meeting.enqueue(), branching.meeting_async.enqueue()
    assert sync.result(timeout=PATIENCE) == 2
    assert asynchronous.result(timeout=PATIENCE) == {"a": "a", "b": "b"}


@pytest.mark.behaviour("FLOW-02d")
def test_a_race_returns_at_the_winner_s_commit_and_the_loser_under_way_is_undone(tmp_path: Path) -> None:
    Worker()
    run = branching.racing.enqueue(str(tmp_path))
    wait_until(lambda: "after" in lines(tmp_path), message="the run goes on while the loser's step is under way")
    assert not lines(tmp_path, "held")
    (tmp_path / "go").touch()
    assert run.result(timeout=PATIENCE) == "winner"
    assert lines(tmp_path) == ["won", "after", "-loser"]
    assert JournalEntry.objects.filter(run_id=run.id, path="any/loser/hold", status="succeeded").exists()


def test_a_process_wakes_the_branches_whose_time_or_event_has_come_while_another_works(tmp_path: Path) -> None:
    Worker()
    run = branching.waking.enqueue(str(tmp_path))
    wait_until(lambda: "slept" in lines(tmp_path), message="the sleeper goes on")
    run.send_event("word")
    wait_until(lambda: "heard" in lines(tmp_path), message="the listener goes on")
    assert run.refresh().run.claims == 1
    (tmp_path / "go").touch()
    assert run.result(timeout=PATIENCE) == {"worker": "worker", "sleeper": "slept", "listener": "heard"}


@pytest.mark.behaviour("FLOW-01h")
def test_a_killed_process_loses_no_branch_and_repeats_no_finished_step(tmp_path: Path) -> None:
    process = Worker()
    run = branching.holding_both.enqueue(str(tmp_path))
    wait_until(lambda: all((tmp_path / f"{name}.began").exists() for name in "ab"), message="both branches")
    process.kill()
    let_leases_lapse()
    (tmp_path / "go").touch()
    Worker()
    assert run.result(timeout=PATIENCE) == {"a": "a", "b": "b"}
    assert sorted(lines(tmp_path)) == ["a first", "b first"]


def test_map_over_steps_and_over_children() -> None:
    Worker("--processes", "2")
    steps, children = branching.mapping.enqueue(100), branching.fanning.enqueue(100)
    assert steps.result(timeout=PATIENCE) == children.result(timeout=PATIENCE) == sum(n * n for n in range(100))
    assert Run.objects.get(pk=children.id).claims == 2
