"""Why something has failed, in a word that a program can decide by."""

from __future__ import annotations

from typing import Any

from ...exceptions import (
    BlockFailed,
    BranchesFailed,
    ChildFailed,
    EventTimeout,
    NonRetriableError,
    PollTimeout,
    RollbackError,
    RunTimeout,
    StepFailed,
    StepTimeout,
)
from ..journal.culprits import made_of
from ..payloads.failures import type_name

GRAVITY = ("exhausted", "timeout", "critical", "rollback")
"""The last one is the gravest: of several errors it speaks for all."""

TIMEOUTS = (EventTimeout, PollTimeout, RunTimeout, StepTimeout)
CRITICAL = (NonRetriableError, RollbackError)


def reason_of(error: BaseException) -> str:
    """``rollback`` and ``critical``: somebody said so; ``timeout``: time ran out; else ``exhausted``."""
    return max((reason for one in made_of(error) for reason in _reasons(one)), key=GRAVITY.index, default="exhausted")


def is_rollback(error: BaseException) -> bool:
    """Whether somebody asked to undo everything: in the function, in a step of it, or in a branch."""
    return reason_of(error) == "rollback"


def _reasons(error: BaseException) -> list[str]:
    match error:
        case RollbackError():
            return ["rollback"]
        case NonRetriableError():
            return ["critical"]
        case StepFailed() | BlockFailed():
            return [_told(error.error)]
        case BranchesFailed():
            return [_told(told) for told in error.errors.values()]
        case ChildFailed():
            # What the child asked for was for the child.
            return ["critical" if (reason := _told(error.error)) == "rollback" else reason]
        case EventTimeout() | PollTimeout():
            return ["timeout"]
        case _:
            return []


def _told(error: dict[str, Any]) -> str:
    """As it was journaled; else by the type, which is what a child's error has."""
    if "reason" in error:
        return str(error["reason"])
    for reason, classes in (("timeout", TIMEOUTS), ("critical", CRITICAL)):
        if any(error.get("type") == type_name(cls) for cls in classes):
            return reason
    return "exhausted"
