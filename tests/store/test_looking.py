"""Runs that are found among the first so many of an order."""

from __future__ import annotations

import pytest
from django.db.models import Q

from django_durable.models import Run
from django_durable.store.database import Database
from django_durable.store.looking import Fitting, Look, fitting, has_more
from tests.store.rows import make_run

pytestmark = pytest.mark.django_db
RARE = Q(workflow="rare")


def newest(most: int, **which: str) -> Look:
    return Look(Run.objects.filter(**which).order_by("-pk"), most)


def test_only_so_many_are_looked_at() -> None:
    rare = [make_run(workflow="rare") for _ in range(2)]
    others = [make_run() for _ in range(3)]
    assert fitting(Database(), [newest(3)], RARE, 10) == Fitting()
    assert fitting(Database(), [newest(4)], RARE, 10).ids == [rare[1].pk]
    assert fitting(Database(), [newest(5)], RARE, 10).ids == [rare[1].pk, rare[0].pk]
    assert fitting(Database(), [newest(2)], Q(), 10).ids == [others[2].pk, others[1].pk]


def test_a_part_comes_with_the_count_and_the_last_of_all() -> None:
    runs = [make_run() for _ in range(6)]
    found = fitting(Database(), [newest(100)], Q(), 5, slice(1, 3))
    assert found == Fitting([runs[4].pk, runs[3].pk], 5, runs[1].pk)
    assert fitting(Database(), [newest(100)], Q(), 5, slice(10, 20)) == Fitting()


def test_several_looks_are_one_list_newest_first() -> None:
    runs = [make_run(status) for status in ("failed", "blocked", "failed", "queued", "blocked")]
    looks = [newest(10, status="failed"), newest(10, status="blocked")]
    found = fitting(Database(), looks, Q(), 3)
    assert found == Fitting([runs[4].pk, runs[2].pk, runs[1].pk], 3, runs[1].pk)


def test_what_stands_in_another_order_is_not_cut_before_it_is_sorted() -> None:
    runs = [make_run(priority=priority) for priority in (9, 1, 5)]
    look = Look(Run.objects.order_by("-priority"), 10, is_newest_first=False)
    assert fitting(Database(), [look], Q(), 2).ids == [runs[2].pk, runs[1].pk]


def test_whether_some_were_not_looked_at() -> None:
    for status in ("failed", "failed", "blocked"):
        make_run(status)
    assert not has_more(Database(), [newest(2, status="failed"), newest(1, status="blocked")])
    assert has_more(Database(), [newest(1, status="failed"), newest(1, status="blocked")])
    assert has_more(Database(), [newest(2, status="failed"), newest(0, status="blocked")])
