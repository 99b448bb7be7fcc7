"""How long the next leader waits, and for whom."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from django_durable.core import clock
from django_durable.worker import company as module
from django_durable.worker.company import Company
from tests.processes import PATIENCE, wait_until

LONG = 10 * PATIENCE
"""Seconds: whoever waits for so long fails the test."""


@pytest.fixture
def mutex() -> threading.Lock:
    return threading.Lock()


@pytest.fixture
def company(mutex: threading.Lock, monkeypatch: pytest.MonkeyPatch) -> Company:
    monkeypatch.setattr(module, "TURN_SECONDS", LONG)
    monkeypatch.setattr(module, "LONGEST_SECONDS", LONG)
    return Company(mutex)


@pytest.fixture
def is_back(company: Company, mutex: threading.Lock) -> Callable[[], None]:
    def is_back() -> None:
        with mutex:
            company.is_back()

    return is_back


@pytest.fixture
def gather(company: Company) -> Callable[[], threading.Thread]:
    def gather() -> threading.Thread:
        leader = threading.Thread(target=company.gather, daemon=True)
        leader.start()
        return leader

    return gather


def is_waiting(company: Company) -> bool:
    return company._all_back is not None


def test_the_leader_waits_until_the_last_of_them_is_back(
    company: Company, is_back: Callable[[], None], gather: Callable[[], threading.Thread]
) -> None:
    company.part(3)
    is_back()
    leader = gather()
    wait_until(lambda: is_waiting(company), message="the leader waits")
    is_back()
    assert leader.is_alive() and is_waiting(company)
    is_back()
    leader.join(PATIENCE)
    assert not leader.is_alive() and not is_waiting(company)


@pytest.mark.parametrize("threads", [0, 1])
def test_nobody_is_waited_for_who_was_alone(
    company: Company, gather: Callable[[], threading.Thread], threads: int
) -> None:
    company.part(threads)
    leader = gather()
    leader.join(PATIENCE)
    assert not leader.is_alive()


def test_nobody_is_waited_for_who_has_had_the_time(company: Company, gather: Callable[[], threading.Thread]) -> None:
    company.part(3)
    clock.set_offset(timedelta(seconds=LONG + 1))
    try:
        leader = gather()
        leader.join(PATIENCE)
        assert not leader.is_alive()
    finally:
        clock.set_offset(timedelta())


def test_who_does_not_come_is_waited_for_once(
    company: Company, is_back: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", 0.02)
    company.part(5)
    began = time.monotonic()
    company.gather()
    assert time.monotonic() - began >= 0.09
    # They are forgotten: who comes late is company for nobody, and rouses nobody.
    is_back()
    assert (company._away, is_waiting(company)) == (0, False)


def test_for_many_it_is_no_longer_than_a_write_may_wait(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_SECONDS", 0.02)
    company.part(1_000)
    began = time.monotonic()
    company.gather()
    assert 0.01 <= time.monotonic() - began < LONG
