"""How long a journal may grow: every claim reads all of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import inf
from uuid import UUID

from ...exceptions import JournalFull

logger = logging.getLogger("django_durable.workflow")


@dataclass(slots=True)
class JournalBounds:
    """Past ``warn`` entries the log is told, once for each run; with ``most`` of them there is no room for another.

    None: no bound. ``is_told``: an earlier attempt has passed ``warn`` and told so. All lines of an attempt share it.
    """

    warn: int | None = None
    most: int | None = None
    is_told: bool = False
    near: float = inf
    """With so many entries there may be something to say."""

    def __post_init__(self) -> None:
        warn, most = inf if self.warn is None else self.warn, inf if self.most is None else self.most
        self.near = warn if warn < most else most

    def make_room(self, run_id: UUID, workflow: str, size: int) -> None:
        """There are ``size`` entries, and one is about to be added. Raises JournalFull."""
        if self.most is not None and size >= self.most:
            raise JournalFull(run_id, self.most)
        if self.warn is not None and size >= self.warn and not self.is_told:
            self.is_told = True
            logger.warning(
                "long journal run=%s workflow=%s entries=%d; each claim reads it all", run_id, workflow, size
            )
