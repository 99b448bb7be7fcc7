"""Waiting from outside for what a worker does: by looking again and again, and never where it could only hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from asgiref.sync import sync_to_async

from ..core.flow.executing import is_executing
from ..exceptions import ResultUnavailable
from ..store.database import Database

FIRST_PAUSE, LAST_PAUSE = 0.0002, 0.25
"""Seconds. A short run on an idle system is over within a few milliseconds."""
LATE = 0.1
"""By so much of the time that it has taken the end of a run is seen late, at most, or by the shortest pause; besides
what a look itself takes. Who waits for a second looks some eighty times."""
EARLY, LONGEST_REST = 0.7, 0.002
"""The part of the usual time that passes before the second look, and how many seconds that is at most: by so much a run
may be seen late that is over sooner than those before."""
SLOWLY = 0.1
"""By how much of the difference a longer wait makes the usual one longer. A shorter one is the usual one at once."""


class Usual:
    """How long the waits for one kind of thing have taken in this process: looks before that are in vain, and on a busy
    machine take the processor from what is waited for.

    Lone runs on two cores, by turns with looks from the start: p50 0.92 and 0.95 times.
    """

    def __init__(self) -> None:
        self._seconds = 0.0

    @property
    def rest(self) -> float:
        """Seconds before the second look."""
        return min(EARLY * self._seconds, LONGEST_REST)

    def learn(self, waited: float) -> None:
        self._seconds = min(waited, self._seconds + SLOWLY * (waited - self._seconds))


def pauses(
    is_there: Callable[[], bool],
    timeout: float | None,
    call: str,
    instead: str,
    state: Callable[[], str],
    usual: Usual,
) -> Iterator[float]:
    """Seconds to wait before each further look, until ``is_there()``. Raises TimeoutError after ``timeout`` seconds.

    ``call`` is what was called, ``instead`` what a workflow does instead, ``state`` how things stand: for the errors.
    ``usual``: what is known of such waits.
    """
    begun, rest, has_waited = time.monotonic(), usual.rest, False
    while not is_there():
        _refuse_to_hang(call, instead)
        waited = time.monotonic() - begun
        left = LAST_PAUSE if timeout is None else timeout - waited
        if left <= 0:
            raise TimeoutError(f"{state()} after {timeout:g} s.")
        yield min(max(FIRST_PAUSE, LATE * waited, rest), LAST_PAUSE, left)
        rest, has_waited = 0.0, True
    if has_waited:
        usual.learn(time.monotonic() - begun)


def _refuse_to_hang(call: str, instead: str) -> None:
    if is_executing():
        raise ResultUnavailable(f"{call} in a workflow's body would hold its slot while it waits: {instead}.")
    if Database().connection.in_atomic_block:
        raise ResultUnavailable(
            f"{call} inside a transaction cannot see what workers do after it began: ask after the commit; "
            "in a TestCase call django_durable.testing.run_until_idle() first."
        )


def wait(looks: Iterator[float]) -> None:
    for pause in looks:
        time.sleep(pause)


async def await_(looks: Iterator[float]) -> None:
    """As ``wait``. Asks on the caller's connection and holds no thread while it waits."""
    look = sync_to_async(lambda: next(looks, None))
    while (pause := await look()) is not None:
        await asyncio.sleep(pause)
