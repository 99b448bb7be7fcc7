"""What became of an attempt, as values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from django_durable.core.journal.outcomes import Suspended, together

NOON, NIGHT = datetime(2024, 5, 1, 12, tzinfo=UTC), datetime(2024, 5, 1, 22, tzinfo=UTC)


@pytest.mark.behaviour("FLOW-01g")
@pytest.mark.parametrize("order", [1, -1])
def test_several_waits_are_one_for_whatever_comes_first(order: int) -> None:
    waits = [
        Suspended("sleep:a", wake_at=NIGHT),
        Suspended("sleep:b", wake_at=NOON),
        Suspended("event:c", wake_after=5),
        Suspended("event:d", wake_after=60),
        Suspended("event:e"),
    ][::order]
    one = together(waits, "join:all")
    assert (one.waiting_on, one.wake_at, one.wake_after, set(one.paths)) == ("join:all", NOON, 5, set("abcde"))
    assert together(waits[:1], "join:all") == waits[0]
