"""A mutant made by hand, of a file that there need not be."""

from __future__ import annotations

from tests.mutants.mutant import Mutant


def a_mutant(before: str = "a < b", after: str = "a > b", *, waits: bool = False, explained: str = "") -> Mutant:
    tests = ("tests/x.py",)
    return Mutant("m", "part.py", before, after, "It.", tests, dies_waiting=waits, explained=explained)
