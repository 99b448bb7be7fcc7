"""The client cancels runs that have children while these are at work."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from django_durable import get_run
from tests.chaos.client import Client
from tests.chaos.later import Later
from tests.chaos.mixture import MIXTURES
from tests.store.rows import make_run

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 3600.0


class Kept(Later):
    """Nobody works; what is due is asked for."""

    def __init__(self) -> None:
        super().__init__(LONG)
        self.calls: list[Callable[[], bool]] = []

    def add(self, delay: float, call: Callable[[], bool]) -> None:
        self.calls.append(call)


@pytest.mark.parametrize(("child", "expected"), [("waiting", "cancelled"), ("succeeded", "queued")])
def test_a_run_with_children_is_cancelled_once_one_is_at_work(child: str, expected: str) -> None:
    later = Kept()
    client = Client("seed", later, MIXTURES["newest"])
    parent = get_run(make_run().id)
    assert client._cancel_with_children("odd", parent, time.monotonic() + LONG)
    assert parent.refresh().status == "queued"

    make_run(child, parent_id=parent.id)
    [look_again] = later.calls
    assert look_again()
    assert parent.refresh().status == expected
    assert len(later.calls) == (1 if expected == "cancelled" else 2)


def test_a_run_that_is_over_is_not_cancelled() -> None:
    later = Kept()
    parent = get_run(make_run("succeeded").id)
    assert Client("seed", later, MIXTURES["newest"])._cancel_with_children("odd", parent, time.monotonic() + LONG)
    assert later.calls == []


def test_a_run_whose_child_never_comes_is_cancelled_in_the_end() -> None:
    later = Kept()
    parent = get_run(make_run().id)
    assert Client("seed", later, MIXTURES["newest"])._cancel_with_children("odd", parent, time.monotonic())
    assert parent.refresh().status == "cancelled"
    assert later.calls == []
