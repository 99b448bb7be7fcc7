"""How a test breaks into attempts: it is asked before and after every commit, and answers how the attempt fares.

An attempt is ended by telling its driver that the lease is lost. That is how a worker learns it too: the flow closes,
every further ``ctx`` call unwinds again and nothing more is written, whatever the workflow's ``finally`` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TypeVar

from ..core.journal.journal import Entry, Write
from ..store.claiming import Claim


class Fate(IntEnum):
    """Of an attempt; of several opinions the gravest counts."""

    ALIVE = 0
    UNWOUND = 1
    """Ended and handed back unharmed."""
    CRASHED = 2
    """Ended as if the process had died."""


class Interruption:
    """Asked for every claim of ``run_until_idle`` while it is active. Subclasses say what they care for."""

    def begin(self, claim: Claim) -> None:
        """The claim is about to be worked on."""

    def asked(self, claim: Claim, path: str) -> Fate:
        """The workflow asks for what is journaled at ``path``."""
        return Fate.ALIVE

    def recorded(self, claim: Claim, entry: Entry) -> Fate:
        """``entry`` is to go into the journal with the next commit."""
        return Fate.ALIVE

    def before(self, claim: Claim, write: Write) -> Fate:
        """``write`` is about to be made durable; if the attempt does not stay alive, it is not."""
        return Fate.ALIVE

    def after(self, claim: Claim, write: Write) -> Fate:
        """``write`` is durable."""
        return Fate.ALIVE

    def end(self, claim: Claim) -> None:
        """The attempt is over and its lease given up. What this raises leaves ``run_until_idle``."""


I = TypeVar("I", bound=Interruption)  # noqa: E741

_active: list[Interruption] = []


def active() -> list[Interruption]:
    return list(_active)


@contextmanager
def interrupting(interruption: I) -> Iterator[I]:
    """Have ``interruption`` asked within the block."""
    _active.append(interruption)
    try:
        yield interruption
    finally:
        _active.remove(interruption)
