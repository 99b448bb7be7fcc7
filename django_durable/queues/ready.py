"""Runs that have become ready: what a queue is told after the commit."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class Ready(NamedTuple):
    """A queued run, as a queue needs to know it."""

    id: UUID
    queue: str
    priority: int
