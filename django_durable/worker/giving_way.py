"""Where commits take long, an event loop that has filled a batch lets it be taken before it goes on.

The interpreter is one thread's at a time, and an event loop keeps it until all of its coroutines that can go on have
had their turn: with two hundred of them, whoever was called for the first hundred came after the second, and two
commits that could have followed each other began at once, while nobody computed. A moment's sleep hands it over, and
who then takes the batch keeps it until that is sent. With 200 coroutines, on two cores and with a ``commit_delay`` of
3 ms: 1.1 times the steps a second. Without a delay the commit is over while the loop works on the next batch, and it
gained nothing.

Commits take long too where something else of this process computes, and then it is that which gets the interpreter:
whoever slept in vain does not do so again for a while.
"""

from __future__ import annotations

import threading
from math import inf

from ..core import clock

WAY_SECONDS = 0.001
"""Who was called and has not come by then is kept by something else: to be woken takes a tenth of it. The loop sleeps
for longer where that something has the interpreter, or who took the batch has it until that is sent."""
VAIN_SECONDS = 0.1
"""How long no loop sleeps after one has slept in vain. Beside a thread that computes it gets the interpreter back after
the five milliseconds that Python leaves it to that, or a few times that: so for a tenth of the time at most."""


class GivingWay:
    """Who waits until a batch is taken. All but ``wait`` needs the committer's mutex."""

    def __init__(self) -> None:
        self._takes: threading.Lock | None = None
        """Released by who takes the next batch, where somebody waits for that."""
        self._rests_until = -inf

    def until_taken(self) -> threading.Lock | None:
        """What to ``wait`` for, until the next batch is taken; None where that is not worth it, or somebody has asked
        since the last one was."""
        if self._takes is not None or clock.monotonic() < self._rests_until:
            return None
        self._takes = takes = threading.Lock()
        takes.acquire()
        return takes

    def taken(self) -> None:
        """A batch was."""
        if self._takes is not None:
            self._takes.release()
            self._takes = None

    def wait(self, takes: threading.Lock) -> None:
        """Without the mutex, which who takes the batch needs."""
        if not takes.acquire(timeout=WAY_SECONDS):
            self._rests_until = clock.monotonic() + VAIN_SECONDS
