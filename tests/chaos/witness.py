"""What each step says of itself, outside of the journal and of the database: lines in a file of the run's folder.

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

from django_durable import current_step

BEGIN, END, RAISE, DIE = "begin", "end", "raise", "die"


@dataclass(frozen=True, slots=True)
class Line:
    """``by`` tells this execution of the step from every other, ``token`` the claim that it belongs to; ``at`` is
    CLOCK_MONOTONIC, which is one for all processes of the machine. ``die``: the step kills its own process."""

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
    token = str(step.lease.token)
    append(
        witness_file(), [str(step.run_id), step.path, step.attempt, token, os.getpid(), moment, by, time.monotonic()]
    )


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
