"""What runs tell the harness past the system that is measured: numbers in a file, which all of its processes append to.

Only the standard library is imported here, since the environment of each system imports it.
"""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path

LENGTH = 48
"""Bytes of a line: two numbers."""
NAPPING, WOKEN, PARENT = "napping", "woken", "parent"


def _line(of: float, number: float) -> bytes:
    return f"{of:{LENGTH // 2 - 1}.6f} {number:{LENGTH // 2 - 1}.6f}\n".encode()


NOTHING = _line(0, 0)


class Notes:
    """``folder`` is by default the ``BENCH_FOLDER`` of the environment, which is what a system has."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        path = (folder or Path(os.environ["BENCH_FOLDER"])) / f"{name}.notes"
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)

    def add(self, number: float = 0.0, of: float = 0.0) -> None:
        """A line is written at once, so those of two processes do not mix. ``of``: by what who notes twice is known.
        Without numbers it takes a microsecond, as little as may be of the jobs that are counted by it."""
        os.write(self._file, _line(of, number) if number or of else NOTHING)

    def count(self) -> int:
        return os.fstat(self._file).st_size // LENGTH

    def read(self) -> list[tuple[float, float]]:
        """Each ``of`` and its number, in the order in which they were noted."""
        numbers = [float(one) for one in os.pread(self._file, LENGTH * self.count(), 0).split()]
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def clear(self) -> None:
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        os.close(self._file)


notes = cache(Notes)


def begin_nap(until: float) -> None:
    notes(NAPPING).add(of=until)


def left(until: float) -> float:
    """Seconds until then."""
    return max(0.0, until - time.time())


def end_nap(until: float) -> None:
    notes(WOKEN).add(time.time() - until, of=until)


def note_parent() -> None:
    """Said where a parent begins, and where it ends."""
    notes(PARENT).add(time.time())


def ms_of_child(count: int) -> float:
    """Of so many children, since the first of what ``note_parent`` noted, and until the last of it."""
    instants = [instant for _, instant in notes(PARENT).read()]
    notes(PARENT).clear()
    return 1000 * (max(instants) - min(instants)) / count
