"""Which entries ended a run: what an operator's resume makes room for, so that it is tried again."""

from __future__ import annotations

from ...exceptions import BranchesFailed, ChildFailed, EventTimeout, LoopLimit, PollTimeout, StepFailed

JOURNALED = (StepFailed, ChildFailed, BranchesFailed, EventTimeout, PollTimeout, LoopLimit)
"""Errors that every replay meets again: the run is not tried again as a whole for them."""


def place_of(error: BaseException) -> str | None:
    """The path of the entry that says so; None for what the journal does not have."""
    match error:
        case StepFailed() | ChildFailed():
            return error.step
        case BranchesFailed() | EventTimeout() | PollTimeout() | LoopLimit():
            return error.path
        case _:
            return None


def culprits_of(error: BaseException | None) -> list[str]:
    """Paths of the entries that ended the run: steps, children, waits, and the scopes that failed with them.

    Also those that the workflow wrapped, in a group or by ``raise … from``. Not the context of an error: what failed
    there was being handled, and trying it again would do twice what its handler has made good.
    """
    match error:
        case None:
            return []
        case StepFailed() | ChildFailed():
            return [error.step]
        case EventTimeout() | PollTimeout() | LoopLimit():
            return [error.path]
        case BranchesFailed():
            inner = [path for told in error.errors.values() for path in told.get("culprits", [])]
            return [*inner, error.path]
        case BaseExceptionGroup():
            return [path for member in error.exceptions for path in culprits_of(member)]
        case _:
            return culprits_of(error.__cause__)
