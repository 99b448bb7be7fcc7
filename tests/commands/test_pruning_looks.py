"""How often a walk looks for what is no run: a look may read a whole table, and a walk has thousands of steps."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from django_durable.models import Audit, Fire, IdempotencyKey, Limit, Run, Schedule, Worker
from django_durable.store.database import Database, Row
from django_durable.store.pruning import Pruned, prune
from django_durable.worker.loops import prune as loop
from tests.commands.rows import a_process, a_run
from tests.commands.test_pruning import KEEP, walk

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
DAYS = timedelta(days=1)
OTHERS = ("idempotencykey", "worker", "fire", "audit", "limit")
LIMIT = 2


class Watched(Database):
    """Counts the looks for rows of each kind that are no runs."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: Counter[str] = Counter()

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        if found := re.match(rf"\s*SELECT (?:\w\.)?id FROM django_durable_({'|'.join(OTHERS)})\b", sql):
            self.looks[found[1]] += 1
        return super().rows(sql, **parameters)


def windows(count: int) -> None:
    """So many old runs that stay that a walk has ``count`` steps."""
    for _ in range(40 * (count - 1) + 1):
        a_run(age=50 * DAYS, status="waiting")


def fires(count: int, run_id: UUID | None = None) -> list[Fire]:
    schedule, _ = Schedule.objects.get_or_create(workflow="w", name="s", expression="@daily")
    made = []
    for _ in range(count):
        at = timezone.now() - 40 * DAYS
        made.append(
            Fire.objects.create(
                schedule=schedule, scheduled_for=at, fired_at=at, run_id=run_id or uuid4(), outcome="started"
            )
        )
    return made


def many_of_each(count: int) -> None:
    for _ in range(count):
        name = str(uuid4())
        past = timezone.now() - 40 * DAYS
        IdempotencyKey.objects.create(
            workflow="w", key=name, key_hash=name, run_id=uuid4(), input_hash="h", expires_at=past
        )
        a_process(2 * DAYS)
        Audit.objects.create(workflow="w", schedule="s", verb="fire", status_before="", at=past)
        Limit.objects.create(key=name, admitted_at=past)
    fires(count)


def left() -> list[int]:
    return [table.objects.count() for table in (IdempotencyKey, Worker, Fire, Audit, Limit)]


@pytest.mark.parametrize("count", [0, 1])
def test_a_walk_looks_once_for_what_is_no_run(count: int) -> None:
    windows(4)
    many_of_each(count)
    db, steps = Watched(), list[Pruned]()
    total = walk(LIMIT, db=db, steps=steps)
    assert len(steps) == 4
    # Once more at its end for fires, which the deletion of their runs has freed.
    assert db.looks == {**dict.fromkeys(OTHERS, 1), "fire": 2}
    assert left() == [0] * 5
    assert (total.idempotency_keys, total.workers, total.fires) == (count,) * 3


def test_of_what_there_is_more_than_a_step_may_delete_the_next_deletes_more() -> None:
    windows(4)
    many_of_each(1)
    fires(4)
    db = Watched()
    assert walk(LIMIT, db=db).fires == 5
    assert db.looks == {**dict.fromkeys(OTHERS, 1), "fire": 4}


def test_every_kind_goes_on_as_long_as_there_is_more_of_it() -> None:
    windows(4)
    many_of_each(5)
    db = Watched()
    walk(LIMIT, db=db)
    assert left() == [0] * 5
    assert db.looks == {**dict.fromkeys(OTHERS, 3), "fire": 4}


def test_what_is_no_run_goes_in_one_walk_however_few_runs_there_are() -> None:
    many_of_each(5)
    steps = list[Pruned]()
    walk(LIMIT, steps=steps)
    assert len(steps) == 3
    assert left() == [0] * 5


def test_fires_of_runs_that_a_walk_deletes_go_with_them() -> None:
    first = a_run(age=50 * DAYS)
    windows(4)
    last = a_run(age=45 * DAYS)
    fires(1, first.pk)
    fires(1, last.pk)
    assert walk(LIMIT).fires == 2


def test_a_walk_comes_past_a_fire_that_stays_once() -> None:
    """Those of runs that are kept for longer come first, and there may be any number of them."""
    windows(3)
    run = Run.objects.all()[0]
    kept, *gone = fires(1, run.pk) + fires(4)
    first = prune(Database(), LIMIT, KEEP)
    assert first.fires == 2
    Fire.objects.filter(pk=kept.pk).update(run_id=uuid4())
    second = prune(Database(), LIMIT, KEEP, after=first.after)
    assert second.fires == 2
    assert set(Fire.objects.all()) == {kept}
    assert len(gone) == 4
    assert walk(LIMIT).fires == 1


def test_a_worker_looks_once_in_each_of_its_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    windows(3)
    monkeypatch.setattr(loop, "BATCH", LIMIT)
    db = Watched()
    pruning = loop.Prune(db)
    for steps in range(1, 7):
        pruning.tick()
        looks = dict.fromkeys(OTHERS, 1 + (steps > 3))
        assert db.looks == {**looks, "fire": looks["fire"] + (steps >= 3) + (steps >= 6)}


def test_a_dry_run_counts_everything_once() -> None:
    windows(3)
    many_of_each(5)
    step = prune(Database(), LIMIT, KEEP, dry_run=True)
    counts = [step]
    while step.after is not None:
        step = prune(Database(), LIMIT, KEEP, after=step.after, dry_run=True)
        counts.append(step)
    assert [step.fires for step in counts] == [5, 0, 0]
    assert left() == [5] * 5
