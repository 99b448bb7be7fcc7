"""What a part leaves to the line around it once its code is over: what it did, what of that may have to be undone, and
branches that lost a race in it and are running still."""

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
    flow.losers += part.losers


def take_losers(flow: Flow, most: int) -> Decisions[None]:
    """Take over what losers have done that were running and have ended, and wait until no more than ``most`` run."""
    while running := [loser.running for loser in flow.losers]:
        ended = yield AwaitBranch(running, 0.0 if len(running) <= most else None)
        if ended is None:
            return
        _take_loser(flow, cast(Ended, ended).branch)


def _take_loser(flow: Flow, line: Flow) -> None:
    loser = next(loser for loser in flow.losers if loser.running is line)
    flow.losers.remove(loser)
    absorb(flow, line)
    abandon(flow, loser.path, anew=True)


def has_loser_running(flow: Flow, path: str) -> bool:
    """Whether a branch that lost a race in the scope ``path``, which is over, may still journal something there."""
    return any(loser.path.startswith(f"{path}/") for loser in flow.losers)
