"""When who waits for the end of a run looks."""

from __future__ import annotations

import pytest

from django_durable.client import waiting
from django_durable.client.waiting import FIRST_PAUSE, LAST_PAUSE, LATE, LATER, LONGEST_REST, Usual, pauses
from django_durable.exceptions import ResultUnavailable


class Clock:
    """Stands still but for the pauses."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def looks_at(
    end: float,
    monkeypatch: pytest.MonkeyPatch,
    usual: Usual | None = None,
    takes: float = 0.0,
    started: float | None = None,
) -> list[float]:
    """The instants of the looks for what is there after ``end`` seconds, where each look ``takes`` some time."""
    clock, found = Clock(), list[float]()
    monkeypatch.setattr(waiting, "time", clock)

    def is_there() -> bool:
        found.append(clock.now)
        clock.now += takes
        return found[-1] >= end

    for pause in pauses(is_there, None, "result()", "", str, usual or Usual(), started):
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
    assert len([at for at in looks if at < 0.02]) <= 42
    assert len([at for at in looks if 0.02 <= at < 1]) <= 42
    assert len([at for at in looks if 1 <= at < 3]) <= 12
    assert len([at for at in looks if 3 <= at < 13]) in (40, 41)


def usual_of(*ends: float, monkeypatch: pytest.MonkeyPatch) -> Usual:
    """What is known after waits for what was there after so many seconds each."""
    usual = Usual()
    for end in ends:
        looks_at(end, monkeypatch, usual)
    return usual


@pytest.mark.parametrize("takes", [0.0, 0.0001, 0.0003])
def test_who_knows_how_long_it_takes_looks_at_once_and_then_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch, takes: float
) -> None:
    """Also where looks take time, which must not pass for that of the run."""
    usual, end = usual_of(*[3600.0] * 10, monkeypatch=monkeypatch), 0.0013
    waits = [looks_at(end, monkeypatch, usual, takes) for _ in range(100)][50:]
    assert {len(looks) for looks in waits} <= {2, 3, 4}
    assert all(looks[0] == 0 for looks in waits)
    late = [looks[-1] - end for looks in waits]
    assert max(late) <= takes + max(FIRST_PAUSE, LATE * (end + takes))
    assert sum(late) / len(late) < takes / 2 + LATE * end
    assert len(looks_at(end, monkeypatch)) >= 9


def test_what_is_over_sooner_than_usual_is_seen_a_little_late_and_less_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = usual_of(*[3600.0] * 60, monkeypatch=monkeypatch)
    seconds = [looks_at(0.0001, monkeypatch, usual) for _ in range(40)]
    assert seconds[0] == [0, pytest.approx(LONGEST_REST)]
    assert [second for _, second in seconds] == sorted((second for _, second in seconds), reverse=True)
    assert seconds[-1] == [0, FIRST_PAUSE]


@pytest.mark.parametrize("long", [0.004, 0.05, 3600.0])
def test_after_one_that_takes_long_short_ones_are_seen_a_little_late(
    monkeypatch: pytest.MonkeyPatch, long: float
) -> None:
    usual, end = usual_of(*[0.0004] * 60, monkeypatch=monkeypatch), 0.0004
    looks_at(long, monkeypatch, usual)
    assert looks_at(end, monkeypatch, usual)[-1] <= end + FIRST_PAUSE + LATER * LONGEST_REST


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


def test_who_has_just_started_it_does_not_look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, end = usual_of(*[3600.0] * 10, monkeypatch=monkeypatch), 0.0013
    waits = [looks_at(end, monkeypatch, usual, 0.0001, started=0.0) for _ in range(100)][50:]
    assert {len(looks) for looks in waits} <= {1, 2}
    assert min(looks[0] for looks in waits) > end / 2
    # Nobody knows anything yet; or he has done something else meanwhile; or it was started by the clock of another one.
    assert looks_at(end, monkeypatch, Usual(), started=0.0)[0] == 0
    assert looks_at(end, monkeypatch, usual, started=-1.0)[0] == 0
    assert looks_at(end, monkeypatch, usual, started=1000.0)[0] <= LONGEST_REST
    assert usual.rest >= 0


@pytest.mark.parametrize("end", [0.0003, 0.0015])
def test_who_comes_long_after_the_start_learns_how_long_such_waits_take(
    monkeypatch: pytest.MonkeyPatch, end: float
) -> None:
    """Not how long he has done something else."""
    usual = Usual()
    for _ in range(60):
        looks_at(end, monkeypatch, usual, started=-0.02)
    assert end / 2 <= usual.rest <= end + FIRST_PAUSE


def test_who_could_only_hang_looks_first_also_for_what_he_has_just_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a TestCase, whose transaction is open, what was worked off meanwhile has its result."""
    usual = usual_of(*[3600.0] * 60, monkeypatch=monkeypatch)
    refusal = ResultUnavailable("it would hang")
    monkeypatch.setattr(waiting, "_refusal", lambda call, instead: refusal)
    assert looks_at(0.0, monkeypatch, usual, started=0.0) == [0]
    with pytest.raises(ResultUnavailable):
        looks_at(1.0, monkeypatch, usual, started=0.0)


@pytest.mark.parametrize("timeout", [-1, 0, 0.0005])
def test_who_has_started_it_and_has_little_time_looks_in_time(monkeypatch: pytest.MonkeyPatch, timeout: float) -> None:
    usual = usual_of(*[3600.0] * 60, monkeypatch=monkeypatch)
    clock, looks = Clock(), list[float]()
    monkeypatch.setattr(waiting, "time", clock)
    ends = pauses(lambda: bool(looks.append(clock.now)), timeout, "result()", "", str, usual, 0.0)
    with pytest.raises(TimeoutError):
        for pause in ends:
            clock.now += pause
    assert looks == [max(0, timeout)]
