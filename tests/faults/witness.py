"""What was seen to happen, in a file outside of the database: a line for each, in the order in which it happened."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

Lines = list[dict[str, Any]]


class Where(NamedTuple):
    """A step of a run."""

    run: str
    path: str


class Witness:
    """Appends to ``file``, one write for each line: those of several processes do not mix."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def note(self, what: str, **facts: Any) -> None:
        line = json.dumps({"what": what, "pid": os.getpid(), **facts}, default=str)
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line.encode() + b"\n")
        os.close(descriptor)

    def forget(self) -> None:
        self._file.unlink(missing_ok=True)

    def lines(self) -> Lines:
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text().splitlines()]


def where(line: dict[str, Any]) -> Where:
    return Where(line["run"], line["path"])
