"""Trees with a member that is alive: retention neither counts them nor lets them take the room of what may go."""

from __future__ import annotations

import pytest

from django_durable.models import Run
from django_durable.store.database import Database
from django_durable.store.pruning import prune
from tests.commands.rows import a_run
from tests.commands.test_pruning import DAYS, KEEP, left, walk

pytestmark = [pytest.mark.django_db, pytest.mark.contract]


def a_live_tree() -> Run:
    """Its root is over and old, its only child is at work."""
    root = a_run(age=50 * DAYS)
    a_run(age=49 * DAYS, parent=root, status="waiting")
    return root


def test_a_dry_run_counts_what_would_go_and_nothing_else() -> None:
    a_live_tree()
    a_run(age=40 * DAYS)
    counted = prune(Database(), 100, KEEP, dry_run=True)
    assert counted.runs == 1
    assert prune(Database(), 100, KEEP).runs == counted.runs


def test_a_live_tree_takes_no_room_of_one_that_may_go() -> None:
    """As large as a step may be: chosen, it would be given up under the lock, and what comes behind it passed by."""
    live, gone = a_live_tree(), a_run(age=40 * DAYS)
    assert walk(limit=2).runs == 1
    assert live.pk in left()
    assert gone.pk not in left()
