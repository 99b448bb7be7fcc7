"""Which runs a client starts: the workflows, by their names, and the programs that they are given."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.chaos.programs import EVERYTHING, PLAIN, WITH_ELDERS, Program, Words, draw

Started = dict[str, Any]
"""The handles of runs by their tags."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Workflows with their weights, and what their programs are made of."""

    workflows: Mapping[str, int]
    words: Words

    def draw_program(self, chance: random.Random) -> Program:
        return draw(chance, self.words)

    def draw_workflow(self, chance: random.Random) -> str:
        return chance.choices(list(self.workflows), list(self.workflows.values()))[0]


_INTERPRETERS = {"interpret": 50, "interpret_async": 38, "interpret_limited": 12}
_PLAIN = Load({"plain": 50, "plain_async": 50}, PLAIN)

MIXTURES: dict[str, Mapping[Load, int]] = {
    "newest": {Load(_INTERPRETERS, EVERYTHING): 1},
    "plain": {_PLAIN: 1},
    "both": {_PLAIN: 70, Load(_INTERPRETERS, WITH_ELDERS): 30},
}
"""By what a client is told: runs that only this checkout can work on, that 0.1.0 can as well, or some of each."""


def choose(chance: random.Random, mixture: Mapping[Load, int]) -> Load:
    return chance.choices(list(mixture), list(mixture.values()))[0] if len(mixture) > 1 else next(iter(mixture))


def workflow_called(name: str) -> Any:
    """By its name, as only this checkout has the modules of all."""
    from django_durable import get_workflow

    return get_workflow(f"chaos.{name}")


def start_runs(workflow: str, given: Mapping[str, Program], is_many: bool) -> Started:
    start = workflow_called(workflow)
    if is_many:
        handles = start.enqueue_many([{"tag": tag, "program": program} for tag, program in given.items()])
        return dict(zip(given, handles, strict=True))
    return {tag: start.enqueue(tag, program) for tag, program in given.items()}
