"""The journal as a tree: which entry lies in which branch, turn or item, and from when to when.

Paths carry the nesting (``core.names``): what is before a slash is a scope, and so is what is before a bracket where a
loop or a map has an entry of that path. Scopes without one (a branch, a turn, an item) last as long as what is in them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..core.flow.undoing import UNDO
from ..core.journal.paths import above
from ..core.journal.states import EntryStatus, Kind
from ..core.kinds.turns import TURN
from ..core.names import make_path
from ..exceptions import InvalidName
from ..models import Run

Entry = Mapping[str, Any]

IDLE = frozenset({Kind.SLEEP, Kind.EVENT, Kind.CHILD, Kind.POLL, Kind.MAP})
"""In which the run itself does nothing."""
SCOPES = frozenset({Kind.JOIN, Kind.RACE, Kind.BLOCK, Kind.LOOP, Kind.MAP})
FINE = frozenset({EntryStatus.SUCCEEDED})
FOLDED_FROM = 12
"""So many turns or items of one loop or map are shown one by one; of more the last, and those that are not fine."""
LAST_SHOWN = 3
TROUBLED_SHOWN = 20


@dataclass(slots=True)
class Node:
    """An entry, or a scope that has none of its own. ``start`` and ``end`` are those of all that is in it."""

    path: str
    label: str
    entry: Entry | None = None
    children: list[Node] = field(default_factory=list)
    start: datetime | None = None
    end: datetime | None = None
    statuses: set[str] = field(default_factory=set)
    """Of all entries in it, its own among them."""
    is_winner: bool = False

    @property
    def kind(self) -> str:
        return self.entry["kind"] if self.entry else ""

    @property
    def status(self) -> str:
        return self.entry["status"] if self.entry else ""

    @property
    def is_scope(self) -> bool:
        return self.entry is None or self.kind in SCOPES

    @property
    def is_fine(self) -> bool:
        return self.statuses <= FINE

    @property
    def is_work(self) -> bool:
        """Whether its whole time was spent on something. Of several attempts nobody knows how long the waits were."""
        if self.entry is None or self.is_scope or self.kind in IDLE:
            return False
        return self.entry["finished_at"] is not None and self.entry["attempts"] <= 1


@dataclass(slots=True, frozen=True)
class Fold:
    """Turns or items that are not shown one by one."""

    nodes: list[Node]
    scope: str


def tree_of(
    run: Run,
    entries: Iterable[Entry],
    around: Iterable[Entry],
    now: datetime,
    children: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Node]:
    """The entries nested, in the journal's order; ``around`` are scopes of theirs that lie outside the window.

    ``children``: when the child of each entry was ``created_at`` and ``finished_at``: a map writes an item's entry when
    it hears of the end.
    """
    entries, around = list(entries), list(around)
    scopes = {entry["path"]: entry for entry in (*around, *entries) if entry["kind"] in SCOPES}
    nodes: dict[str, Node] = {}
    roots: list[Node] = []
    for entry in entries:
        path = entry["path"].removesuffix(TURN)
        siblings = roots
        outer = ""
        for scope in (*_scopes_of(path, scopes), path):
            if scope not in nodes:
                nodes[scope] = Node(scope, scope[len(outer) :].removeprefix("/"), scopes.get(scope))
                siblings.append(nodes[scope])
            siblings, outer = nodes[scope].children, scope
        if path == entry["path"]:
            nodes[path].entry = entry
        else:
            # A turn's own entry is written when the turn is over.
            _widen(nodes[path], entry["finished_at"], entry["finished_at"])
    for path, child in (children or {}).items():
        if path in nodes and nodes[path].kind == Kind.CHILD:
            _widen(nodes[path], child["created_at"], child["finished_at"])
    for root in roots:
        _measure(root, run.finished_at, now)
    return roots


def _scopes_of(path: str, scopes: Mapping[str, Entry]) -> Iterator[str]:
    for outer in above(path.removesuffix(UNDO)):
        if outer and (path[len(outer)] == "/" or _has_places(scopes.get(outer))):
            yield outer


def _has_places(entry: Entry | None) -> bool:
    return entry is not None and entry["kind"] in (Kind.LOOP, Kind.MAP)


def _measure(node: Node, over: datetime | None, now: datetime) -> None:
    """From when to when it lasted. ``over``: when what is around it was, after which nobody came to it."""
    entry = node.entry
    if entry is not None:
        _widen(node, entry["started_at"], entry["finished_at"] or entry["started_at"])
        node.statuses.add(entry["status"])
        # What ended before it began did so by a clock that was set back, or by another: it lasted no time.
        _widen(node, None, node.start)
        over = entry["finished_at"] or over
        if entry["status"] == EntryStatus.ABANDONED:
            _widen(node, None, over)
        elif entry["finished_at"] is None:
            _widen(node, None, over or now)
    winner = _winner_of(entry)
    for child in node.children:
        child.is_winner = child.path == winner
        _measure(child, over, now)
        node.statuses |= child.statuses
        if entry is None and child.kind != Kind.UNDO:
            # What it did is undone when it is long over.
            _widen(node, child.start, child.end)


def _widen(node: Node, start: datetime | None, end: datetime | None) -> None:
    node.start = min(filter(None, (node.start, start)), default=None)
    node.end = max(filter(None, (node.end, end)), default=None)


def _winner_of(entry: Entry | None) -> str | None:
    """The scope of the branch that won, as the beginning of a race's value tells it."""
    if entry is None or not entry["decision"]:
        return None
    try:
        name, _ = json.JSONDecoder().raw_decode(entry["decision"], 1)
        return make_path(f"{entry['path']}/", name)
    except (ValueError, InvalidName):
        return None


def walk(nodes: Iterable[Node], unfolded: str, depth: int = 0) -> Iterator[tuple[int, Node | Fold]]:
    """The tree line by line, each with its depth; what is folded is not gone into, but that of ``unfolded``."""
    for node in nodes:
        yield depth, node
        shown, fold = (node.children, None) if node.path == unfolded else _folded(node)
        if fold is not None:
            yield depth + 1, fold
        yield from walk(shown, unfolded, depth + 1)


def _folded(node: Node) -> tuple[list[Node], Fold | None]:
    if len(node.children) <= FOLDED_FROM or not _has_places(node.entry):
        return node.children, None
    places = [child for child in node.children if child.path.startswith(f"{node.path}[")]
    troubled = [child for child in places if not child.is_fine][:TROUBLED_SHOWN]
    kept = {id(child) for child in (*troubled, *places[-LAST_SHOWN:])}
    folded = [child for child in places if id(child) not in kept]
    if len(folded) <= 1:
        return node.children, None
    hidden = {id(child) for child in folded}
    return [child for child in node.children if id(child) not in hidden], Fold(folded, node.path)
