"""How long the next leader waits, and for whom."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from django_durable.worker import cohort as module
from django_durable.worker.cohort import Cohort
from tests.processes import PATIENCE, wait_until

LONG = 10 * PATIENCE
"""Seconds: whoever waits for so long fails the test."""


@pytest.fixture
def mutex() -> threading.Lock:
    return threading.Lock()


@pytest.fixture
def cohort(mutex: threading.Lock, monkeypatch: pytest.MonkeyPatch) -> Cohort:
    monkeypatch.setattr(module, "TURN_SECONDS", LONG)
    monkeypatch.setattr(module, "LONGEST_SECONDS", LONG)
    return Cohort(mutex)


@pytest.fixture
def answer(cohort: Cohort, mutex: threading.Lock) -> Callable[[int], None]:
    def answer(threads: int) -> None:
        with mutex:
            cohort.answered(threads)

    return answer


@pytest.fixture
def return_one(cohort: Cohort, mutex: threading.Lock) -> Callable[[], None]:
    def return_one() -> None:
        with mutex:
            cohort.returned()

    return return_one


@pytest.fixture
def lead(cohort: Cohort) -> Callable[[], threading.Thread]:
    """A leader that waits, in a thread of its own: a fault in the test must not take the session with it."""

    def lead() -> threading.Thread:
        leader = threading.Thread(target=cohort.wait, daemon=True)
        leader.start()
        return leader

    return lead


def goes_on(leader: threading.Thread) -> bool:
    leader.join(PATIENCE)
    return not leader.is_alive()


def test_the_leader_waits_until_the_last_of_them_has_returned(
    cohort: Cohort,
    answer: Callable[[int], None],
    return_one: Callable[[], None],
    lead: Callable[[], threading.Thread],
) -> None:
    answer(3)
    return_one()
    leader = lead()
    wait_until(lambda: cohort._all_returned is not None, message="the leader waits")
    waited_for = cohort._all_returned
    return_one()
    assert waited_for is not None and waited_for.locked()
    return_one()
    assert goes_on(leader)
    assert cohort._all_returned is None


@pytest.mark.parametrize("threads", [-1, 0, 1])
def test_nobody_is_waited_for_who_was_alone(
    answer: Callable[[int], None], lead: Callable[[], threading.Thread], threads: int
) -> None:
    answer(threads)
    assert goes_on(lead())


def test_nobody_is_waited_for_who_has_had_the_time(
    answer: Callable[[int], None], lead: Callable[[], threading.Thread], travel: Callable[[float], None]
) -> None:
    answer(3)
    travel(LONG + 1)
    assert goes_on(lead())


def test_who_does_not_come_is_waited_for_once(
    cohort: Cohort,
    answer: Callable[[int], None],
    return_one: Callable[[], None],
    lead: Callable[[], threading.Thread],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", 0.02)
    began = time.monotonic()
    answer(5)
    assert goes_on(lead())
    assert time.monotonic() - began >= 0.1
    # They are forgotten: who comes late is company for nobody, and rouses nobody.
    return_one()
    assert (cohort._away, cohort._all_returned) == (0, None)


def test_for_many_it_is_no_longer_than_a_write_may_wait(
    answer: Callable[[int], None], lead: Callable[[], threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_SECONDS", 0.02)
    began = time.monotonic()
    answer(1_000)
    assert goes_on(lead())
    assert time.monotonic() - began >= 0.02


def test_a_clock_that_is_set_back_makes_nobody_wait_for_longer(
    answer: Callable[[int], None],
    lead: Callable[[], threading.Thread],
    travel: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LONGEST_SECONDS", 0.02)
    answer(2)
    travel(-LONG)
    assert goes_on(lead())
