"""The hour at which the schedules of these tests are due: far from any real one, on a day on which no clock changes."""

from __future__ import annotations

from datetime import timedelta

from tests.schedules.making import at, move_to

NOON = at("2040-05-01T12:00:00")


def just_before_noon() -> None:
    """What is planned now is due at noon, and not yet."""
    move_to(NOON - timedelta(minutes=1))
