"""The checker sees what is wrong with runs and how they ended: each check with what it finds and what it lets pass."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from django_durable.conf import durable_settings
from django_durable.core.journal.states import BlockReason, Kind, PayloadKind, Status
from django_durable.core.payloads.codec import encode
from django_durable.models import Run
from tests.faults.kinds import Action
from tests.faults.making import ORDERS, Making, found, went_well

MOST = durable_settings().MAX_CRASHES


@pytest.mark.parametrize("name", ORDERS)
def test_nothing_is_found_where_all_went_well(name: str) -> None:
    assert found(went_well(name)) == []


@pytest.mark.parametrize("name", ["atomic-cancelled", "compensation-cancelled"])
def test_nothing_is_found_where_a_run_was_cancelled_at_its_end(name: str) -> None:
    assert found(cancelled(went_well(name))) == []


def cancelled(making: Making) -> Making:
    making.cancel()
    making.end(Status.CANCELLED)
    return making


# --- one_run ---------------------------------------------------------------------------------


def test_a_start_that_was_not_answered_has_made_a_run_or_none() -> None:
    assert found(Making("atomic")) == []
    making = Making("atomic")
    making.start(is_answered=False)
    for path in ORDERS["atomic"]:
        making.execute(path)
    making.end()
    assert found(making) == []


@pytest.mark.parametrize("name", ["plain", "schedule"])
def test_a_run_that_had_to_be_started_and_is_not_there(name: str) -> None:
    assert found(Making(name)) == ["0 runs were started, where 1 to 1 were to be"]


def test_an_acknowledged_run_that_is_not_there() -> None:
    making = Making("atomic")
    lost = {making.start().pk}
    making.runs.clear()
    assert found(making) == ["0 runs were started, where 1 to 1 were to be", f"lost: {lost}"]


def test_an_acknowledged_run_under_another_id() -> None:
    making, told = went_well("plain"), uuid4()
    making.lines[0]["run"] = str(told)
    assert found(making) == [f"lost: { {told} }"]


def test_two_runs_of_one_start() -> None:
    making = went_well("compensation")
    making.start(is_answered=False)
    for path in ORDERS["compensation"]:
        making.execute(path)
    making.end()
    assert found(making) == ["2 runs were started, where 1 to 1 were to be"]


def test_a_child_is_no_start() -> None:
    making = went_well("plain")
    making.start(is_answered=False, parent=making.run)
    assert found(making) == []


def test_an_instant_that_has_not_fired() -> None:
    making = went_well("schedule")
    making.fires.clear()
    assert found(making) == ["the due instant has fired as []"]


def test_an_instant_that_has_fired_twice() -> None:
    making = went_well("schedule")
    making.fires *= 2
    assert found(making) == [f"the due instant has fired as {making.fires}"]


def test_an_instant_that_has_fired_for_another_run() -> None:
    making = went_well("schedule")
    making.fires = [(uuid4(), "fired")]
    assert found(making) == [f"the due instant has fired as {making.fires}"]


# --- ended_as_told ---------------------------------------------------------------------------


def test_a_cancellation_that_was_acknowledged_and_ignored() -> None:
    making = went_well("plain-cancelled")
    making.cancel()
    assert found(making) == ["succeeded (None), and not cancelled"]


def test_a_run_that_nobody_has_cancelled() -> None:
    making = went_well("plain")
    making.run.status = Status.CANCELLED
    assert found(making) == ["cancelled (None), and not succeeded"]


def test_a_run_that_failed_and_should_not_have() -> None:
    making = went_well("plain")
    making.run.status = Status.FAILED
    making.payloads[making.run.pk, PayloadKind.ERROR] = "boom"
    assert found(making) == ["failed (boom), and not succeeded"]


def test_a_run_that_is_blocked() -> None:
    making = went_well("plain")
    making.run.status, making.run.block_reason = Status.BLOCKED, BlockReason.CRASHED
    assert found(making)[0] == "blocked (crashed), and not succeeded"


def test_a_run_that_should_have_failed() -> None:
    making = went_well("compensation")
    making.run.status = Status.SUCCEEDED
    assert found(making) == ["succeeded (None), and not failed"]


def test_a_step_that_is_not_in_the_journal() -> None:
    making = went_well("plain")
    making.drop("two")
    assert found(making) == ["journaled are ['one', 'three'], and not ['one', 'three', 'two']"]


def test_a_step_that_is_not_in_the_scenario() -> None:
    making = went_well("schedule")
    making.journal("more", Kind.STEP, None)
    assert found(making) == ["journaled are ['more', 'one', 'two'], and not ['one', 'two']"]


def test_a_cancelled_run_need_not_have_all_its_steps() -> None:
    making = Making("plain-cancelled")
    making.start()
    making.execute("one")
    assert found(cancelled(making)) == []


@pytest.mark.parametrize("stored", [[1], None])
def test_a_result_that_the_journal_does_not_make(stored: object) -> None:
    making = went_well("schedule")
    making.payloads = {} if stored is None else {(making.run.pk, PayloadKind.OUTPUT): encode(stored)}
    token = making.token.hex
    assert found(making) == [f"the result is {stored}, and the journal makes {[['one', token], ['two', token]]}"]


# --- crashed_as_often_as_it_may --------------------------------------------------------------


TAKEN_OVER = {"what": "taken over"}


def crashed(action: Action | None, crashes: int = MOST, *, is_at_stake: bool = True, claims: int = MOST + 1) -> Making:
    making = Making("crashing", action)
    run = making.start()
    making.fault(*([run] if is_at_stake else []))
    run.status, run.block_reason = Status.BLOCKED, BlockReason.CRASHED
    run.crashes, run.claims = crashes, claims
    return making


@pytest.mark.parametrize(("action", "line"), [(Action.DIE, {}), (Action.STALL, TAKEN_OVER)])
def test_a_run_whose_process_died_once_too_often_is_blocked(action: Action, line: dict[str, str]) -> None:
    making = crashed(action)
    making.lines += [line] if line else []
    assert found(making) == []


@pytest.mark.parametrize("action", [Action.BEFORE, Action.TERMINATE, Action.STALL])
def test_a_run_that_is_blocked_though_its_process_lived(action: Action) -> None:
    """An error, a lost session and a hand-back are no crash."""
    assert found(crashed(action))[0] == "blocked (crashed), and not succeeded"


@pytest.mark.parametrize("crashes", [MOST - 1, MOST + 1])
def test_a_run_that_is_blocked_after_another_number_of_crashes(crashes: int) -> None:
    assert found(crashed(Action.DIE, crashes)) == [f"blocked after {crashes} crashes, and not {MOST}"]


def test_a_run_that_is_blocked_though_it_had_got_on() -> None:
    making = crashed(Action.DIE)
    making.journal("one", Kind.STEP, None)
    assert found(making) == ["blocked, and journaled are ['one']"]


@pytest.mark.parametrize("action", [Action.DIE, None])
def test_a_run_that_is_blocked_though_no_process_died_with_it(action: Action | None) -> None:
    assert found(crashed(action, is_at_stake=False))[0] == "blocked (crashed), and not succeeded"


def test_a_process_that_holds_a_run_without_knowing_so_lets_its_lease_lapse() -> None:
    assert found(crashed(Action.AFTER, is_at_stake=False)) == []
    assert found(crashed(Action.AFTER, is_at_stake=False, claims=MOST))[0] == "blocked (crashed), and not succeeded"


@pytest.mark.parametrize(("action", "line"), [(Action.DIE, {}), (Action.STALL, TAKEN_OVER)])
def test_a_run_that_goes_on_though_its_process_died_once_too_often(action: Action, line: dict[str, str]) -> None:
    making = went_well("crashing")
    making.action = action
    making.fault(making.run)
    making.lines += [line] if line else []
    assert found(making) == ["succeeded (None), and not blocked"]


@pytest.mark.parametrize("action", [Action.BEFORE, Action.AFTER, Action.TERMINATE, Action.STALL])
def test_a_run_that_goes_on_since_its_process_does(action: Action) -> None:
    making = went_well("crashing")
    making.action = action
    making.fault(making.run)
    assert found(making) == []


def test_a_run_that_got_on_and_keeps_its_crashes() -> None:
    making = went_well("crashing")
    making.run.crashes = 1
    assert found(making) == ["succeeded after 1 crashes, and not 0"]


# --- cancelled_with_its_parent ---------------------------------------------------------------

RAN_ON = "a child is succeeded, and was not over when its parent was cancelled"
LATER = timedelta(seconds=1)


@pytest.fixture
def family() -> Making:
    """A parent that was cancelled and is. Its children are left to the test."""
    making = Making("child-cancelled")
    making.start().cancel_requested_at = timezone.now()
    making.cancel()
    making.end(Status.CANCELLED)
    return making


def child_of(making: Making, parent: Run, status: Status, after: timedelta | None, *, detached: bool = False) -> Run:
    """``after``: when it was over, from the cancellation on; None: it is not."""
    child = making.start(is_answered=False, parent=parent)
    child.status, child.detached = status, detached
    asked = making.runs[0].cancel_requested_at
    child.finished_at = None if asked is None or after is None else asked + after
    return child


def test_a_child_that_is_cancelled_with_its_parent(family: Making) -> None:
    child = child_of(family, family.run, Status.CANCELLED, LATER)
    child_of(family, child, Status.CANCELLED, LATER)
    assert found(family) == []


def test_a_child_that_runs_on_when_its_parent_is_cancelled(family: Making) -> None:
    child_of(family, family.run, Status.SUCCEEDED, LATER)
    assert found(family) == [RAN_ON]


def test_a_child_that_still_runs_when_its_parent_was_cancelled(family: Making) -> None:
    child_of(family, family.run, Status.RUNNING, None)
    assert found(family) == ["a child is running, and was not over when its parent was cancelled"]


def test_a_grandchild_that_runs_on(family: Making) -> None:
    child = child_of(family, family.run, Status.CANCELLED, LATER)
    child_of(family, child, Status.SUCCEEDED, LATER)
    assert found(family) == [RAN_ON]


def test_a_child_that_was_over_before_its_parent_was_cancelled(family: Making) -> None:
    child = child_of(family, family.run, Status.SUCCEEDED, -LATER)
    # The cancellation does not come by a run that is over.
    child_of(family, child, Status.SUCCEEDED, LATER)
    assert found(family) == []


def test_a_detached_child_runs_on(family: Making) -> None:
    child_of(family, family.run, Status.SUCCEEDED, LATER, detached=True)
    assert found(family) == []


def test_a_child_of_a_run_that_nobody_has_cancelled() -> None:
    making = went_well("plain")
    making.run.cancel_requested_at = timezone.now()
    child_of(making, making.run, Status.SUCCEEDED, LATER)
    assert found(making) == []


# --- atomic_once -----------------------------------------------------------------------------


@pytest.mark.parametrize("stands", [0, 2])
def test_writes_of_an_atomic_step_that_stand_otherwise_than_once(stands: int) -> None:
    making = went_well("atomic")
    making.counters = dict.fromkeys(making.counters, stands)
    assert found(making) == [f"'count' is journaled 1 times, and its writes stand {stands} times"]


def test_writes_of_an_atomic_step_that_is_not_journaled() -> None:
    making = cancelled(went_well("atomic-cancelled"))
    making.drop("count")
    assert found(making) == ["'count' is journaled 0 times, and its writes stand 1 times"]


# --- undone_as_often_as_done -----------------------------------------------------------------


@pytest.fixture
def undone() -> Making:
    """It was cancelled at its end, so nobody asks for all of its steps."""
    return cancelled(went_well("compensation-cancelled"))


def test_what_was_done_and_is_not_undone(undone: Making) -> None:
    undone.drop("reserve%undo")
    assert found(undone) == ["done were ['charge', 'reserve'], and undone ['charge']"]


def test_what_could_not_be_undone_is_not_undone(undone: Making) -> None:
    undone.entry("reserve%undo").status = "failed"
    assert found(undone) == ["done were ['charge', 'reserve'], and undone ['charge']"]


def test_what_is_undone_and_was_not_done(undone: Making) -> None:
    undone.drop("charge")
    assert found(undone) == ["done were ['reserve'], and undone ['charge', 'reserve']"]


def test_what_was_not_done_need_not_be_undone(undone: Making) -> None:
    undone.drop("charge")
    undone.drop("charge%undo")
    assert found(undone) == []


def test_what_is_undone_twice(undone: Making) -> None:
    undone.entries.append(undone.entry("charge%undo"))
    assert found(undone) == ["done were ['charge', 'reserve'], and undone ['charge', 'charge', 'reserve']"]
