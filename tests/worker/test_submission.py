"""Those who wait for a commit, and how they are told of it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from math import inf
from uuid import UUID

import pytest

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.store.receipts import Receipt
from django_durable.worker.submission import SHARE_SECONDS, Submission, Turns, answer_all


class Waiting:
    """A thread that waits for its write; ``goes_on`` is set once it is roused, and it ends when it may."""

    def __init__(self, run: int) -> None:
        self.goes_on, self.may_end = threading.Event(), threading.Event()
        self._is_there = threading.Event()
        self._run = run
        self.thread = threading.Thread(target=self._wait, daemon=True)
        self.thread.start()
        assert self._is_there.wait(60)

    def _wait(self) -> None:
        self.submission = Submission(Lease(UUID(int=self._run), UUID(int=0), inf), Write())
        self._is_there.set()
        self.submission.wait()
        self.goes_on.set()
        self.may_end.wait(60)


def test_all_threads_of_a_batch_go_on_though_none_of_them_ends() -> None:
    all_of_them = [Waiting(run) for run in range(8)]
    answer_all(one.submission for one in all_of_them)
    assert all(one.goes_on.wait(60) for one in all_of_them)


def test_a_loop_that_was_closed_keeps_nobody_else_from_being_told() -> None:
    closed, alive = asyncio.new_event_loop(), asyncio.new_event_loop()
    receipt = Receipt(is_held=True)
    told = [
        Submission(Lease(UUID(int=run), UUID(int=0), inf), Write(), loop) for run, loop in enumerate((closed, alive))
    ]
    for one in told:
        one.settle(receipt)
    closed.close()
    answer_all(told)
    future = told[1].future
    assert future is not None
    assert alive.run_until_complete(asyncio.wait_for(future, 60)) is receipt
    alive.close()


def unstarted(count: int) -> list[Submission]:
    """Of threads that have yet to begin to wait."""
    made: list[Submission] = []

    def make() -> None:
        made.extend(Submission(Lease(UUID(int=run), UUID(int=0), inf), Write()) for run in range(count))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made


def roused(submissions: list[Submission]) -> list[bool]:
    return [one._waits is not None and not one._waits.locked() for one in submissions]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Holds the time."""
    time = [100.0]
    monkeypatch.setattr(clock, "monotonic", lambda: time[0])
    return time


def test_each_thread_rouses_the_next_one_before_it_goes_on(now: list[float]) -> None:
    first, second, third = those = unstarted(3)
    answer_all(those)
    assert roused(those) == [True, False, False]
    first.wait()
    assert roused([second, third]) == [True, False]
    second.wait()
    assert roused([third]) == [True]


def test_of_two_that_rouse_at_once_one_finds_the_last_one_gone() -> None:
    class TakenMeanwhile(deque[Submission]):
        def __bool__(self) -> bool:
            return True

    turns = Turns([])
    turns._left = TakenMeanwhile()
    turns.pass_on()


def test_where_a_turn_takes_long_all_are_roused_that_are_left(now: list[float]) -> None:
    first, *others = those = unstarted(4)
    answer_all(those)
    now[0] += 2 * SHARE_SECONDS
    first.wait()
    assert roused(others) == [True, True, True]


def test_who_has_led_the_commit_is_not_waited_for(now: list[float]) -> None:
    own = Submission(Lease(UUID(int=9), UUID(int=0), inf), Write())
    others = unstarted(2)
    answer_all([own, *others])
    assert roused(others) == [True, False]
