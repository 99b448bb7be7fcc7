"""The words for where a run or a journal entry stands. The transitions between them live in ``store``."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Status of a run (see docs/state-machine.md)."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    BLOCKED = "blocked"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED})
LIVE = frozenset(Status) - TERMINAL


class Phase(StrEnum):
    """Which part of a run's life the next claim goes on with."""

    FORWARD = "forward"
    COMPENSATING = "compensating"
    ON_FAILURE = "on_failure"


class BlockReason(StrEnum):
    """Why a run is ``blocked``: something is wrong with us or the deployment, not with the user's work."""

    DIVERGED = "diverged"
    UNDECODABLE = "undecodable"
    UNKNOWN_WORKFLOW = "unknown_workflow"
    CRASHED = "crashed"


class Kind(StrEnum):
    """What a journal entry records."""

    STEP = "step"
    SLEEP = "sleep"
    EVENT = "event"
    CHILD = "child"
    VALUE = "value"
    UNDO = "undo"
    """A compensation."""
    MARK = "mark"
    """A point of no return."""
    BLOCK = "block"
    JOIN = "join"
    RACE = "race"
    MAP = "map"
    LOOP = "loop"
    POLL = "poll"
    GATE = "gate"
    """The version of a piece of code that this run goes by."""


UNNAMED = frozenset({Kind.VALUE, Kind.UNDO})
"""Entries that no call of the code gives a name: passing them by leaves no work out, and could not be explained."""


class EntryStatus(StrEnum):
    """How far a journal entry has come. The ``waiting`` entries of a waiting run are what it waits for, all of them."""

    OPEN = "open"
    """A scope whose code is not over."""
    WAITING = "waiting"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABANDONED = "abandoned"
    """A wait that nobody is at any more: of a branch that lost a race, or one that changed code passes by."""


class PayloadKind(StrEnum):
    """The rows of text that belong to a run and are kept out of its hot row."""

    INPUT = "input"
    OUTPUT = "output"
    ERROR = "error"
    RETRY = "retry"
    """Why the attempt before this one failed; ``error`` is the outcome's."""
    BLOCK = "block"
    """What a person must know about why the run is blocked."""
    TRIED = "tried"
    """The fingerprints of code that could not go on with the run, one a line; the run itself has the latest."""
    PROGRESS = "progress"
    NOTES = "notes"
    """Names and values that the run was annotated with."""
    MISSED = "missed"
    """Paths of entries that a run which succeeded did not come to any more: its code had changed."""
    UNWANTED = "unwanted"
    """Paths, one a line, whose children are still to be cancelled: a branch that lost a race had started them."""


def failure_kinds(status: str) -> tuple[PayloadKind, ...]:
    """Where a run of this status says what went wrong, the outcome first. Of an earlier attempt only while it is live:
    that says nothing of how the run ended."""
    return (PayloadKind.ERROR, PayloadKind.RETRY) if status in LIVE else (PayloadKind.ERROR,)
