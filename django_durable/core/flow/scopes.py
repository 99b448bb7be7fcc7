"""Code in a scope of its own, in the line of the code around it: gone into, come by, replayed for what it has done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ...exceptions import ContextMisuse, InvalidName, PayloadUndecodable, StepNameReused, SuspensionSwallowed
from ..journal.outcomes import Stopped, Suspended
from .effects import Decisions, Enter, Performed, Raised, Returned
from .flow import Flow
from .looking import Looking
from .parts import absorb, take_losers, take_undos

Body = Callable[[Any], Any]
"""The user's code of a scope: called with a ``ctx`` of its own."""

FATAL = (ContextMisuse, InvalidName, PayloadUndecodable, StepNameReused)
"""Faults of the code or the deployment: they end the run and are never the outcome of a branch or a block."""

LOSERS_MAX = 100
"""Losers that a line leaves running in scopes behind it: an endless loop may have a race in every turn."""


def enter(flow: Flow, path: str, body: Body) -> Decisions[Performed]:
    """Run ``body`` in the scope ``path`` and say how it ended. Where the part was suspended, so is the flow."""
    part = flow.part(path)
    part.is_replaying = flow.is_replaying
    # One line goes on in the other: what is pending stays in front of what comes.
    part.pending = flow.take_pending()
    performed = cast(Performed, (yield Enter(part, body)))
    absorb(flow, part)
    flow.is_replaying = part.is_replaying
    settle(flow, part, performed)
    yield from take_losers(flow, LOSERS_MAX)
    return performed


def settle(flow: Flow, part: Flow, performed: Performed) -> None:
    """Returns where the part's code has come to an end of its own; else the flow ends as the part did."""
    if part.misuse is not None:
        flow.refuse(part.misuse)
    if isinstance(part.outcome, Suspended) and isinstance(performed, Returned):
        flow.refuse(SuspensionSwallowed(part.outcome.waiting_on.partition(":")[2]))
    if part.outcome is not None:
        flow.end(part.outcome)
    if isinstance(performed, Raised) and _is_fatal(performed):
        raise performed.error


def _is_fatal(performed: Performed) -> bool:
    return isinstance(performed, Raised) and (
        isinstance(performed.error, FATAL) or not isinstance(performed.error, Exception)
    )


def revisit(flow: Flow, path: str, body: Body) -> Decisions[None]:
    """Come by a scope that is over, and whose end stands. Its code runs again where the line only replays to see what
    there is to undo, and where a step of it was undone before the run was resumed."""
    if flow.looking is not None and flow.may_undo(path):
        part = flow.part(path)
        yield from look(flow, part, body, flow.looking.within(part.scope))
        take_undos(flow, part)
        return
    flow.seen.add(f"{path}/")
    if not flow.is_stopped and flow.redoing.is_due_in(f"{path}/"):
        performed = yield from enter(flow, path, body)
        # A branch that had failed raises its error as before; one whose step could not be done again does so anew.
        if isinstance(performed, Raised) and flow.redoing.is_due_in(f"{path}/"):
            raise performed.error


def look(flow: Flow, part: Flow, body: Body, looking: Looking) -> Decisions[Performed | None]:
    """Run ``body`` as far as ``looking`` goes, for the compensations that it names: ``part`` has them.

    Returns how the code ended, where it came to an end of its own. Otherwise that is of no matter, be it the misuse
    that the run fails for: whoever wants all that was done to be undone looks whether the replay has come by it. The
    ``flow`` ends where the code does not fit the journal.
    """
    part.look(looking)
    performed = cast(Performed, (yield Enter(part, body)))
    if part.outcome is not None and not isinstance(part.outcome, Suspended | Stopped):
        flow.end(part.outcome)
    if isinstance(performed, Raised) and isinstance(performed.error, PayloadUndecodable):
        raise performed.error
    return performed if part.outcome is None and part.misuse is None and not _is_fatal(performed) else None
