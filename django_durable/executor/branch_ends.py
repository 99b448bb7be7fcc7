"""How the branches of a ``def`` workflow's attempt come to their ends, and who waits for that: in whatever threads."""

from __future__ import annotations

import threading
from collections.abc import Collection
from functools import cached_property

from ..core.flow.effects import Ended
from ..core.flow.flow import Flow


class Ends:
    """One for all lines of an attempt: a branch that lost a race is waited for by another line than has begun it."""

    def __init__(self) -> None:
        self._running: set[Flow] = set()
        """Branches whose code is not over."""
        self._untold: dict[Flow, Ended] = {}
        """Those that have ended and that nobody has asked after, in the order in which they did."""

    @cached_property
    def _changed(self) -> threading.Condition:
        # Made with the first branch, when nobody else knows of this one: most attempts have none.
        return threading.Condition()

    def begin(self, branch: Flow) -> None:
        with self._changed:
            self._running.add(branch)

    def tell(self, ended: Ended) -> None:
        with self._changed:
            self._running.discard(ended.branch)
            self._untold[ended.branch] = ended
            self._changed.notify_all()

    def take(self, branches: Collection[Flow], seconds: float | None) -> Ended | None:
        """The first of these that has ended, once one has; None after ``seconds`` (None: no limit)."""
        with self._changed:
            self._changed.wait_for(lambda: self._first(branches) is not None, seconds)
            first = self._first(branches)
            return None if first is None else self._untold.pop(first)

    def _first(self, branches: Collection[Flow]) -> Flow | None:
        return next((branch for branch in self._untold if branch in branches), None)

    def wait(self, branches: Collection[Flow] | None = None) -> None:
        """Until the code of these is over; of all that were begun where none are named."""
        if not self._running:
            return
        with self._changed:
            self._changed.wait_for(lambda: not (self._running if branches is None else self._running & {*branches}))
