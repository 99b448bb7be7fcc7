"""How the benchmarks see that something is over: soon, and without being what takes the time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.suite import client
from benchmarks.suite.client import Answer, Client, wait_until
from benchmarks.suite.scenarios import SELDOM
from benchmarks.systems.own.django_durable.counts import Counts
from django_durable import Context, durable_workflow
from django_durable.models import Run
from django_durable.testing import run_until_idle


class Counted:
    """Stands for a client whose runs end ``rate`` a second up to ``most``, and who takes ``look`` seconds to count."""

    def __init__(self, rate: float, most: int, look: float) -> None:
        self.now = self.slept = 0.0
        self.looks = 0
        self._rate, self._most, self._look = rate, most, look

    def ask(self, call: str) -> Answer:
        # As of the moment at which the counting begins.
        there = min(self._most, int(self.now * self._rate))
        self.now += self._look
        self.looks += 1
        return Answer(there, self._look, self._look)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def waited(
    monkeypatch: pytest.MonkeyPatch, rate: float, most: int, look: float, timeout: float = 60.0, **pause: float
) -> tuple[Counted, float]:
    counted = Counted(rate, most, look)
    monkeypatch.setattr(client, "time", SimpleNamespace(perf_counter=lambda: counted.now, sleep=counted.sleep))
    there, at = wait_until(cast(Client, counted), "finished", most, timeout=timeout, **pause)
    assert there == most
    return counted, at


@pytest.mark.parametrize(
    ("rate", "most", "look"),
    [(13_000, 5_000, 0.0005), (13_000, 5_000, 0.003), (2_500, 200, 0.0004), (700, 5_000, 0.002), (50, 2_000, 0.01)],
)
def test_the_end_is_seen_soon_and_the_counting_is_a_small_part(
    monkeypatch: pytest.MonkeyPatch, rate: float, most: int, look: float
) -> None:
    counted, at = waited(monkeypatch, rate, most, look)
    late = at - most / rate
    assert 0 <= late <= max(4 * look, 0.05 * most / rate)
    assert counted.looks * look <= 0.12 * at + 8 * look


@pytest.mark.parametrize(("rate", "most"), [(2_500, 500), (13_000, 2_000), (270, 2_000)])
def test_what_grows_steadily_takes_few_looks(monkeypatch: pytest.MonkeyPatch, rate: float, most: int) -> None:
    """As the steps of S3 and S4."""
    look = 0.0004
    counted, at = waited(monkeypatch, rate, most, look, pause=SELDOM)
    assert counted.looks <= 12 + most / rate / SELDOM
    assert at - most / rate <= 4 * look


def test_what_ends_all_at_once_is_seen_within_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing tells that the end is near."""
    counted = Counted(1, 200, 0.0005)
    monkeypatch.setattr(counted, "ask", _all_at(counted, 0.0804))
    monkeypatch.setattr(client, "time", SimpleNamespace(perf_counter=lambda: counted.now, sleep=counted.sleep))
    _, at = wait_until(cast(Client, counted), "finished", 200, timeout=1.0)
    assert at <= 0.0804 + 0.006


def _all_at(counted: Counted, instant: float) -> Any:
    def ask(call: str) -> Answer:
        there = 200 if counted.now >= instant else 0
        counted.now += 0.0005
        return Answer(there, 0.0005, 0.0005)

    return ask


def test_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TimeoutError, match=r"finished: \d+ of 100"):
        waited(monkeypatch, 1.0, 100, 0.001, timeout=2.0)


# --- this project's own client ---------------------------------------------------------------------


@durable_workflow(name="counting.steps")
def steps(ctx: Context, count: int) -> int:
    return sum(ctx.step(f"{turn}", int, turn) for turn in range(count))


@pytest.mark.django_db(transaction=True)
def test_what_was_over_before_is_counted_once() -> None:
    counts = Counts()
    assert (counts.finished(), counts.steps()) == (0, 0)
    for round_, each in enumerate((2, 3, 1), start=1):
        steps.enqueue_many([{"count": each}] * 4)
        assert counts.finished() == 4 * (round_ - 1)
        run_until_idle()
        expected = {1: 8, 2: 20, 3: 24}[round_]
        assert (counts.finished(), counts.steps()) == (4 * round_, expected)
        # From the second look on it begins behind them.
        assert (counts.finished(), counts.steps()) == (4 * round_, expected)
        assert counts._after == Run.objects.latest("pk").pk


@pytest.mark.django_db(transaction=True)
def test_what_is_not_over_is_not_left_behind() -> None:
    counts = Counts()
    steps.enqueue(count=1)
    run_until_idle()
    assert counts.finished() == 1
    steps.enqueue(count=1)
    assert (counts.finished(), counts.steps()) == (1, 1)
    run_until_idle()
    assert (counts.finished(), counts.steps()) == (2, 2)


@pytest.mark.django_db(transaction=True)
def test_of_a_history_nothing_is_counted() -> None:
    steps.enqueue(count=1)
    run_until_idle()
    counts = Counts(Run.objects.get().pk)
    steps.enqueue(count=2)
    run_until_idle()
    assert (counts.finished(), counts.steps()) == (1, 2)
