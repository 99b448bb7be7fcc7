"""What a failed run has to undo: plain data that the flow collects while the function runs or replays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..retries import Retry

UNDO = "%undo"
"""Ends the path of a compensation. Escaped names never hold a bare "%"."""


@dataclass(slots=True, frozen=True)
class Undo:
    """``fn(value)`` undoes the step at ``path``, which was journaled as number ``seq``; ``value`` is encoded text."""

    path: str
    seq: int
    fn: Callable[[Any], Any]
    value: str
    retry: Retry
