"""The tables: one noun a file. They and nothing else are the truth about runs."""

from .audit import Audit
from .claim import ClaimRecord
from .event import Event
from .hold import Hold
from .idempotency import IdempotencyKey
from .journal import JournalEntry
from .limit import Limit
from .log import LogLine
from .payload import Payload
from .run import Run
from .schedule import Fire, Schedule
from .tag import Tag
from .tally import Tally
from .worker import Worker

__all__ = [
    "Audit",
    "ClaimRecord",
    "Event",
    "Fire",
    "Hold",
    "IdempotencyKey",
    "JournalEntry",
    "Limit",
    "LogLine",
    "Payload",
    "Run",
    "Schedule",
    "Tag",
    "Tally",
    "Worker",
]
