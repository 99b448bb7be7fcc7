"""A journal as a tree: its paths carry the nesting."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pytest

from django_durable.admin.timeline import Fold, Node, tree_of, walk
from django_durable.models import Run
from tests.admin.moments import at


def entry(path: str, kind: str = "step", start: float = 0, end: float | None = 1, **more: Any) -> dict[str, Any]:
    status = "succeeded" if end is not None else "waiting"
    finished = None if end is None else at(end)
    columns = {"kind": kind, "status": status, "attempts": 1, "wake_at": None, "awaits": "", "decision": None}
    return {"path": path, **columns, "started_at": at(start), "finished_at": finished, **more}


def tree(*entries: dict[str, Any], around: Iterable[dict[str, Any]] = (), over: datetime | None = None) -> list[Node]:
    numbered = [{"seq": seq, **one} for seq, one in enumerate(entries, 1)]
    return tree_of(Run(finished_at=over), numbered, around, at(1_000))


def outline(nodes: list[Node], unfolded: str = "") -> list[str]:
    return [
        f"{'  ' * depth}{f'{len(node.nodes)} folded' if isinstance(node, Fold) else node.label}"
        for depth, node in walk(nodes, unfolded)
    ]


def test_paths_carry_the_nesting() -> None:
    nodes = tree(
        entry("load"),
        entry("both", "join"),
        entry("both/left/pick"),
        entry("both/right/map", "map"),
        entry("both/right/map[0]"),
        entry("loop", "loop"),
        entry("loop[0]/read"),
        entry("loop[0]%turn", "loop"),
        entry("loop[1]/read"),
        entry("save[7]"),
        entry("load%undo", "undo"),
    )
    assert outline(nodes) == [
        "load",
        "both",
        "  left",
        "    pick",
        "  right",
        "    map",
        "      [0]",
        "loop",
        "  [0]",
        "    read",
        "  [1]",
        "    read",
        "save[7]",  # a call with a key is no turn
        "load%undo",
    ]


def test_scopes_outside_of_the_window_hold_what_is_in_it() -> None:
    nodes = tree(entry("watch[41]/read", start=50, end=51), around=[entry("watch", "loop", end=None)])
    assert outline(nodes) == ["watch", "  [41]", "    read"]
    assert (nodes[0].kind, nodes[0].children[0].start) == ("loop", at(50))


def test_a_branch_lasts_as_long_as_what_is_in_it_and_not_until_it_is_undone() -> None:
    [race] = tree(
        entry("race", "race", 0, 9, decision='["south",1]'),
        entry("race/north/ask", start=1, end=2),
        entry("race/south/ask", start=1, end=4),
        entry("race/north/wait", "sleep", 2, None, status="abandoned"),
        entry("race/north/ask%undo", "undo", 100, 101),
    )
    north, south = race.children
    assert [(one.start, one.end, one.is_winner) for one in (north, south)] == [
        (at(1), at(9), False),  # what lost was left when the race was decided
        (at(1), at(4), True),
    ]


@pytest.mark.parametrize("decision", ["[", "[1,", '["', "{", '["\x00"]', "null"])
def test_a_damaged_decision_names_no_winner(decision: str) -> None:
    [race] = tree(entry("race", "race", decision=decision), entry("race/a/x"))
    assert not race.children[0].is_winner


@pytest.mark.parametrize(("over", "end"), [(None, 1_000), (at(60), 60)])
def test_what_is_open_lasts_until_now_or_the_end_of_the_run(over: datetime | None, end: float) -> None:
    [sleep] = tree(entry("rest", "sleep", end=None), over=over)
    assert sleep.end == at(end)


@pytest.mark.parametrize("path", ["/", "//", "[", "]", "a/", "a[", "/a", "a[]/", "%turn", "%undo"])
def test_no_path_breaks_the_tree(path: str) -> None:
    assert len(outline(tree(entry(path), entry("a", "loop")))) >= 1


def test_many_turns_are_folded_but_for_the_last_and_those_that_are_not_fine() -> None:
    turns = [entry(f"loop[{n}]/read", status="failed" if n == 5 else "succeeded") for n in range(20)]
    nodes = tree(entry("loop", "loop", end=None), *turns)
    folded = [line.strip() for line in outline(nodes) if "read" not in line]
    assert folded == ["loop", "16 folded", "[5]", "[17]", "[18]", "[19]"]
    assert len(outline(nodes, unfolded="loop")) == 1 + 2 * 20
    assert "folded" not in " ".join(outline(tree(entry("loop", "loop"), *turns[6:18])))
