"""What becomes of an outcome while branches that lost a race are still to be undone."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.core.flow.undoing import Loser
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

from .in_memory import MemoryCommit, new_flow

ERROR = {"type": "ValueError", "message": "no"}
LATER = Suspended("retry:any/loser/s%undo", wake_after=60)


@pytest.fixture
def attempt() -> Any:
    """As far as an attempt is asked here."""
    attempt = object.__new__(Attempt)
    attempt.flow = new_flow(MemoryCommit())
    attempt.flow.losers.append(Loser("any/loser", attempt.flow.part("any/loser")))
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
