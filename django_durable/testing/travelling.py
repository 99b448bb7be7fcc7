"""``travel``: a clock that tests move. Nobody sleeps, and time never stands still: it only jumps ahead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from unittest.mock import patch

from django.utils import timezone

from ..core import clock

MILLISECOND = timedelta(milliseconds=1)
MICROSECOND = timedelta(microseconds=1)

_open: list[TravelClock] = []


class TravelClock:
    """What ``travel()`` gives: moves the time of everything in this process that it speaks of.

    ``planned_until``: up to when schedules have been looked at, so that what is new since then is planned from there.
    None: they do not fire.
    """

    def __init__(self, *, schedules: bool) -> None:
        self.planned_until = _planned_so_far() if schedules else None
        self._has_moved = bool(_open)

    def now(self) -> datetime:
        """The moved time (aware, UTC)."""
        return clock.utcnow()

    def advance(self, by: timedelta | float = 0, **units: float) -> None:
        """Go ahead by a timedelta, by seconds, or by what ``timedelta`` takes: ``advance(hours=2)``."""
        step = (by if isinstance(by, timedelta) else timedelta(seconds=by)) + timedelta(**units)
        if step < timedelta(0):
            raise ValueError(f"Time goes only ahead, not by {step}: what is stored has been dated by it.")
        self._shift(step)

    def move_to(self, when: datetime) -> None:
        """Go to ``when`` (aware). The first move of the outermost block may go back, every other only ahead.

        As a first move it sets the scene: a schedule's instant at ``when`` is due, and none before it was missed.
        """
        if when.tzinfo is None:
            raise TypeError(f"move_to takes an aware datetime, not {when!r}.")
        step = when - self.now()
        if step < timedelta(0) and self._has_moved:
            raise ValueError(f"Time goes only ahead: it is {self.now()} already, and you asked for {when}.")
        sets_the_scene = not self._has_moved
        # SQLite knows milliseconds: without one more its clock could still be short of `when`.
        self._shift(step + MILLISECOND)
        if sets_the_scene and self.planned_until is not None:
            self.planned_until = when - MICROSECOND

    def _shift(self, step: timedelta) -> None:
        if not _open or _open[-1] is not self:
            raise RuntimeError("Only the clock of the innermost open travel() block can be moved.")
        self._has_moved = True
        shift(step)


def shift(step: timedelta) -> None:
    """Move the clock by ``step``, rounded up to milliseconds."""
    clock.set_offset(-(-(clock.offset() + step) // MILLISECOND) * MILLISECOND)


def _planned_so_far() -> datetime:
    """Since when the schedules of a block that is about to be opened count."""
    outer = traveller()
    return (outer and outer.planned_until) or clock.utcnow()


def traveller() -> TravelClock | None:
    """The clock of the innermost open ``travel()`` block."""
    return _open[-1] if _open else None


@contextmanager
def travel(*, schedules: bool = True) -> Iterator[TravelClock]:
    """A clock to move: django_durable's Python and SQL and ``django.utils.timezone.now`` follow it.

    Within the block ``run_until_idle`` also fires the schedules that have come due, unless ``schedules=False``. At the
    end of the block the time is what it was when the block began.
    """
    before = clock.offset()
    travelling = TravelClock(schedules=schedules)
    _open.append(travelling)
    try:
        with patch.object(timezone, "datetime", _MovedDatetime):
            yield travelling
    finally:
        _open.remove(travelling)
        clock.set_offset(before)


@contextmanager
def within_travel() -> Iterator[None]:
    """The open ``travel()`` block, or one for this block alone, of which schedules learn nothing."""
    if _open:
        yield
    else:
        with travel(schedules=False):
            yield


class _AnyDatetime(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


class _MovedDatetime(datetime, metaclass=_AnyDatetime):
    # In the place of the class that timezone.now() asks, and not of timezone.now: models have kept that
    # function as their default=, other modules have imported it.
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return (datetime.now(UTC) + clock.offset()).astimezone(tz) if tz else datetime.now() + clock.offset()
