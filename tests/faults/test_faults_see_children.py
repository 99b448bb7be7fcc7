"""The enumeration sees what becomes of a cancelled run's children."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kinds import Action
from tests.faults.plants import found

pytestmark = pytest.mark.django_db(transaction=True)


def leave_children_alone() -> None:
    """A cancellation ends at the run that it names."""
    from django_durable.models import Run
    from django_durable.store import transitions

    transitions.attached_children = lambda runs: Run.objects.none()


def test_a_child_that_runs_on_when_its_parent_is_cancelled_is_found(folder: Path) -> None:
    # There are few points from the cancellation to the end.
    problems = found(folder, leave_children_alone, "child-cancelled", Action.DIE, least=5)
    assert problems["untouched"] == ["a child is succeeded, and was not over when its parent was cancelled"]
