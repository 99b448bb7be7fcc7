"""Whether a run of chaos that proved nothing gets another try, and what is remembered of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.goals import Missed, Verdict, missed, verdict
from tests.chaos.totals import Totals


@dataclass(frozen=True, slots=True)
class Earlier:
    """A try that did not count, and why."""

    seed: str
    missed: tuple[Missed, ...]


def in_tries(
    play: Callable[[str, list[Earlier]], Totals],
    seed: str,
    *,
    tries: int,
    within: float,
    clock: Callable[[], float] = time.monotonic,
) -> Verdict:
    """What the last try came to. ``play`` is told its seed, and what was tried before.

    Only one that did too little or went on too late has a successor, which begins ``within`` seconds after the first: a
    violation is a violation.
    """
    latest = clock() + within
    earlier: list[Earlier] = []
    while True:
        of_try = f"{seed}.{len(earlier)}" if earlier else seed
        totals = play(of_try, list(earlier))
        outcome = verdict(totals)
        if outcome is not Verdict.MISSED or len(earlier) + 1 >= tries or clock() > latest:
            return outcome
        earlier.append(Earlier(of_try, tuple(missed(totals))))
