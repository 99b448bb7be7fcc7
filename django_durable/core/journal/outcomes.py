"""What became of one attempt of a run, as values. One ``match`` in the store decides what to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .states import BlockReason, Phase


@dataclass(slots=True, frozen=True)
class Completed:
    """The function returned; ``output`` is its encoded value. ``undoes``: a cancellation that was acknowledged first
    would have something to undo. ``unvisited``: what is journaled and the function did not come to any more."""

    output: str
    undoes: bool = False
    unvisited: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class Failed:
    """The run is over without a value; ``error`` is what ``failures.describe`` made of the exception."""

    error: dict[str, Any]


@dataclass(slots=True, frozen=True)
class Suspended:
    """The run waits: until ``wake_at`` (database time), for ``wake_after`` seconds, or only for what it awaits.

    ``waiting_on`` is the kind and path of the entry that it waits at, or, with ``several``, of the scope whose entries
    at these paths it waits for: any of them is a reason to go on. ``in_time``: the function has returned, so that the
    deadline does not bind what the run waits for.
    """

    waiting_on: str
    wake_at: datetime | None = None
    wake_after: float | None = None
    several: tuple[str, ...] = ()
    in_time: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The entries that it waits for."""
        return self.several or (self.waiting_on.partition(":")[2],)


@dataclass(slots=True, frozen=True)
class Retried:
    """The run failed as a whole and gets ``attempt`` after ``delay`` seconds."""

    error: dict[str, Any]
    attempt: int
    delay: float


@dataclass(slots=True, frozen=True)
class Ending:
    """The run is as good as over, and ``phase`` comes first: compensation, ``on_failure``.

    ``error`` is kept as the pending outcome; None for a cancellation, which the run's row knows of.
    """

    phase: Phase
    error: dict[str, Any] | None = None


@dataclass(slots=True, frozen=True)
class Cancelled:
    """A cancellation was seen; the function has been unwound. ``error``: what could not be undone."""

    error: dict[str, Any] | None = None


@dataclass(slots=True, frozen=True)
class Blocked:
    """Something is wrong with the deployment; ``text`` is for people, ``reason`` for programs. ``undoes``: as that of
    ``Completed``."""

    reason: BlockReason
    text: str
    fingerprint: str = ""
    undoes: bool = False


@dataclass(slots=True, frozen=True)
class Released:
    """Handed back unharmed: the worker stops, or does not renew the lease."""


@dataclass(slots=True, frozen=True)
class Paused:
    """An operator's pause was met; the function has been unwound. Where it was withdrawn meanwhile, the run goes on."""


@dataclass(slots=True, frozen=True)
class Stopped:
    """A line that only replays has come to its end: how a part ends, never a run."""


@dataclass(slots=True, frozen=True)
class Lost:
    """The lease is somebody else's: nothing may be written."""


TRIED_AGAIN = "retry:"
"""What a run waits on between two attempts of its own: what of it is tried again has a path after the colon. 0.1.0
wrote ``retry:run``, as for a step that is called ``run``."""
Outcome = Completed | Failed | Suspended | Retried | Ending | Cancelled | Blocked | Released | Paused | Stopped | Lost


def together(waits: Sequence[Suspended], waiting_on: str) -> Suspended:
    """One wait for whatever comes first; ``waiting_on`` is what to call it where there are several."""
    if len(waits) == 1:
        return waits[0]
    return Suspended(
        waiting_on,
        min((wait.wake_at for wait in waits if wait.wake_at is not None), default=None),
        min((wait.wake_after for wait in waits if wait.wake_after is not None), default=None),
        tuple(dict.fromkeys(path for wait in waits for path in wait.paths)),
    )
