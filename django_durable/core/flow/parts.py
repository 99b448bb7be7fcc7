"""What a part leaves to the line around it once its code is over: what it did, and what of that may have to be undone.

A branch that lost a race is such a part too, and the line around it may be over long before it is.
"""

from __future__ import annotations

from typing import cast

from .abandoning import abandon
from .effects import AwaitBranch, Decisions, Ended
from .flow import Flow


def absorb(flow: Flow, part: Flow) -> None:
    """Take over what a part has done, once its code is over for good."""
    flow.pending.absorb(part.close())
    take_undos(flow, part)


def take_undos(flow: Flow, part: Flow) -> None:
    """Take over what a part has found to undo, and nothing that it would write."""
    if not flow.has_seen(part.scope):
        flow.seen |= part.seen
    flow.undos += part.undos


def take_losers(flow: Flow, most: int) -> Decisions[None]:
    """Take over what losers have done that were running and have ended, and wait until no more than ``most`` run."""
    while running := flow.losers.left_to(flow):
        ended = yield AwaitBranch(running, 0.0 if len(running) <= most else None)
        if ended is None:
            return
        _take_loser(flow, cast(Ended, ended).branch)


def _take_loser(flow: Flow, line: Flow) -> None:
    absorb(flow, line)
    abandon(flow, flow.losers.path_of(line), anew=True)
    # Last: until then it may have left something that is not written.
    flow.losers.remove(line)
