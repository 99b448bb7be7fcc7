"""The enumeration sees on SQLite as well: there every commit of the engine's is a COMMIT of its own.

And the faults of what waits, undoes and fires, which are those of the statements on either backend: here they take half
as long.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kinds import Action
from tests.faults.plants import (
    fire_in_pieces,
    found,
    keep_crashes,
    sweep_past_children,
    take_events_first,
    trust_every_commit,
    undo_from_memory,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_commit_that_is_taken_for_done_before_it_is_made_is_found(folder: Path) -> None:
    problems = found(folder, trust_every_commit, "plain", Action.BEFORE)
    assert set(problems) == {"COMMIT"}
    assert any(said.startswith("journaled are ") for said in problems["COMMIT"])


def test_an_event_that_is_taken_before_its_wait_is_over_is_found(folder: Path) -> None:
    problems = found(folder, take_events_first, "sleep-and-event", Action.DIE)
    assert "untouched" not in problems
    assert any(said.startswith("not finished: enumerated.sleeping is waiting") for said in problems["COMMIT"])


def test_a_parent_whose_child_nobody_tells_of_is_found(folder: Path) -> None:
    problems = found(folder, sweep_past_children, "child", Action.DIE)
    assert "untouched" not in problems
    assert any(said.startswith("I22: waiting although its child is over") for said in problems["COMMIT"])


def test_a_step_that_an_heir_does_not_undo_is_found(folder: Path) -> None:
    problems = found(folder, undo_from_memory, "compensation", Action.DIE)
    assert "untouched" not in problems
    assert "done were ['charge', 'reserve'], and undone []" in problems["step body, before"]


def test_an_instant_that_has_fired_without_its_run_is_found(folder: Path) -> None:
    problems = found(folder, fire_in_pieces, "schedule", Action.DIE)
    assert "untouched" not in problems
    assert "0 runs were started, where 1 to 1 were to be" in problems["COMMIT of Django's"]


def test_a_run_that_gets_on_and_is_blocked_for_its_crashes_is_found(folder: Path) -> None:
    problems = found(folder, keep_crashes, "crashing", Action.DIE)
    assert "untouched" not in problems
    assert "blocked, and journaled are ['one']" in problems["step body, before"]
