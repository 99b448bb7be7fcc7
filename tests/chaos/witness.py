"""What each step says of itself, and each function of a run of its end, outside of the journal and of the database:
lines in a file of the run's folder.

A line is written by one call in append mode, so that lines of several processes do not mix, and what a process has
written stays when it is killed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from django_durable import current_step

BEGIN, END, RAISE, DIE = "begin", "end", "raise", "die"
RETURN, UNWIND = "return", "unwind"
"""How the function of a run ends, beside ``raise``: the second where the engine ends it, as for a wait."""


@dataclass(frozen=True, slots=True)
class Line:
    """``by`` tells this execution of the step from every other, ``token`` the claim that it belongs to; ``at`` is
    CLOCK_MONOTONIC, which is one for all processes of the machine. ``die``: the step kills its own process. Of the end
    of a run's function there is neither ``path`` nor ``by``."""

    run: str
    path: str
    attempt: int
    token: str
    pid: int
    moment: str
    by: str
    at: float


def witness_file() -> Path:
    return Path(os.environ["DURABLE_TEST_FOLDER"]) / "witness"


def bear_witness(moment: str, by: str) -> None:
    """Say that the step which calls this is at this moment."""
    step = current_step()
    _say(step.run_id, step.path, step.attempt, step.lease.token, moment, by)


def bear_witness_of_end(moment: str, run_id: UUID, attempt: int, token: UUID) -> None:
    """Say that the function of the run is at its end, so, under this claim."""
    _say(run_id, "", attempt, token, moment, "")


def _say(run_id: UUID, path: str, attempt: int, token: UUID, moment: str, by: str) -> None:
    append(witness_file(), [str(run_id), path, attempt, str(token), os.getpid(), moment, by, time.monotonic()])


def append(file: Path, said: Any) -> None:
    """Add a line, whole whoever else writes."""
    target = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(target, json.dumps(said).encode() + b"\n")
    finally:
        os.close(target)


def lines_of(file: Path) -> Iterator[Any]:
    """What `append` was given, in its order."""
    if file.exists():
        with file.open() as lines:
            yield from map(json.loads, lines)


def witnessed(file: Path) -> list[Line]:
    return [Line(*said) for said in lines_of(file)]
