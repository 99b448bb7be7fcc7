"""The register of branches that lost a race and are running still."""

from __future__ import annotations

from django_durable.core.flow.flow import Flow

from ..driving import World


def root() -> Flow:
    world = World()
    world.attempt(lambda ctx: None)
    return world.flow


def running(flow: Flow, *paths: str) -> dict[str, Flow]:
    lines = {path: flow.part(path) for path in paths}
    for path, line in lines.items():
        flow.losers.add(path, line)
    return lines


def test_all_lines_of_an_attempt_know_of_all_losers() -> None:
    flow = root()
    [line] = running(flow.part("rows[0]").part("rows[0]/in"), "rows[0]/any/loser").values()
    asked = flow.part("block").losers
    assert asked.others([line, flow]) == [flow] and len(asked) == 1
    assert asked.are_in("rows[0]") and asked.are_in("rows[0]/any")
    assert not asked.are_in("rows[1]") and not asked.are_in("row")
    flow.losers.remove(line)
    assert not asked and not asked.are_in("rows[0]")


def test_a_line_waits_for_those_in_its_scope_and_not_for_those_within_another_loser() -> None:
    flow = root()
    lines = running(flow, "any/a", "any/a/in[1]/b", "any/a/in[1]/b/deep/c", "other/x")
    assert flow.losers.left_to(flow) == [lines["any/a"], lines["other/x"]]
    assert flow.losers.left_to(lines["any/a"]) == [lines["any/a/in[1]/b"]]
    assert flow.losers.left_to(flow.part("any/a/in[1]")) == [lines["any/a/in[1]/b"]]
    assert flow.losers.left_to(flow.part("elsewhere")) == []
    flow.losers.remove(lines["any/a"])
    assert flow.losers.left_to(flow) == [lines["any/a/in[1]/b"], lines["other/x"]]
