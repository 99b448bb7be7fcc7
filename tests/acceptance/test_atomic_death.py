"""An atomic step whose process dies at every statement and commit: what it does in the database happens once."""

from __future__ import annotations

from uuid import uuid4

import pytest

from django_durable.models import JournalEntry, Run
from django_durable.store.database import Database
from django_durable.store.recovery import reap_worker
from django_durable.testing import run_until_idle
from tests.app.faults import counting
from tests.app.management.commands.die_in_atomic_step import DIED
from tests.app.models import Counter
from tests.processes import Command

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

FEWEST_POINTS, MOST_POINTS = 10, 40
"""Body, fence and COMMIT, each with a before and an after: fewer would mean that the deaths miss the engine."""


def test_the_effect_is_there_once_wherever_the_process_dies() -> None:
    runs = {f"at {point}": counting.enqueue(f"at {point}") for point in range(1, MOST_POINTS + 1)}
    worker = uuid4()
    process = Command("die_in_atomic_step", str(worker))
    assert process.wait() == 0, process.log
    deaths = [int(line) for line in process.log.splitlines()]
    assert deaths == [DIED] * (len(deaths) - 1) + [0]
    assert FEWEST_POINTS < len(deaths) < MOST_POINTS

    left = Run.objects.filter(leased_by=worker)
    assert left.count() + 1 == Run.objects.filter(claims=1).count() == len(deaths)
    for name, run in runs.items():
        was_journaled = JournalEntry.objects.filter(run_id=run.id, path="count").exists()
        assert was_journaled == Counter.objects.filter(name=name).exists(), name
    reap_worker(Database(), worker, lease=30, max_crashes=3)
    run_until_idle()
    assert [run.result() for run in runs.values()] == [1] * MOST_POINTS
    assert set(Counter.objects.values_list("name", "value")) == {(name, 1) for name in runs}
    assert not Run.objects.exclude(status="succeeded").exists()
