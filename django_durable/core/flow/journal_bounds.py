"""How long a journal may grow: every claim reads all of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from uuid import UUID

from ...exceptions import JournalFull
from ..journal.fan_out import is_child_of_map
from ..journal.journal import Journal

logger = logging.getLogger("django_durable.workflow")


@dataclass(slots=True)
class JournalBounds:
    """Past ``warn`` entries the log is told, once for each run; with ``most`` of them there is no room for another.

    None: no bound. ``is_told``: an earlier attempt has passed ``warn`` and told so. All lines of an attempt share it.
    What a map journals of its children goes towards ``warn`` and not towards ``most``: as many as it has items.
    """

    run_id: UUID
    workflow: str
    warn: int | None = None
    most: int | None = None
    is_told: bool = False
    near: float = field(init=False)
    """With so many entries there may be something to say: what comes to a new call compares no more than this."""
    _beside: int | None = None
    """How many entries are of children of maps. None: not counted so far, and most runs end without."""

    def __post_init__(self) -> None:
        self._look_ahead()

    def make_room(self, journal: Journal, *, at_any_size: bool = False) -> None:
        """One entry is about to be added. Raises JournalFull, or not where it has to find room ``at_any_size``."""
        self._tell(journal.size)
        if self.most is not None and journal.size >= self.most and not at_any_size:
            if self._beside is None:
                self._beside = sum(is_child_of_map(journal, entry.path) for entry in journal.under(""))
            if journal.size - self._beside >= self.most:
                raise self._full(self.most, journal.size)
        self._look_ahead()

    def make_room_for_child(self, journal: Journal) -> None:
        """As ``make_room``, for a child of a map."""
        if self._beside is not None:
            self._beside += 1
        self.make_room(journal, at_any_size=True)

    def forget(self, journal: Journal, paths: Iterable[str]) -> None:
        """These entries are about to be pruned."""
        if self._beside:
            self._beside -= sum(is_child_of_map(journal, path) for path in paths)
            self._look_ahead()

    def _tell(self, size: int) -> None:
        if self.warn is not None and size >= self.warn and not self.is_told:
            self.is_told = True
            told = "long journal run=%s workflow=%s entries=%d; each claim reads it all"
            logger.warning(told, self.run_id, self.workflow, size)

    def _look_ahead(self) -> None:
        most = inf if self.most is None else self.most + (self._beside or 0)
        self.near = most if self.is_told or self.warn is None else min(self.warn, most)

    def _full(self, most: int, size: int) -> JournalFull:
        error = JournalFull(self.run_id, most)
        if size != most:
            beside = f", {self._beside:,} of them of children of maps, which do not count" if self._beside else ""
            error.add_note(f"In all it has {size:,} entries{beside}.")
        return error
