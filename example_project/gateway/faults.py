"""Which request goes wrong, and how: a function of the seed and the request's number, so a day can be repeated."""

from __future__ import annotations

from enum import Enum
from functools import cache
from random import Random

BLOCK = 20
UNAVAILABLE_PER_BLOCK = 2
TIMEOUTS_PER_BLOCK = 1


class Fault(Enum):
    NONE = "none"
    UNAVAILABLE = "503"
    TIMEOUT = "timeout after charging"


class FaultPlan:
    """Of every twenty requests two answer 503 (10 %) and one times out after charging (5 %).

    Blocks and not independent draws: the shares hold in every run of the demo, and not only on average.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fault(self, number: int) -> Fault:
        """The fault of request ``number``, counted from 0."""
        return _block(self.seed, number // BLOCK)[number % BLOCK]

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: of every {BLOCK} requests {UNAVAILABLE_PER_BLOCK} answer 503 "
            f"and {TIMEOUTS_PER_BLOCK} times out after charging"
        )


@cache
def _block(seed: int, index: int) -> tuple[Fault, ...]:
    faults = [Fault.UNAVAILABLE] * UNAVAILABLE_PER_BLOCK + [Fault.TIMEOUT] * TIMEOUTS_PER_BLOCK
    faults += [Fault.NONE] * (BLOCK - len(faults))
    Random(f"{seed}/{index}").shuffle(faults)
    return tuple(faults)
