"""How long chaos waits for the last runs: no longer than it promises, unless the machine is merely slow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.chaos.calming import wait_for_none


def falling(*counts: int) -> Callable[[], int]:
    """One after the other, and the last one for ever."""
    rest: Iterator[int] = iter(counts)

    def count() -> int:
        return next(rest, counts[-1])

    return count


def test_it_waits_for_no_longer_than_there_is_something_left() -> None:
    began = time.monotonic()
    wait_for_none(falling(2, 1, 0), 60.0, quiet=0.1)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("counts", [(3,), (3, 2, 1), (3, 2, 4)], ids=["none ends", "one is stuck", "they become more"])
def test_what_is_stuck_is_found_after_the_time_that_is_promised(counts: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match=f"for every run to be over, and {counts[-1]} are not"):
        wait_for_none(falling(*counts), 0.2, quiet=0.1)


def test_a_slow_machine_is_waited_for_as_long_as_it_goes_on() -> None:
    began = time.monotonic()
    wait_for_none(falling(*range(100, -1, -1)), 0.05, quiet=5.0)
    # By then the time was over for a hundred looks.
    assert time.monotonic() - began > 0.5


def test_not_for_ever() -> None:
    with pytest.raises(AssertionError, match="are not"):
        wait_for_none(falling(*range(10_000, 0, -1)), 0.05, quiet=5.0, most=0.3)
