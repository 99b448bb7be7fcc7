"""What became of one attempt of a run, as values. One ``match`` in the store decides what to write."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .states import BlockReason


@dataclass(slots=True, frozen=True)
class Completed:
    """The function returned; ``output`` is its encoded value."""

    output: str


@dataclass(slots=True, frozen=True)
class Failed:
    """The run is over without a value; ``error`` is what ``failures.describe`` made of the exception."""

    error: dict[str, Any]


@dataclass(slots=True, frozen=True)
class Suspended:
    """The run waits: until ``wake_at`` (database time), for ``wake_after`` seconds, or only for what it awaits.

    ``waiting_on`` says for whom to read it: kind and path.
    """

    waiting_on: str
    wake_at: datetime | None = None
    wake_after: float | None = None


@dataclass(slots=True, frozen=True)
class Retried:
    """The run failed as a whole and gets ``attempt`` after ``delay`` seconds."""

    error: dict[str, Any]
    attempt: int
    delay: float


@dataclass(slots=True, frozen=True)
class Ending:
    """The run has failed, and its ``on_failure`` comes first: the error is kept as the pending outcome."""

    error: dict[str, Any]


@dataclass(slots=True, frozen=True)
class Cancelled:
    """A cancellation was seen; the function has been unwound."""


@dataclass(slots=True, frozen=True)
class Blocked:
    """Something is wrong with the deployment; ``text`` is for people, ``reason`` for programs."""

    reason: BlockReason
    text: str
    fingerprint: str = ""


@dataclass(slots=True, frozen=True)
class Released:
    """Handed back unharmed: the worker stops, or does not renew the lease."""


@dataclass(slots=True, frozen=True)
class Lost:
    """The lease is somebody else's: nothing may be written."""


Outcome = Completed | Failed | Suspended | Retried | Ending | Cancelled | Blocked | Released | Lost
