"""What an attempt is told of its run: identity and bounds, the same from its beginning to its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from .journal_bounds import JournalBounds


# One for each attempt: a frozen one takes four times as long to make.
@dataclass(slots=True)
class RunInfo:
    """``deadline_at`` is the database's time, ``lease_margin`` how many seconds before the end of its lease the run
    begins nothing new, ``keeps_log`` whether what the run logs is stored, ``has_begun`` whether an attempt before this
    one may have stored something.
    """

    run_id: UUID
    workflow: str
    attempt: int = 1
    root_id: UUID | None = None
    deadline_at: datetime | None = None
    max_payload_bytes: int | None = None
    warn_payload_bytes: int | None = None
    lease_margin: float = 0.0
    warn_entries: int | None = None
    max_entries: int | None = None
    is_fork: bool = False
    keeps_log: bool = False
    has_begun: bool = False

    def bounds(self, size: int) -> JournalBounds:
        """What bounds its journal, which has ``size`` entries to begin with."""
        is_told = self.warn_entries is not None and size > self.warn_entries
        return JournalBounds(self.run_id, self.workflow, self.warn_entries, self.max_entries, is_told)
