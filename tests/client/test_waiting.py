"""When who waits for the end of a run looks, where a look takes no time."""

from __future__ import annotations

import pytest

from django_durable.client import waiting
from django_durable.client.waiting import FIRST_PAUSE, LAST_PAUSE, LATE, pauses


class Clock:
    """Stands still but for the pauses."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def looks_at(end: float, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The instants of the looks for what is there after ``end`` seconds."""
    clock, found = Clock(), list[float]()
    monkeypatch.setattr(waiting, "time", clock)

    def is_there() -> bool:
        found.append(clock.now)
        return clock.now >= end

    for pause in pauses(is_there, None, "result()", "", str):
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
