"""The enumeration sees: a fault that is planted in the engine is found, and nothing is found without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_durable.models import JournalEntry, Run
from tests.faults.cases import Case
from tests.faults.kinds import Action
from tests.faults.lane import Lane, nothing
from tests.faults.plants import (
    allow_another_crash,
    forget_the_claim,
    found,
    ignore_cancellations,
    journal_first,
    lose_hints,
    open_the_fence,
    swallow_a_lost_session,
    tell_before_it_is_stored,
    trust_the_commit,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_nothing_is_found_where_nothing_is_planted(folder: Path) -> None:
    assert found(folder, nothing, "plain", Action.STALL) == {}


def test_a_fence_that_lets_everybody_pass_is_found(folder: Path) -> None:
    problems = found(folder, open_the_fence, "plain", Action.STALL)
    assert any("rows of runs that were over have changed" in said for told in problems.values() for said in told)


def test_a_hint_that_nobody_makes_up_for_is_found(folder: Path) -> None:
    problems = found(folder, lose_hints, "handed-back", Action.DIE)
    assert "untouched" not in problems
    assert any(said.startswith("not finished") for said in problems["redis RPUSH"])


def test_a_step_that_is_journaled_before_it_has_run_is_found(folder: Path) -> None:
    problems = found(folder, journal_first, "handed-back", Action.DIE)
    assert any("although its journal entry was committed" in said for said in problems["untouched"])
    # Whoever dies in the body leaves an entry of which nobody has seen the end.
    assert any("nobody has seen that" in said for told in problems.values() for said in told)


def test_an_atomic_step_that_is_done_twice_is_found(folder: Path) -> None:
    problems = found(folder, forget_the_claim, "atomic", Action.AFTER)
    assert any("its writes stand 2 times" in said for said in problems["COMMIT of Django's"])


def test_an_atomic_step_that_is_taken_for_done_before_its_commit_is_found(folder: Path) -> None:
    problems = found(folder, trust_the_commit, "atomic", Action.BEFORE)
    assert list(problems) == ["COMMIT of Django's"]
    assert any(said.startswith("journaled are ['one', 'two'], and not") for said in problems["COMMIT of Django's"])


def test_an_acknowledged_start_whose_session_was_lost_is_found(folder: Path) -> None:
    problems = found(folder, swallow_a_lost_session, "handed-back", Action.TERMINATE)
    [(label, told)] = problems.items()
    assert "INSERT INTO django_durable_run" in label
    assert any(said.startswith("lost: ") for said in told)


def test_a_list_that_names_a_run_which_was_never_stored_is_found(folder: Path) -> None:
    problems = found(folder, tell_before_it_is_stored, "handed-back", Action.DIE)
    [(label, told)] = problems.items()
    assert "INSERT INTO django_durable_run" in label
    assert any(said.startswith("I21: no run, but a list") for said in told)


def test_a_run_that_may_kill_another_process_is_found(folder: Path) -> None:
    problems = found(folder, allow_another_crash, "crashing", Action.DIE)
    assert "untouched" not in problems
    assert "succeeded (None), and not blocked" in problems["step body, before"]


def test_a_cancellation_that_is_ignored_is_found(folder: Path) -> None:
    # There are few points from the cancellation to the end, and at half of them to die is to die at the next one.
    problems = found(folder, ignore_cancellations, "plain-cancelled", Action.DIE, least=5)
    assert "succeeded (None), and not cancelled" in problems["untouched"]
    assert "'three' began after the cancellation" in problems["untouched"]


def test_an_impossible_row_is_told_of_the_case_that_left_it(folder: Path) -> None:
    with Lane(folder) as lane:
        first, second, third = (lane.run(Case("handed-back")) for _ in range(3))
        runs = Run.objects.order_by("pk").values_list("pk", flat=True)
        spoiled = runs[1]
        JournalEntry.objects.filter(run_id=spoiled).update(seq=1)
        lane.inspect()
    assert second.problems == [f"I6: journal number 1 stands 3 times (run {spoiled})"]
    assert first.problems == third.problems == []
    assert not runs.exists()
