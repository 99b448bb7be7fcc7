"""Follows the witness while it is written: which processes are in the middle of a step right now."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from pathlib import Path

from tests.chaos.witness import BEGIN, Line

SETTLED = 0.03
"""Seconds after which a step is one of the slow ones: the others take a third of that."""


class Watch:
    """`busy` are the processes that have begun a step and not ended it, as far as they have said."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self._open: dict[str, Line] = {}
        self._latest: dict[tuple[str, str], int] = {}

    def busy(self) -> set[int]:
        """Of a step that has just begun nobody knows whether it will last until it is hit."""
        self._follow()
        since = time.monotonic() - SETTLED
        return {line.pid for line in self._open.values() if line.at <= since}

    def have_heirs(self, pids: Collection[int]) -> bool:
        """Whether somebody else has begun a step that one of these processes is in the middle of."""
        self._follow()
        mine = (line for line in self._open.values() if line.pid in pids)
        return any(self._latest[line.run, line.path] not in pids for line in mine)

    def forget(self, pid: int) -> None:
        """It is dead, and what it had begun nobody ends."""
        self._open = {by: line for by, line in self._open.items() if line.pid != pid}

    def _follow(self) -> None:
        if not self._file.exists():
            return
        with self._file.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for said in whole.splitlines():
            line = Line(*json.loads(said))
            if line.moment == BEGIN:
                self._open[line.by] = line
                self._latest[line.run, line.path] = line.pid
            else:
                self._open.pop(line.by, None)
