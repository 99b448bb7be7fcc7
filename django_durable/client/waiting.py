"""Waiting from outside for what a worker does: by looking again and again, and never where it could only hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from asgiref.sync import sync_to_async

from ..core.flow.executing import is_executing
from ..exceptions import ResultUnavailable
from ..store.database import Database

FIRST_PAUSE, LAST_PAUSE = 0.0001, 0.25
"""Seconds. A short run on an idle system is over within a few milliseconds."""
LATE = 0.1
"""By so much of the time that it has taken the end of a run is seen late, at most, or by the shortest pause, or by the
longest rest where it was over sooner than usual; besides what a look itself takes. Who waits for a second looks some
eighty times."""
LONGEST_REST = 0.002
"""Seconds after which there is a second look, whatever is usual: by so much a run may be seen late that is over sooner
than those before."""
SOONER, LATER = 0.9, 0.25
"""A second look that finds what is waited for may have come late: the next one comes after this part of its time. After
one in vain the next one comes later, by this part of what it was too early."""


class Usual:
    """When a second look is worth while, for one kind of thing, by the waits of this process: looks before that are in
    vain, and on a busy machine take the processor from what is waited for.

    How long something takes is not seen, only between which looks it ends. Lone runs on two cores, by turns with a rest
    of 0.7 of the shortest wait, which the rest itself made longer: p50 0.86 and 0.91 times.
    """

    def __init__(self) -> None:
        self.rest = 0.0
        """Seconds from the beginning to the second look."""

    def learn(self, waited: float, *, is_second: bool) -> None:
        """What was waited for was seen by a look that began after so many seconds: by the second, or by a later one."""
        waited = min(waited, LONGEST_REST)
        self.rest = SOONER * self.rest if is_second else self.rest + LATER * (waited - self.rest)


def pauses(
    is_there: Callable[[], bool],
    timeout: float | None,
    call: str,
    instead: str,
    state: Callable[[], str],
    usual: Usual,
    started: float | None = None,
) -> Iterator[float]:
    """Seconds to wait before each further look, until ``is_there()``. Raises TimeoutError after ``timeout`` seconds.

    ``call`` is what was called, ``instead`` what a workflow does instead, ``state`` how things stand: for the errors.
    ``usual``: what is known of such waits. ``started``: the monotonic second at which what is waited for began, of who
    has begun it himself: just now, and he need not look at once.
    """
    asked = begun = time.monotonic()
    looks = 0
    if started is not None:
        # A handle may have come from a machine that counts from another second.
        started = min(started, asked)
        early = min(started + usual.rest - asked, usual.rest if timeout is None else timeout)
        if early > 0 and _refusal(call, instead) is None:
            begun, looks = started, 1
            yield early
    looked = time.monotonic()
    while not is_there():
        if (refusal := _refusal(call, instead)) is not None:
            raise refusal
        now = time.monotonic()
        left = LAST_PAUSE if timeout is None else asked + timeout - now
        if left <= 0:
            raise TimeoutError(f"{state()} after {timeout:g} s.")
        rest = 0.0 if looks else begun + usual.rest - now
        yield min(max(FIRST_PAUSE, LATE * (now - asked), rest), LAST_PAUSE, left)
        looked = time.monotonic()
        looks += 1
    if looks:
        usual.learn(looked - begun, is_second=looks == 1)


def _refusal(call: str, instead: str) -> ResultUnavailable | None:
    """Why who waits here could only hang."""
    if is_executing():
        return ResultUnavailable(f"{call} in a workflow's body would hold its slot while it waits: {instead}.")
    if Database().connection.in_atomic_block:
        return ResultUnavailable(
            f"{call} inside a transaction cannot see what workers do after it began: ask after the commit; "
            "in a TestCase call django_durable.testing.run_until_idle() first."
        )
    return None


def wait(looks: Iterator[float]) -> None:
    for pause in looks:
        time.sleep(pause)


async def await_(looks: Iterator[float]) -> None:
    """As ``wait``. Asks on the caller's connection and holds no thread while it waits."""
    look = sync_to_async(lambda: next(looks, None))
    while (pause := await look()) is not None:
        await asyncio.sleep(pause)
