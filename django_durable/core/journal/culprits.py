"""Which entries ended a run: what an operator's resume makes room for, so that it is tried again."""

from __future__ import annotations

from collections.abc import Iterator

from ...exceptions import BlockFailed, BranchesFailed, ChildFailed, EventTimeout, LoopLimit, PollTimeout, StepFailed

JOURNALED = (StepFailed, ChildFailed, BlockFailed, BranchesFailed, EventTimeout, PollTimeout, LoopLimit)
"""Errors that every replay meets again: the run is not tried again as a whole for them."""


def place_of(error: BaseException) -> str | None:
    """The path of the entry that says so; None for what the journal does not have."""
    if _is_another_run_s(error):
        return None
    match error:
        case StepFailed() | ChildFailed():
            return error.step
        case BlockFailed() | BranchesFailed() | EventTimeout() | PollTimeout() | LoopLimit():
            return error.path
        case _:
            return None


def _is_another_run_s(error: BaseException) -> bool:
    """Whether it came in as data: this run may have an entry at the same path, which has nothing to do with it."""
    return isinstance(error, StepFailed | BlockFailed) and error.run_id is not None


def made_of(error: BaseException) -> Iterator[BaseException]:
    """This error, and those that the workflow wrapped in it: in a group, or by ``raise … from``. A journaled one is
    told as it is. Not the context of an error: what failed there was being handled.
    """
    seen: dict[int, BaseException] = {}
    left: list[BaseException] = [error]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        yield one
        left += reversed(_within(one))


def _within(error: BaseException) -> list[BaseException]:
    """What it was made of itself. A class that keeps that from us does not keep its run from ending."""
    try:
        if isinstance(error, BaseExceptionGroup):
            return list(error.exceptions)
        cause = None if isinstance(error, JOURNALED) else error.__cause__
        return [cause] if isinstance(cause, BaseException) else []
    except Exception:
        return []


def culprits_of(error: BaseException) -> list[str]:
    """Paths of the entries that ended the run: steps, children, waits, and the scopes that failed with them.

    Only of what it is made of: to try again what was handled would do twice what its handler has made good.
    """
    return [path for one in made_of(error) for path in _paths_of(one)]


def _paths_of(error: BaseException) -> list[str]:
    """Those of what failed in a scope come before that of the scope."""
    if _is_another_run_s(error):
        return []
    match error:
        case BranchesFailed():
            inside = [path for told in error.errors.values() for path in told.get("culprits", [])]
        case BlockFailed():
            inside = error.error.get("culprits", [])
        case _:
            inside = []
    place = place_of(error)
    return inside if place is None else [*inside, place]
