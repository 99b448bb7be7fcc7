"""When who waits for the end of a run looks, where a look takes no time."""

from __future__ import annotations

import pytest

from django_durable.client import waiting
from django_durable.client.waiting import EARLY, FIRST_PAUSE, LAST_PAUSE, LATE, LONGEST_REST, Usual, pauses


class Clock:
    """Stands still but for the pauses."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def looks_at(end: float, monkeypatch: pytest.MonkeyPatch, usual: Usual | None = None) -> list[float]:
    """The instants of the looks for what is there after ``end`` seconds."""
    clock, found = Clock(), list[float]()
    monkeypatch.setattr(waiting, "time", clock)

    def is_there() -> bool:
        found.append(clock.now)
        return clock.now >= end

    for pause in pauses(is_there, None, "result()", "", str, usual or Usual()):
        clock.now += pause
    return found


@pytest.mark.parametrize(
    ("end", "late"),
    [
        (0.0004, FIRST_PAUSE),
        (0.006, 0.006 * LATE),
        (0.1, 0.1 * LATE),
        (0.9, 0.9 * LATE),
        (60, LAST_PAUSE),
    ],
)
def test_what_was_short_is_seen_soon(end: float, late: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert end <= looks_at(end, monkeypatch)[-1] <= end + late


def test_who_waits_for_long_looks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = looks_at(13, monkeypatch)
    assert len([at for at in looks if at < 0.02]) <= 36
    assert len([at for at in looks if 0.02 <= at < 1]) <= 42
    assert len([at for at in looks if 1 <= at < 3]) <= 12
    assert len([at for at in looks if 3 <= at < 13]) in (40, 41)


def usual_of(*ends: float, monkeypatch: pytest.MonkeyPatch) -> Usual:
    """What is known after waits for what was there after so many seconds each."""
    usual = Usual()
    for end in ends:
        looks_at(end, monkeypatch, usual)
    return usual


def test_who_knows_how_long_it_takes_looks_at_once_and_then_shortly_before(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = usual_of(*[0.002] * 60, monkeypatch=monkeypatch)
    first, second, *others = looks_at(0.002, monkeypatch, usual)
    assert first == 0
    assert EARLY * 0.0018 <= second < 0.002
    assert 1 <= len(others) <= 4
    assert len(looks_at(0.002, monkeypatch)) >= 9


def test_what_is_over_sooner_than_usual_is_seen_a_little_late_and_less_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = usual_of(*[3600.0] * 60, monkeypatch=monkeypatch)
    assert looks_at(0.0001, monkeypatch, usual) == [0, LONGEST_REST]
    for _ in range(8):
        looks = looks_at(0.0001, monkeypatch, usual)
    assert looks == [0, FIRST_PAUSE]


def test_one_that_takes_long_makes_nobody_wait_who_comes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = usual_of(*[0.0004] * 60, monkeypatch=monkeypatch)
    looks_at(0.004, monkeypatch, usual)
    assert looks_at(0.0004, monkeypatch, usual)[-1] <= 0.0004 + FIRST_PAUSE + EARLY * 0.1 * 0.004


def test_what_was_there_at_once_says_nothing_of_how_long_the_others_take(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = usual_of(*[0.002] * 60, monkeypatch=monkeypatch)
    rest = usual.rest
    assert looks_at(0.0, monkeypatch, usual) == [0]
    assert usual.rest == rest > FIRST_PAUSE


def test_who_has_little_time_does_not_rest_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = usual_of(*[3600.0] * 60, monkeypatch=monkeypatch)
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    looks = pauses(lambda: False, 0.0005, "result()", "", str, usual)
    assert next(looks) == 0.0005
    clock.now += 0.0005
    with pytest.raises(TimeoutError):
        next(looks)
