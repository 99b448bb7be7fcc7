"""What a run has said through ``ctx.log``, as code outside of it reads it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from logging import getLevelName
from uuid import UUID

from ..models import LogLine
from ..store.database import Database


@dataclass(slots=True, frozen=True)
class LoggedLine:
    """``level`` is a number of ``logging``; ``scope`` is the path of the branch, turn or block that said it, empty for
    the workflow's function itself. ``at`` is the database's time.

    ``attempt`` is a number in lines of the engine: that attempt of the step ``scope`` (empty: of the run as a whole)
    failed and was made again.
    """

    at: datetime
    level: int
    message: str
    scope: str = ""
    attempt: int | None = None

    @property
    def level_name(self) -> str:
        """``"INFO"``, for instance."""
        return getLevelName(self.level)


def log_of(run_id: UUID, limit: int) -> list[LoggedLine]:
    """The newest ``limit`` lines, the oldest of them first."""
    lines = LogLine.objects.using(Database().alias).filter(run_id=run_id).order_by("-number")
    rows = lines.values_list("at", "level", "message", "scope", "attempt")[: max(limit, 0)]
    return [LoggedLine(*row) for row in reversed(rows)]
