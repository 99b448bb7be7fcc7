"""The tables: one noun a file. They and nothing else are the truth about runs."""

from .audit import Audit
from .event import Event
from .idempotency import IdempotencyKey
from .journal import JournalEntry
from .limit import Limit
from .payload import Payload
from .run import Run
from .schedule import Fire, Schedule
from .tag import Tag
from .worker import Worker

__all__ = [
    "Audit",
    "Event",
    "Fire",
    "IdempotencyKey",
    "JournalEntry",
    "Limit",
    "Payload",
    "Run",
    "Schedule",
    "Tag",
    "Worker",
]
