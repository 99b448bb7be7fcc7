"""What the function of a run says of its end, by the real engine: once under each claim, with that claim's token."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from django_durable.testing import run_until_idle
from tests.chaos.mixture import workflow_called
from tests.chaos.planting import ONE_STEP
from tests.chaos.programs import Program
from tests.chaos.story import TERMINAL
from tests.chaos.witness import RAISE, RETURN, UNWIND, Line, witnessed

pytestmark = pytest.mark.django_db(transaction=True)

NAP: Program = [["step", 1, 0.0], ["sleep", 0.01]]
BRANCHES: Program = [["join", [[["step", 1, 0.0]], [["loop", [["step", 2, 0.0]], 2]]]]]
BAD: Program = [["step", 1, 0.0], ["bad"]]
UNDONE: Program = [["undoable", 1], ["bad"]]


@pytest.fixture
def witness() -> Iterator[Path]:
    file = Path(os.environ["DURABLE_TEST_FOLDER"]) / "witness"
    file.unlink(missing_ok=True)
    yield file
    file.unlink(missing_ok=True)


def play(name: str, program: Program, witness: Path) -> list[Line]:
    """All that is said of a run, from its start to its end."""
    run = workflow_called(name).enqueue("odd", program)
    run_until_idle(skip_waits=True)
    assert run.refresh().status in TERMINAL
    lines = witnessed(witness)
    assert {line.run for line in lines} == {str(run.id)}
    return lines


@pytest.mark.parametrize("name", ["interpret", "interpret_async"])
@pytest.mark.parametrize(
    ("program", "moments"),
    [
        (ONE_STEP, [RETURN]),
        (NAP, [UNWIND, RETURN]),
        (BRANCHES, [RETURN]),
        (BAD, [RAISE]),
        # The second claim undoes: it calls the function as well, to see what.
        (UNDONE, [RAISE, RAISE]),
    ],
)
def test_each_claim_says_how_it_ends(name: str, program: Program, moments: list[str], witness: Path) -> None:
    lines = play(name, program, witness)
    assert [line.moment for line in lines if not line.path] == moments
    claims = [list(said) for _, said in groupby(lines, key=lambda line: line.token)]
    # What a claim has undone it did after it had looked.
    assert [[line.moment for line in said if not line.path] for said in claims] == [[moment] for moment in moments]
    # The first comes to its end after all else.
    assert claims[0][-1].moment == moments[0]


@pytest.mark.parametrize("name", ["plain", "plain_async"])
def test_so_does_what_the_released_version_works_on(name: str, witness: Path) -> None:
    lines = play(name, ONE_STEP, witness)
    [end] = [line for line in lines if not line.path]
    assert (end.moment, {line.token for line in lines}) == (RETURN, {end.token})
