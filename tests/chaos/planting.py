"""What tests of the checker and of the goals plant, and how they ask what is found."""

from __future__ import annotations

from tests.chaos.allowance import Round
from tests.chaos.checker import check
from tests.chaos.evidence import Evidence, RunRow
from tests.chaos.making import Making
from tests.chaos.programs import Program
from tests.chaos.recovery import Recovery

PROGRAM: Program = [["step", 1, 0.0], ["count", 2], ["undoable", 3], ["sleep", 0.01]]
FAILING: Program = [["undoable", 1], ["undoable", 2], ["bad"]]
ONE_STEP: Program = [["step", 1, 0.0]]


def found(making: Making) -> list[tuple[str, str]]:
    return [(violation.rule, violation.run) for violation in check(making.evidence)]


def begun(making: Making) -> tuple[str, str]:
    """A run with the tag "odd" that is claimed; its id and its token."""
    making.enqueue("odd")
    return "run-odd", making.claim("run-odd")


def put(evidence: Evidence, row: RunRow) -> None:
    """In the place of the row of the same run."""
    evidence.runs[:] = [row if one.id == row.id else one for one in evidence.runs]


def row_of(evidence: Evidence, run: str) -> RunRow:
    return next(row for row in evidence.runs if row.id == run)


def recovered(*seconds: float, start: float = 1.0, again: int = 0) -> Round:
    """A round with a run each, which nothing else has hit meanwhile, and so many that were hit again."""
    clear = [Recovery("run", "step0", one, one) for one in seconds]
    return Round(start, clear + [Recovery("run", "step0", 60.0, None)] * again)
