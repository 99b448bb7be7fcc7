"""The floor is a ratchet: what has fewer points than it fails, and so does what has more until that is recorded."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import __main__ as command
from tests.faults import floor
from tests.faults.backends import BACKENDS
from tests.faults.options import ALL, parse
from tests.faults.totals import Totals

FLOOR = {"postgres": {"plain": 10, "atomic": 20}}
FEWER = ["postgres plain: 9 points, and there were 10: they may only become more"]
MORE = ["postgres plain: 11 points, and the floor is 10: raise it with --write-floor"]


def told(plain: int, *scenarios: str, floors: floor.Floor = FLOOR) -> list[str]:
    return list(floor.differences(floors, counted(plain), scenarios))


def counted(plain: int) -> floor.Floor:
    return {"postgres": {"plain": plain, "atomic": 20}}


def test_it_has_every_scenario_on_every_backend() -> None:
    scenarios = {backend: set(points) for backend, points in floor.recorded().items()}
    assert scenarios == {backend: set(ALL) for backend in BACKENDS}


# --- what is told ----------------------------------------------------------------------------


def test_as_many_points_are_no_difference() -> None:
    assert told(10) == []


def test_fewer_points_are_told() -> None:
    assert told(9) == FEWER


def test_more_points_are_told() -> None:
    assert told(11) == MORE


def test_a_scenario_that_is_not_recorded_has_more() -> None:
    assert told(11, floors={"postgres": {"atomic": 20}}) == [MORE[0].replace("is 10", "is 0")]
    assert len(told(11, floors={})) == 2


def test_a_recorded_scenario_that_was_not_counted_has_fewer() -> None:
    gone = {"postgres": {**FLOOR["postgres"], "gone": 1}}
    assert told(10, floors=gone) == ["postgres gone: 0 points, and there were 1: they may only become more"]


def test_nothing_is_told_of_scenarios_that_are_not_asked_for() -> None:
    assert told(9, "atomic") == []
    assert told(9, "plain", "atomic") == FEWER


def test_nothing_is_told_of_backends_that_were_not_counted() -> None:
    assert told(10, floors={**FLOOR, "sqlite": {"plain": 5}}) == []


# --- what is recorded ------------------------------------------------------------------------


@pytest.mark.parametrize(("plain", "least"), [(9, 10), (10, 10), (11, 11)])
def test_it_is_raised_and_never_lowered(plain: int, least: int) -> None:
    assert floor.raised(FLOOR, counted(plain)) == counted(least)


@pytest.mark.parametrize("plain", [9, 10, 11])
def test_it_is_lowered_where_that_is_meant(plain: int) -> None:
    assert floor.raised(FLOOR, counted(plain), may_lower=True) == counted(plain)


@pytest.mark.parametrize("may_lower", [False, True])
def test_what_was_not_counted_stays(may_lower: bool) -> None:
    before = {**FLOOR, "sqlite": {"plain": 5}}
    after = floor.raised(before, {"postgres": {"atomic": 21}}, may_lower=may_lower)
    assert after == {"postgres": {"plain": 10, "atomic": 21}, "sqlite": {"plain": 5}}


def test_a_scenario_that_is_no_more_is_left_out_where_that_is_meant() -> None:
    before = {"postgres": {"gone": 1, **FLOOR["postgres"]}}
    assert floor.raised(before, counted(10)) == {"postgres": {**FLOOR["postgres"], "gone": 1}}
    assert floor.raised(before, counted(10), may_lower=True) == FLOOR


def test_scenarios_stand_in_their_order() -> None:
    after = floor.raised({"postgres": {"atomic": 1}}, {"postgres": {"plain": 1}})
    assert list(after["postgres"]) == ["plain", "atomic"]


# --- the command -----------------------------------------------------------------------------

Run = Callable[..., int]


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    file = tmp_path / "floor.json"
    file.write_text(json.dumps(FLOOR))
    monkeypatch.setattr(floor, "FILE", file)
    return file


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, file: Path) -> Run:
    """The command's exit status, where so many points are counted and so many cases fail."""

    def run(*arguments: str, plain: int, failed: int = 0) -> int:
        def enumerated(options: Namespace, arguments: object) -> tuple[dict[str, Totals], int]:
            return {"postgres": Totals(counted(plain)["postgres"], cases=1, failed=failed)}, 0

        monkeypatch.setattr(command, "run", enumerated)
        return command.main(arguments)

    return run


@pytest.mark.parametrize(("plain", "says"), [(9, FEWER), (10, []), (11, MORE)])
def test_the_command_fails_where_the_floor_says_otherwise(
    run: Run, file: Path, capsys: pytest.CaptureFixture[str], plain: int, says: list[str]
) -> None:
    assert run(plain=plain) == bool(says)
    *lines, last = capsys.readouterr().out.splitlines()
    assert (lines, json.loads(last)["failed"]) == (says, len(says))
    assert json.loads(file.read_text()) == FLOOR


def test_a_part_of_the_points_is_held_against_no_floor(run: Run) -> None:
    assert run("--scenario", "plain", plain=9) == 0
    assert run("--point", "3", plain=9) == 0


def test_the_command_raises_the_floor(run: Run, file: Path) -> None:
    assert run("--write-floor", plain=11) == 0
    assert json.loads(file.read_text()) == counted(11)


@pytest.mark.parametrize("part", [(), ("--scenario", "plain")])
def test_the_command_lowers_the_floor_only_where_that_is_meant(run: Run, file: Path, part: tuple[str, ...]) -> None:
    assert run("--write-floor", *part, plain=9) == 1
    assert json.loads(file.read_text()) == FLOOR
    assert run("--write-floor", "--lower", *part, plain=9) == 0
    assert json.loads(file.read_text()) == counted(9)


def test_where_a_case_has_failed_nothing_is_recorded(run: Run, file: Path) -> None:
    assert run("--write-floor", plain=11, failed=1) == 1
    assert json.loads(file.read_text()) == FLOOR


def test_to_lower_is_to_write() -> None:
    with pytest.raises(SystemExit):
        parse(["--lower"])
