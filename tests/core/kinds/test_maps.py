"""Maps of steps: items that wait for their next attempt, and how many are worked on at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.flow import branches
from django_durable.core.flow.effects import Spawn
from django_durable.core.journal.outcomes import Suspended
from django_durable.core.retries import Retry
from tests.core.driving import NOON, World, wake_of

MINUTE = Retry(max_attempts=3, initial=60, jitter=0)


class Shop:
    """Items take three seconds each; those in ``broken`` fail at their first try."""

    def __init__(self, *broken: int, step_retry: Retry = MINUTE) -> None:
        self.world = World(step_retry=step_retry, pick=self.pick)
        self.broken = set(broken)
        self.done: list[int] = []
        self.most = 0

    def pick(self, spawned: Sequence[Spawn]) -> Spawn:
        self.most = max(self.most, len(spawned))
        return spawned[0]

    def work(self, item: int) -> int:
        self.world.now += timedelta(seconds=3)
        self.done.append(item)
        if item in self.broken:
            self.broken.remove(item)
            raise ValueError(item)
        return item

    def map(self, count: int, max_parallel: int) -> Any:
        return lambda ctx: self._map(ctx, count, max_parallel)

    def _map(self, ctx: Context, count: int, max_parallel: int) -> Any:
        return ctx.map("each", self.work, range(count), max_parallel=max_parallel)


def test_a_run_whose_items_wait_is_woken_for_the_first_of_them() -> None:
    shop = Shop(0, 1)
    outcome = shop.world.attempt(shop.map(2, 2))
    assert isinstance(outcome, Suspended)
    assert wake_of(shop.world, outcome) == NOON + timedelta(seconds=63)
    assert shop.world.value(shop.map(2, 2)) == [0, 1]


def test_an_item_that_waits_for_its_next_attempt_leaves_its_place_to_others() -> None:
    shop = Shop(0)
    assert isinstance(shop.world.attempt(shop.map(4, 1)), Suspended)
    assert shop.done == [0, 1, 2, 3]
    assert shop.world.value(shop.map(4, 1)) == [0, 1, 2, 3]


def test_its_next_attempt_comes_before_items_that_were_never_tried() -> None:
    shop = Shop(0, 1, step_retry=Retry(max_attempts=3, initial=5, jitter=0))
    assert shop.world.value(shop.map(6, 1)) == list(range(6))
    assert shop.done == [0, 1, 2, 0, 1, 3, 4, 5]
    assert shop.world.attempts == 1


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_more_than_the_limit_are_worked_on_although_many_come_due_at_once(limit: int) -> None:
    shop = Shop(*range(12), step_retry=Retry(max_attempts=3, initial=7, jitter=0))
    assert shop.world.value(shop.map(12, limit)) == list(range(12))
    assert shop.most == limit


def test_where_very_many_wait_no_others_are_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage: it is time to wait, and not to try thousands more."""
    monkeypatch.setattr(branches, "ASIDE", 3)
    shop = Shop(*range(9))
    assert isinstance(shop.world.attempt(shop.map(9, 1)), Suspended)
    assert shop.done == [0, 1, 2]
    assert shop.world.value(shop.map(9, 1)) == list(range(9))
