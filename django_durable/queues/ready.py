"""Runs that have become ready: what a queue is told after the commit."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class Ready(NamedTuple):
    """A queued run, as a queue needs to know it.

    ``limit_key`` where it has just come into being: whoever tells the queue of it must ask first whether its limit has
    room. ``is_under_way`` where it was taken from who worked on it, or handed back: it goes on before others begin.
    """

    id: UUID
    queue: str
    priority: int
    limit_key: str | None = None
    is_under_way: bool = False
