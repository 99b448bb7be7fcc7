"""What joins and races are given: a dict of branches, whose names the journal keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..flow.branches import Branch
from ..flow.flow import Flow
from ..flow.scopes import Body
from ..journal.outcomes import Blocked
from ..journal.states import BlockReason
from ..names import make_path
from ..payloads.codec import encode


def branches_of(path: str, bodies: Mapping[str, Body]) -> list[Branch]:
    """A branch for each body, in the scope that its name makes. Raises TypeError, InvalidName."""
    given: Any = bodies
    if not isinstance(given, Mapping):
        raise TypeError(f"{path!r} takes a dict of branches, name → function of ctx, not {bodies!r}.")
    for name, body in bodies.items():
        if not callable(body):
            raise TypeError(f"Branch {name!r} of {path!r} must be a function that takes ctx, not {body!r}.")
    return [Branch(name, make_path(f"{path}/", name), body) for name, body in bodies.items()]


def require_same(flow: Flow, path: str, journaled: Collection[str], branches: Sequence[Branch]) -> None:
    """End as diverged where the branches go by other names than those that were journaled, in whatever order."""
    names = {branch.name for branch in branches}
    if names != set(journaled):
        text = f"{path!r} was begun with the branches {_listed(journaled)}, but the code now gives it {_listed(names)}."
        flow.end(Blocked(BlockReason.DIVERGED, text))


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def names_of(branches: Sequence[Branch]) -> str:
    """What the journal keeps of the branches, until there is a result to keep."""
    return encode([branch.name for branch in branches])
