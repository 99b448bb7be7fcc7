"""An atomic step whose process dies at every statement and commit: what it does in the database happens once."""

from __future__ import annotations

from itertools import count
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

FEWEST_POINTS = 10
"""Body, fence and COMMIT, each with a before and an after: fewer would mean that the deaths miss the engine."""


def test_the_effect_is_there_once_wherever_the_process_dies() -> None:
    for point in count(1):
        run, worker = counting.enqueue(f"at {point}"), uuid4()
        status = Command("die_in_atomic_step", str(worker), str(point)).wait()
        was_journaled = JournalEntry.objects.filter(run_id=run.id, path="count").exists()
        assert was_journaled == Counter.objects.filter(name=f"at {point}").exists()
        reap_worker(Database(), worker, lease=30, max_crashes=3)
        run_until_idle()
        assert run.result() == 1
        assert Counter.objects.get(name=f"at {point}").value == 1
        if status == 0:
            break
        assert status == DIED
    assert point > FEWEST_POINTS
    assert not Run.objects.exclude(status="succeeded").exists()
