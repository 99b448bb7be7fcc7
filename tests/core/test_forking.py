"""Where a fork begins, where branches that had lost their races went on journaling for a while."""

from __future__ import annotations

import pytest

from django_durable.core.forking import cut
from django_durable.core.journal.journal import Entry
from django_durable.core.journal.states import EntryStatus, Kind

from .driving import RUN_ID

DONE, OPEN = EntryStatus.SUCCEEDED, EntryStatus.OPEN


def journal(*entries: tuple[str, Kind, str]) -> list[Entry]:
    """Entries that succeeded, in this order; those of a branch ``loser`` are to be undone."""
    return [
        Entry(path, kind, DONE, seq, value=value, undo="/loser/" in path and kind == Kind.STEP)
        for seq, (path, kind, value) in enumerate(entries, 1)
    ]


def kept(entries: list[Entry], from_step: str) -> dict[str, tuple[str, str | None]]:
    return {entry.path: (entry.status, entry.value) for entry in cut(RUN_ID, entries, from_step)}


LATE = journal(
    ("any", Kind.RACE, '["winner",1]'),
    ("any/winner/w", Kind.STEP, "1"),
    ("on", Kind.STEP, "1"),
    ("any/loser/held", Kind.STEP, "1"),
    ("last", Kind.STEP, "1"),
)


def test_a_race_that_was_decided_stays_so_whatever_a_loser_has_still_done() -> None:
    assert kept(LATE, "on") == {"any": (DONE, '["winner",1]'), "any/winner/w": (DONE, "1")}
    assert kept(LATE, "last").keys() == {"any", "any/winner/w", "on", "any/loser/held"}


@pytest.mark.parametrize("step", ["any/loser/held", "any/loser"])
def test_a_fork_from_the_loser_s_step_runs_the_race_again(step: str) -> None:
    assert kept(LATE, step) == {"any": (OPEN, None), "any/winner/w": (DONE, "1"), "on": (DONE, "1")}


def test_a_loop_goes_back_no_further_for_what_losers_in_its_turns_have_still_done() -> None:
    entries = journal(
        ("rows", Kind.LOOP, "3"),
        ("rows[0]/any", Kind.RACE, '["winner",1]'),
        ("rows[0]%turn", Kind.LOOP, "[0,0]"),
        ("rows[1]/work", Kind.STEP, "1"),
        ("rows[1]%turn", Kind.LOOP, "[1,10]"),
        ("rows[2]/work", Kind.STEP, "1"),
        ("rows[0]/any/loser/held", Kind.STEP, "1"),
        ("rows[2]%turn", Kind.LOOP, "[2,20]"),
    )
    begun = kept(entries, "rows[2]/work")
    assert begun["rows"] == (OPEN, "[2,20]") and begun["rows[0]/any"] == (DONE, '["winner",1]')
    assert kept(entries, "rows[1]/work")["rows"] == (OPEN, "[1,10]")


def test_where_a_race_is_run_again_its_losers_scopes_are_open_as_they_were_then() -> None:
    entries = journal(
        ("any", Kind.RACE, '["winner",1]'),
        ("any/loser/rows", Kind.LOOP, "9"),
        ("any/loser/rows[0]/s", Kind.STEP, "1"),
        ("any/loser/rows[0]%turn", Kind.LOOP, "[0,0]"),
        ("any/loser/in", Kind.RACE, '["a",1]'),
        ("any/loser/in/a/s", Kind.STEP, "1"),
        ("any/winner/first", Kind.STEP, "1"),
        ("any/loser/rows[1]/s", Kind.STEP, "1"),
        ("any/loser/rows[1]%turn", Kind.LOOP, "[1,10]"),
        ("any/loser/in/b/late", Kind.STEP, "1"),
        ("any/winner/second", Kind.STEP, "1"),
    )
    begun = kept(entries, "any/winner/first")
    assert begun["any"] == (OPEN, None) and begun["any/loser/rows"] == (OPEN, "[1,10]")
    assert begun["any/loser/in"] == (DONE, '["a",1]'), "its own loser says nothing of it"
    assert "any/loser/rows[1]/s" not in begun


def test_a_loser_s_own_scopes_are_as_they_were_then_although_its_race_was_decided() -> None:
    """What it did until then has to be undone: a replay comes by the turn that it was in."""
    entries = journal(
        ("any", Kind.RACE, '["winner",1]'),
        ("any/loser/rows", Kind.LOOP, "9"),
        ("any/loser/rows[0]%turn", Kind.LOOP, "[0,0]"),
        ("any/loser/rows[1]/done", Kind.STEP, "1"),
        ("on", Kind.STEP, "1"),
        ("any/loser/rows[1]/late", Kind.STEP, "1"),
        ("any/loser/rows[1]%turn", Kind.LOOP, "[1,10]"),
    )
    begun = kept(entries, "on")
    assert begun["any"] == (DONE, '["winner",1]') and begun["any/loser/rows"] == (OPEN, "[1,10]")


def test_a_race_whose_winner_s_value_nobody_can_read_is_taken_over_as_it_is() -> None:
    unknown = '["winner",{"$":"@of.another.release","v":1}]'
    entries = journal(("any", Kind.RACE, unknown), ("on", Kind.STEP, "1"), ("any/loser/held", Kind.STEP, "1"))
    assert kept(entries, "on") == {"any": (DONE, unknown)}


def test_a_map_that_was_under_way_knows_the_ends_of_children_that_came_before_and_of_no_others() -> None:
    progress = '{"started":3,"count":4}'
    entries = journal(
        ("over", Kind.MAP, progress),
        ("m", Kind.MAP, progress),
        ("m[1]", Kind.CHILD, "1"),
        ("any", Kind.RACE, '["winner",1]'),
        ("any/loser/m", Kind.MAP, progress),
        ("on", Kind.STEP, "1"),
    )
    entries[1].status, entries[4].status = EntryStatus.WAITING, EntryStatus.ABANDONED
    begun = kept(entries, "on")
    assert begun["m"] == (OPEN, '{"started":2,"count":4,"again":[0]}')
    assert begun["over"] == (DONE, progress)
    assert begun["any/loser/m"][0] == EntryStatus.ABANDONED
