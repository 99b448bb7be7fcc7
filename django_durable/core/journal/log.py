"""What a workflow has said through ``ctx.log`` since its last durable write: line by line, and bounded."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

MESSAGE_MAX = 2_000
"""Characters of one message."""
LINES_MAX = 100
"""Lines of one write; where there were more, the last one says how many."""
LEVEL_MAX = 32_767
"""What the column holds."""

_UNFIT = re.compile("[\x00\ud800-\udfff]")
_FAILED = re.compile(
    r"(?P<head>attempt \d+ failed, the next one comes (?:at once|in \S+ s)): (?P<type>.*?)(?:: (?P<message>.*))?",
    re.DOTALL,
)
_WAIT = re.compile(r"in (\d+(?:\.\d+)?(?:e\+\d+)?) s")


@dataclass(slots=True, frozen=True)
class Logged:
    """One line. ``scope`` is the path of the code that said it, ``place`` a number for where in that code it did: the
    same in each replay of the run."""

    level: int
    message: str
    at: datetime
    scope: str
    place: int
    is_again: bool = False
    """An attempt before may have said it: what is stored may have it."""
    attempt: int | None = None
    """Of the step at ``scope`` (empty: of the run) that failed and is made again; None: the workflow has said it."""
    seconds: float | None = None
    """How long that attempt took."""


@dataclass(slots=True, frozen=True)
class FailedAttempt:
    """What the engine says of an attempt that is made again: its own words, and apart from them what was raised.

    One text holds both. Who redacts errors has to be given this one too, so it is read back from what was written.
    """

    head: str
    type: str
    message: str

    @classmethod
    def of(cls, attempt: int, wake_after: float | None, error: Mapping[str, Any]) -> FailedAttempt:
        wait = f"in {round(wake_after, 2):.10g} s" if wake_after else "at once"
        return cls(f"attempt {attempt} failed, the next one comes {wait}", error["type"], error["message"])

    @classmethod
    def read(cls, text: str) -> FailedAttempt | None:
        """None for any other text."""
        found = _FAILED.fullmatch(text)
        return cls(found["head"], found["type"], found["message"] or "") if found else None

    @property
    def wait(self) -> float:
        """How many seconds later the next one was due."""
        found = _WAIT.search(self.head)
        return float(found[1]) if found else 0.0

    def __str__(self) -> str:
        return ": ".join(part for part in (self.head, self.type, self.message) if part)


@dataclass(slots=True)
class Log:
    """``lines`` are the first ``LINES_MAX`` that code has said, and all that the engine says; ``left_out`` is how many
    came after them."""

    lines: list[Logged] = field(default_factory=list)
    left_out: int = 0
    worst: int = 0
    """The highest level of those that were left out."""
    is_in_doubt: bool = False
    """Whether it was sent to a database that never answered: that may have all of it."""
    _said: int = field(init=False)
    """How many of the lines the engine has not said."""

    def __post_init__(self) -> None:
        self._said = sum(line.attempt is None for line in self.lines)

    def add(self, line: Logged) -> None:
        if line.attempt is not None:
            self.lines.append(line)
        elif self._said < LINES_MAX:
            self.lines.append(line)
            self._said += 1
        else:
            self._leave_out(1, line.level)

    def absorb(self, other: Log) -> None:
        """Add what another line of execution has said."""
        for line in other.lines:
            self.add(line)
        if other.left_out:
            self._leave_out(other.left_out, other.worst)

    def _leave_out(self, count: int, level: int) -> None:
        self.left_out += count
        self.worst = max(self.worst, level)

    def unsaid(self) -> Log | None:
        """What is left of it once all that a replay has said so far is known to be stored."""
        new = [line for line in self.lines if not line.is_again]
        return Log(new, self.left_out, self.worst) if new else None

    def to_send(self) -> list[Logged]:
        """The lines in order, each marked where it may be stored already."""
        lines = self._bounded()
        return [replace(line, is_again=True) for line in lines] if self.is_in_doubt else lines

    def _bounded(self) -> list[Logged]:
        if not self.left_out:
            return self.lines
        at = max(number for number, line in enumerate(self.lines) if line.attempt is None)
        last = self.lines[at]
        count = self.left_out + 1
        text = f"… {count:,} more {'line was' if count == 1 else 'lines were'} left out"
        # By the count too: another attempt may have said more here, or the line itself and no more.
        place = place_number(f"{last.place}\n{count}")
        told = replace(last, message=text, level=max(last.level, self.worst), place=place)
        return [*self.lines[:at], told, *self.lines[at + 1 :]]


def attempt_line(
    told: FailedAttempt, attempt: int, at: datetime, scope: str, place: str, seconds: float | None
) -> Logged:
    """The engine's line of an attempt that is made again. ``place``: what no other line of the run has."""
    return Logged(
        level=logging.WARNING,
        message=fit_message(str(told)),
        at=at,
        scope=scope,
        place=place_number(place),
        attempt=attempt,
        seconds=seconds,
    )


def place_number(place: str) -> int:
    return int.from_bytes(blake2b(place.encode(), digest_size=8).digest(), signed=True)


def fit_message(text: str) -> str:
    """``text`` as the column takes it: cut, and without the characters that no database stores."""
    if len(text) > MESSAGE_MAX:
        text = f"{text[: MESSAGE_MAX - 1]}…"
    return _UNFIT.sub("\ufffd", text)
