"""Limits, as the code of a workflow states them: for which runs together, how many, how often, and who gives way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from .names import NAME_MAX

LIMIT_KEY_MAX = 4 * NAME_MAX + 1
"""Characters: a workflow's name in which each one may be escaped, a colon, and the key."""
START_KEY_MAX = LIMIT_KEY_MAX + 1

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MOST_STARTS, LONGEST_PERIOD = 100_000, 31 * UNITS["d"]
_RATE = re.compile(r"([1-9][0-9]*)/([1-9][0-9]*)?([smhd])")


@dataclass(frozen=True, slots=True)
class Rate:
    """So many starts in any ``seconds``."""

    starts: int
    seconds: int

    def __str__(self) -> str:
        unit, length = next((unit, size) for unit, size in reversed(UNITS.items()) if self.seconds % size == 0)
        number = self.seconds // length
        return f"{self.starts}/{number if number > 1 else ''}{unit}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many runs of a key may be worked on at a time, and how often one may start. None: any number, at any time."""

    concurrency: int | None = None
    rate: Rate | None = None


class Meeting(StrEnum):
    """What a start does that meets a run of its key: it becomes the run that is put off, it gives way to the one that
    is live, or it has that one cancelled."""

    DEBOUNCE = "debounce"
    SKIP = "skip"
    CANCEL_RUNNING = "cancel_running"


def parse_rate(text: object) -> Rate:
    """``"100/m"`` or ``"5/10m"``: so many starts in so many seconds, minutes, hours or days. Raises ValueError."""
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f'rate must be written like "100/m" or "5/10m", with s, m, h or d, not {text!r}.')
    rate = Rate(int(match[1]), int(match[2] or 1) * UNITS[match[3]])
    if rate.starts > MOST_STARTS or rate.seconds > LONGEST_PERIOD:
        raise ValueError(f"rate must be at most {MOST_STARTS:,} starts, in at most 31 days, not {text!r}.")
    return rate


def make_limit_key(workflow: str, key: str | None = None) -> str:
    """``<workflow>``, or ``<workflow>:<key>`` where runs are counted by a key of their own.

    Colons in the name are escaped: no key makes a workflow share the slots of another.
    """
    name = workflow.replace("%", "%25").replace(":", "%3A")
    return name if key is None else f"{name}:{key}"


def make_start_key(limit_key: str) -> str:
    """The row that who starts a run of the key locks until the caller's transaction ends. Not that of the key itself:
    whoever claims its runs would have to wait for that transaction too."""
    return f":{limit_key}"
