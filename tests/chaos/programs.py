"""Random programs as JSON trees, and what each of them means: computed from the tree, not by running it.

A program is a list of nodes, a node a list of its kind and what it takes; `tests/app/chaos.py` executes them. What a
node is called there, and so its path in the journal, follows from its kind and its place. (`tests/core/programs.py`
makes programs for an engine within one process: these here are stored, and their bodies run in other processes.)
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Node = list[Any]
Program = list[Node]

NEVER = "never"
"""The event that losers of races wait for: nobody sends it."""

ATOMIC, BAD, UNDOABLE = "count", "bad", "undoable"

ELDER = "elder"
"""A child whose program is one of those that 0.1.0 knows, of a parent whose own is none."""

LIMIT = 2
"""Runs of one key at a time, of the workflow that has a limit."""

SLOWEST = 0.4
"""Seconds that the slowest step takes."""

_SHORT = (0.0, 0.0, 0.0, 0.002, 0.01)
_LONG = (0.1, 0.2, SLOWEST)
_CHANCE_OF_SCOPE = 0.16
_CHANCE_OF_FAILURE = 0.08
_CHANCE_OF_POISON = 0.0015


@dataclass(frozen=True, slots=True)
class Words:
    """What programs are made of, with weights: what is one call, and what has programs within it."""

    leaves: Mapping[str, int]
    scopes: Mapping[str, int]


EVERYTHING = Words(
    {"step": 42, "slow": 10, "flaky": 7, "big": 3, "count": 12, "sleep": 9, "event": 9, UNDOABLE: 8},
    {"join": 10, "race": 6, "loop": 8, "map": 6, "child": 7},
)
PLAIN = Words({leaf: weight for leaf, weight in EVERYTHING.leaves.items() if leaf != UNDOABLE}, {"child": 7})
"""What 0.1.0 knows: no branches, no loops, nothing that is undone."""

WITH_ELDERS = Words(EVERYTHING.leaves, {**EVERYTHING.scopes, ELDER: 12})
"""Besides children that a worker of 0.1.0 can have."""


def draw(chance: random.Random, words: Words = EVERYTHING) -> Program:
    """A program of a run that a client starts."""
    program = _draw_body(chance, 2, 4, words)
    if chance.random() < _CHANCE_OF_POISON:
        program.insert(chance.randrange(len(program) + 1), ["poison", chance.randrange(1000)])
    if chance.random() < _CHANCE_OF_FAILURE:
        if UNDOABLE in words.leaves:
            program.insert(0, [UNDOABLE, chance.randrange(1000)])
        program.append([BAD])
    return program


def _draw_body(chance: random.Random, depth: int, most: int, words: Words) -> Program:
    return [_draw_node(chance, depth, words) for _ in range(chance.randint(1, most))]


def _draw_node(chance: random.Random, depth: int, words: Words) -> Node:
    if depth and chance.random() < _CHANCE_OF_SCOPE:
        return _draw_scope(chance, depth - 1, words)
    match kind := _one_of(chance, words.leaves):
        case "slow":
            return ["step", chance.randrange(1000), chance.choice(_LONG)]
        case "flaky":
            return [kind, chance.randrange(1000), chance.randint(1, 2)]
        case "big":
            return [kind, chance.choice((5_000, 20_000, 60_000))]
        case "sleep":
            return [kind, round(chance.uniform(0.02, 0.5), 3)]
        case "event":
            return [kind, f"word-{chance.randrange(10**9)}"]
        case "step":
            return [kind, chance.randrange(1000), chance.choice(_SHORT)]
    return [kind, chance.randrange(1000)]


def _draw_scope(chance: random.Random, depth: int, words: Words) -> Node:
    # Nobody but its parent knows a child's id, and a turn comes more than once: no events for these. In branches that
    # lose, only what is undone leaves nothing behind.
    silent = _silent(words)
    match kind := _one_of(chance, words.scopes):
        case "join":
            return [kind, [_draw_body(chance, depth, 2, words) for _ in range(chance.randint(2, 3))]]
        case "race":
            losers = [_draw_body(chance, 0, 2, Words({UNDOABLE: 1}, {})) for _ in range(chance.randint(1, 2))]
            return [kind, _draw_body(chance, depth, 2, silent), losers]
        case "loop":
            return [kind, _draw_body(chance, depth, 2, silent), chance.randint(2, 3)]
        case "child":
            return [kind, _draw_body(chance, depth, 3, silent), chance.random() < 0.5]
        case "elder":
            return [kind, _draw_body(chance, depth, 3, _silent(PLAIN)), chance.random() < 0.5]
    return [kind, chance.randint(2, 5)]


def _silent(words: Words) -> Words:
    return Words({kind: weight for kind, weight in words.leaves.items() if kind != "event"}, words.scopes)


def _one_of(chance: random.Random, weights: Mapping[str, int]) -> str:
    return chance.choices(list(weights), list(weights.values()))[0]


# --- what it means ---------------------------------------------------------------------------


def name_of(node: Node, place: int) -> str:
    """What the call of the node that stands at ``place`` of its program is called."""
    return f"{node[0]}{place}"


def big_value(size: int) -> str:
    return "0123456789abcdef" * (size // 16)


def value_of(node: Node) -> Any:
    """What the step of a node returns."""
    match node:
        case ["big", size]:
            return big_value(size)
        case ["step" | "flaky" | "count" | "undoable" | "poison", number, *_]:
            return number * 2
    raise ValueError(node)


def fails(program: Program) -> bool:
    """Whether the run is to end as failed, with all that can be undone undone."""
    return any(node[0] == BAD for node in program)


def result_of(program: Program) -> list[Any]:
    """What the run returns, where it does not fail."""
    return [_result(node) for node in program]


def _result(node: Node) -> Any:
    match node:
        case ["big", size]:
            return len(big_value(size))
        case ["sleep", _]:
            return None
        case ["event", name]:
            return payload_of(name)
        case ["child" | "elder", program, _]:
            return result_of(program)
        case ["join", programs]:
            return [result_of(program) for program in programs]
        case ["race", winner, _]:
            return result_of(winner)
        case ["loop", program, turns]:
            return [result_of(program), turns]
        case ["map", count]:
            return [item * 2 for item in range(count)]
    return value_of(node)


def payload_of(event: str) -> dict[str, Any]:
    """What comes with an event of that name."""
    return {"said": event}


@dataclass(frozen=True, slots=True)
class Step:
    """A step that a program takes: its path, what it returns, how often it raises before.

    ``is_sure``: a run that succeeds has taken it; a loser of a race may have.
    """

    path: str
    value: Any
    failures: int = 0
    is_atomic: bool = False
    is_undoable: bool = False
    is_sure: bool = True


SLEEP_ENDS = (" begins", " is over")
"""A sleep stands between two steps, which show how long it was: what their paths have behind its own."""

BACK_OFF = 0.15
"""Seconds before the next attempt of a step that failed, jitter apart."""


def steps_of(program: Program) -> Iterator[Step]:
    """Every step that the run of the program takes or may take itself; those of its children are theirs."""
    for path, node, is_sure in _walk(program):
        match node:
            case ["map", count]:
                yield from (Step(f"{path}[{item}]", item * 2, is_sure=is_sure) for item in range(count))
            case ["sleep", _]:
                yield from (Step(f"{path}{end}", 0, is_sure=is_sure) for end in SLEEP_ENDS)
            case ["flaky", _, failures]:
                yield Step(path, value_of(node), failures=failures, is_sure=is_sure)
            case ["step" | "big" | "count" | "undoable" | "poison" as kind, *_]:
                is_atomic, is_undoable = kind == ATOMIC, kind == UNDOABLE
                yield Step(path, value_of(node), is_atomic=is_atomic, is_undoable=is_undoable, is_sure=is_sure)


def sleeps_of(program: Program) -> Iterator[tuple[str, float]]:
    """Path and seconds of each sleep that the run takes itself."""
    return ((path, float(node[1])) for path, node, _ in _walk(program) if node[0] == "sleep")


def events_of(program: Program) -> Iterator[str]:
    """The events that the run waits for itself."""
    return (node[1] for _, node, _ in _walk(program) if node[0] == "event")


def has_children(program: Program) -> bool:
    """Whether the run starts children itself."""
    return any(node[0] in ("child", ELDER) for _, node, _ in _walk(program))


def _walk(program: Program, scope: str = "", is_sure: bool = True) -> Iterator[tuple[str, Node, bool]]:
    """Each node of the run with its path, scopes before what is in them; whether a run that succeeds came by it."""
    for place, node in enumerate(program):
        path = scope + name_of(node, place)
        yield path, node, is_sure
        match node:
            case ["join", programs]:
                for number, inner in enumerate(programs):
                    yield from _walk(inner, f"{path}/b{number}/", is_sure)
            case ["race", winner, losers]:
                yield from _walk(winner, f"{path}/winner/", is_sure)
                for number, inner in enumerate(losers):
                    yield from _walk(inner, f"{path}/loser{number}/", False)
            case ["loop", inner, turns]:
                for turn in range(turns):
                    yield from _walk(inner, f"{path}[{turn}]/", is_sure)
