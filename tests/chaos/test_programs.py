"""What a random program means, and that there is enough in those that are drawn."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from tests.chaos.programs import (
    ELDER,
    PLAIN,
    WITH_ELDERS,
    Program,
    draw,
    events_of,
    fails,
    has_children,
    result_of,
    sleeps_of,
    steps_of,
)

EVERYTHING: Program = [
    ["step", 1, 0.0],
    ["flaky", 2, 2],
    ["big", 5_000],
    ["count", 3],
    ["undoable", 4],
    ["sleep", 0.5],
    ["event", "word-7"],
    ["child", [["step", 5, 0.0]], True],
    ["join", [[["step", 6, 0.0], ["event", "word-8"]], [["count", 7]]]],
    ["race", [["step", 8, 0.0]], [[["undoable", 9]]]],
    ["loop", [["step", 10, 0.0]], 2],
    ["map", 2],
]


def test_the_result_of_each_node() -> None:
    assert result_of(EVERYTHING) == [
        2,
        4,
        4_992,
        6,
        8,
        None,
        {"said": "word-7"},
        [10],
        [[12, {"said": "word-8"}], [14]],
        [16],
        [[20], 2],
        [0, 2],
    ]


def test_the_steps_by_their_paths() -> None:
    steps = {step.path: step for step in steps_of(EVERYTHING)}
    assert list(steps) == [
        "step0",
        "flaky1",
        "big2",
        "count3",
        "undoable4",
        "sleep5 begins",
        "sleep5 is over",
        "join8/b0/step0",
        "join8/b1/count0",
        "race9/winner/step0",
        "race9/loser0/undoable0",
        "loop10[0]/step0",
        "loop10[1]/step0",
        "map11[0]",
        "map11[1]",
    ]
    assert [path for path, step in steps.items() if not step.is_sure] == ["race9/loser0/undoable0"]
    assert [path for path, step in steps.items() if step.is_atomic] == ["count3", "join8/b1/count0"]
    assert steps["flaky1"].failures == 2
    assert list(sleeps_of(EVERYTHING)) == [("sleep5", 0.5)]
    assert list(events_of(EVERYTHING)) == ["word-7", "word-8"]


def test_what_is_drawn_is_json_and_has_something_of_everything() -> None:
    chance = random.Random("programs")
    drawn = [draw(chance) for _ in range(5_000)]
    assert json.loads(json.dumps(drawn)) == drawn
    kinds = Counter(node[0] for program in drawn for node in program)
    assert set(kinds) == {*(node[0] for node in EVERYTHING), "poison", "bad"}
    assert 0.04 < sum(map(fails, drawn)) / len(drawn) < 0.12
    assert draw(random.Random("one seed")) == draw(random.Random("one seed"))


def test_no_event_is_waited_for_twice_in_a_run() -> None:
    chance = random.Random("events")
    for _ in range(5_000):
        events = list(events_of(draw(chance)))
        assert len(events) == len(set(events))


KNOWN = {"step", "flaky", "big", "count", "poison", "bad", "sleep", "event", "child"}
"""To 0.1.0."""


def kinds_in(program: Program) -> Counter[str]:
    """Of what a program and the children within it are made."""
    kinds = Counter(node[0] for node in program)
    for node in program:
        if node[0] in ("child", ELDER):
            kinds += kinds_in(node[1])
    return kinds


def test_plain_programs_are_made_of_what_the_released_version_knows() -> None:
    chance = random.Random("plain")
    drawn = [draw(chance, PLAIN) for _ in range(5_000)]
    assert set().union(*map(kinds_in, drawn)) == KNOWN
    assert 0.04 < sum(map(fails, drawn)) / len(drawn) < 0.12


def test_elders_are_plain_also_where_their_parents_are_not() -> None:
    chance = random.Random("elders")
    drawn = [draw(chance, WITH_ELDERS) for _ in range(5_000)]
    elders = [node for program in drawn for node in program if node[0] == ELDER]
    assert elders
    assert set().union(*(kinds_in(elder[1]) for elder in elders)) <= KNOWN
    assert not any(list(events_of(elder[1])) for elder in elders)
    assert result_of([[ELDER, [["step", 5, 0.0]], True]]) == [[10]]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ([["step", 1, 0.0], ["child", [["count", 2]], True]], True),
        ([["join", [[["step", 1, 0.0]], [[ELDER, [["count", 2]], False]]]]], True),
        ([["loop", [["step", 1, 0.0]], 2], ["map", 3]], False),
    ],
)
def test_who_has_children(program: Program, expected: bool) -> None:
    assert has_children(program) is expected
