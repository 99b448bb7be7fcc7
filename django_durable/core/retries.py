"""When a failed attempt is made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite

from ..exceptions import NonRetriableError, RetryLater

Errors = type[BaseException] | tuple[type[BaseException], ...]

LONGEST_DELAY = 100 * 365 * 86_400.0
"""A hundred years in seconds: still a date that Python and the databases know."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy: exponential back-off with jitter.

    ``max_attempts`` counts the first try. Seconds: the first delay is ``initial``, each next one ``factor`` times as
    long, at most ``maximum``; ``jitter`` is the part (0 to 1) by which a delay may be shorter or longer, so that what
    failed together does not come back together. ``retry_on`` (an exception class or a tuple of them) limits the errors
    that are tried again, ``give_up_on`` excludes some. Raises ``TypeError`` or ``ValueError`` for what makes no sense.
    """

    max_attempts: int = 3
    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 60.0
    jitter: float = 0.1
    retry_on: Errors | None = None
    give_up_on: Errors | None = None

    def __post_init__(self) -> None:
        _check_count(self.max_attempts)
        _check_number("initial", self.initial, 0, LONGEST_DELAY, kind="a number of seconds")
        _check_number("factor", self.factor, 1, float("inf"))
        _check_number("maximum", self.maximum, 0, LONGEST_DELAY, kind="a number of seconds")
        _check_number("jitter", self.jitter, 0, 1)
        if self.initial > self.maximum:
            raise ValueError(f"Retry: initial ({self.initial:g} s) is above maximum ({self.maximum:g} s).")
        _check_errors("retry_on", self.retry_on)
        _check_errors("give_up_on", self.give_up_on)

    def delay(self, attempt: int, random: Callable[[], float]) -> float:
        """Seconds to wait after ``attempt`` (from 1). ``random`` returns a float from 0 to 1.

        Never negative, never above ``maximum * (1 + jitter)``.
        """
        try:
            seconds = min(self.initial * float(self.factor) ** (attempt - 1), self.maximum)
        except OverflowError:
            seconds = self.maximum if self.initial else 0.0
        return seconds * (1 + self.jitter * (2 * random() - 1))

    def allows(self, error: BaseException, attempt: int) -> bool:
        """Whether there is another attempt after ``attempt`` ended with ``error``.

        ``RetryLater`` asks for one by name, so ``retry_on`` need not list it.
        """
        if attempt >= self.max_attempts or isinstance(error, NonRetriableError):
            return False
        if self.give_up_on is not None and isinstance(error, self.give_up_on):
            return False
        return self.retry_on is None or isinstance(error, (RetryLater, self.retry_on))


def retry_delay(policy: Retry, error: BaseException, attempt: int, random: Callable[[], float]) -> float:
    """Seconds before the next attempt: what ``RetryLater`` says, exactly, or what the policy says."""
    if isinstance(error, RetryLater) and (asked := _seconds(error.after)) is not None:
        return min(max(asked, 0.0), LONGEST_DELAY)
    return policy.delay(attempt, random)


def _seconds(after: object) -> float | None:
    """Seconds of a number or timedelta; None for anything else, for which there is no caller left to tell."""
    if isinstance(after, timedelta):
        return after.total_seconds()
    if isinstance(after, bool) or not isinstance(after, int | float):
        return None
    try:
        return float(after) if isfinite(after) else None
    except OverflowError:
        return LONGEST_DELAY if after > 0 else 0.0


# --- checks ----------------------------------------------------------------------------------


def _check_count(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"Retry: max_attempts must be an int, not {value!r}.")
    if value < 1:
        raise ValueError(f"Retry: max_attempts counts the first try, so it is at least 1, not {value}.")


def _check_number(name: str, value: object, least: float, most: float, *, kind: str = "a number") -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"Retry: {name} must be {kind}, not {value!r}.")
    if not least <= value <= most or value == float("inf"):
        raise ValueError(f"Retry: {name} must be finite and from {least:g} to {most:g}, not {value}.")


def _check_errors(name: str, value: object) -> None:
    for cls in value if isinstance(value, tuple) else () if value is None else (value,):
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise TypeError(f"Retry: {name} must be an exception class or a tuple of them, not {value!r}.")
