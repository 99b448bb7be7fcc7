"""Where commits take long, who has filled a batch lets it be taken before it goes on.

The interpreter is one thread's at a time, and an event loop keeps it until all of its coroutines that can go on have
had their turn: with two hundred of them, whoever was called for the first hundred came after the second, and two
commits that could have followed each other began at once, while nobody computed. A moment's sleep hands it over, and
who then takes the batch keeps it until that is sent. With 200 coroutines, on two cores and with a ``commit_delay`` of
3 ms: 1.1 times the steps a second. Without a delay the commit is over while the loop works on the next batch, and it
gained nothing.
"""

from __future__ import annotations

import threading

WAY_SECONDS = 0.001
"""Who was called and has not come by then is kept by something else: to be woken takes a tenth of it."""


class GivingWay:
    """Who waits until a batch is taken. All but that waiting needs the committer's mutex."""

    def __init__(self) -> None:
        self._taken: threading.Lock | None = None

    def until_taken(self) -> threading.Lock | None:
        """What is released when the next batch is taken; None where somebody has asked for that since the last one:
        what looks like a full batch may be many writes of a run that is under way."""
        if self._taken is not None:
            return None
        self._taken = taken = threading.Lock()
        taken.acquire()
        return taken

    def is_taken(self) -> None:
        """A batch is."""
        if self._taken is not None:
            self._taken.release()
            self._taken = None
