"""What can be done at a point, and what a point is called."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple


class Action(StrEnum):
    """What becomes of the worker at its point."""

    DIE = "die"
    """The process ends there and then."""
    BEFORE = "before"
    """An error, and nothing was done."""
    AFTER = "after"
    """It was done, and is reported as an error."""
    TERMINATE = "terminate"
    """The server ends the session (PostgreSQL), and then it is tried."""
    STALL = "stall"
    """The process stands still until its lease has lapsed and another worker has taken over; then it goes on."""


class Point(NamedTuple):
    """``label`` is what stands there, without what differs from case to case. ``repeats``: what is possible there too,
    and the same as at the point after it, or as another action at this one."""

    label: str
    allows: frozenset[Action]
    repeats: frozenset[Action] = frozenset()


VARYING = (
    (re.compile(r"s\d+_x\d+"), "s_x"),
    (re.compile(r"interval '[-\d.]+ seconds'"), "interval"),
    (re.compile(r"'[-+]\d[\d.]* seconds'"), "interval"),
    (re.compile(r"/\* plan \d+ \*/"), ""),
)
LABEL_MAX = 110
WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|SET|set_config|BEGIN|COMMIT|SAVEPOINT|RELEASE|ROLLBACK)\b")
READING_COMMANDS = ("LLEN", "LRANGE", "PING")

ALL = frozenset(Action)
OF_READS = frozenset({Action.DIE, Action.AFTER})
"""A read leaves nothing behind: whoever dies before it may as well die after it, and an error is an error."""


def label_of(sql: str) -> str:
    """The beginning of a statement, without names and times that are another each time."""
    for pattern, instead in VARYING:
        sql = pattern.sub(instead, sql)
    return " ".join(sql.split())[:LABEL_MAX]
