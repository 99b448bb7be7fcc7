"""What becomes of an outcome while branches that lost a race are still to be undone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_durable.core.clock import utcnow
from django_durable.core.context import Context
from django_durable.core.journal.outcomes import (
    Blocked,
    Completed,
    Ending,
    Failed,
    Lost,
    Outcome,
    Released,
    Retried,
    Suspended,
)
from django_durable.core.journal.states import BlockReason, Phase
from django_durable.executor.attempt import Attempt
from django_durable.executor.branch_threads import BranchThreads
from django_durable.executor.sync_driver import SyncDriver

from .in_memory import MemoryCommit, new_flow
from .test_losers import Held

ERROR = {"type": "ValueError", "message": "no"}
LATER = Suspended("retry:any/loser/s%undo", wake_after=60)


@pytest.fixture
def attempt() -> Any:
    """As far as an attempt is asked here."""
    attempt = object.__new__(Attempt)
    attempt.flow = new_flow(MemoryCommit())
    attempt.flow.losers.add("any/loser", attempt.flow.part("any/loser"))
    return attempt


@pytest.mark.parametrize(
    ("outcome", "settles"),
    [
        (Completed("1"), True),
        (Failed(ERROR), True),
        (Suspended("event:go"), True),
        (Ending(Phase.ON_FAILURE, ERROR), True),
        (Ending(Phase.COMPENSATING, ERROR), False),
        (Released(), False),
        (Lost(), False),
        (Blocked(BlockReason.DIVERGED, "changed"), False),
    ],
)
def test_losers_are_settled_before_an_outcome_after_which_nobody_would_undo_them(
    attempt: Any, outcome: Outcome, settles: bool
) -> None:
    assert attempt.has_losers(outcome) is settles


@pytest.mark.parametrize("outcome", [Failed(ERROR), Ending(Phase.ON_FAILURE, ERROR)])
def test_a_failure_stands_while_a_loser_s_compensation_has_to_be_tried_again(attempt: Any, outcome: Outcome) -> None:
    """A replay of the function might not fail again, and ``on_failure`` is told when all is undone."""
    attempt.flow.outcome = LATER
    assert attempt.settled(outcome) == Ending(Phase.COMPENSATING, ERROR)


def test_a_run_that_waits_or_is_tried_again_waits_for_whatever_comes_first(attempt: Any) -> None:
    attempt.flow.outcome = LATER
    both = attempt.settled(Suspended("event:go"))
    assert set(both.paths) == {"go", "any/loser/s%undo"} and both.wake_after == 60
    assert attempt.settled(Retried(ERROR, 2, 1.0)) == Retried(ERROR, 2, 1.0)


@pytest.mark.behaviour("FLOW-06j")
def test_a_deadline_that_passes_while_losers_are_settled_keeps_none_of_them_from_being_undone(attempt: Any) -> None:
    """How the function ended stands: a failure is not replaced by a time-out either."""
    held, commit, pool, now = Held(), MemoryCommit(), BranchThreads(2), [utcnow()]
    attempt.flow = new_flow(commit, now[0] + timedelta(seconds=100), lambda: now[0])
    attempt._function = lambda: held.racing
    drive = SyncDriver(attempt.flow, commit, pool)
    held.racing(Context(attempt.flow, drive))
    now[0] += timedelta(seconds=200)
    held.pass_by()
    drive(attempt.settling(Failed(ERROR)))
    drive.finish()
    pool.close()
    assert held.order == ["on", "held", "-held"]
    assert attempt.settled(Failed(ERROR)) == Failed(ERROR)
