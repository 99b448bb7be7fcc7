"""``crash_after``: the process dies at one step, as often as the test says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..core.journal.journal import Entry, Write
from ..core.journal.states import EntryStatus
from ..store.claiming import Claim
from .errors import StepNotReached
from .interrupting import Fate, Interruption, interrupting
from .paths import is_called

ENDED = (EntryStatus.SUCCEEDED, EntryStatus.FAILED)


class Crash(Interruption):
    """Dies when the named step's end is journaled. ``seen`` are the paths that were journaled meanwhile."""

    def __init__(self, step: str, times: int, *, before: bool) -> None:
        self.step = step
        self.times = times
        self.happened = 0
        self.seen: dict[str, None] = {}
        self._before = before

    def recorded(self, claim: Claim, entry: Entry) -> Fate:
        # Not before the commit itself: an atomic step makes its own, which is to be rolled back with the body.
        return self._die([entry]) if self._before else Fate.ALIVE

    def after(self, claim: Claim, write: Write) -> Fate:
        self.seen.update(dict.fromkeys(write.entries))
        return Fate.ALIVE if self._before else self._die(write.entries.values())

    def _die(self, entries: Iterable[Entry]) -> Fate:
        ended = (entry.path for entry in entries if entry.status in ENDED)
        if self.happened == self.times or not any(is_called(path, self.step) for path in ended):
            return Fate.ALIVE
        self.happened += 1
        return Fate.CRASHED


@contextmanager
def crash_after(step: str, *, before: bool = False, times: int = 1) -> Iterator[None]:
    """Within the block, ``run_until_idle`` dies right after the commit that ends ``step`` (a name or a path).

    ``before=True``: right before it, when the step's function has run and the journal knows nothing. The run then goes
    on as after the death of a worker, at once. Raises StepNotReached at the end if that did not happen ``times`` times.
    """
    if not step:
        raise ValueError("crash_after: name a step.")
    if times < 1:
        raise ValueError(f"crash_after: times must be at least 1, not {times!r}.")
    with interrupting(Crash(step, times, before=before)) as crash:
        yield
    if crash.happened < times:
        raise StepNotReached(step, crash.happened, times, list(crash.seen))
