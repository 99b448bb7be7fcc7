"""Journals that grow too long: first a word about it, then an ordinary error that leaves room for undoing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.journal import Entry, MemoryJournal
from django_durable.core.journal.outcomes import Completed, Failed
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.kinds.loops import Break, Continue
from django_durable.exceptions import JoinError, JournalFull

from ..driving import AT_ONCE, Pack, World

LOGGER = "django_durable.workflow"


def many(count: int) -> Any:
    def body(ctx: Context) -> int:
        for n in range(count):
            ctx.step("s", int, key=n)
            if n % 5 == 4:
                ctx.sleep("rest", 1, key=n)
        return count

    return body


def test_past_the_soft_limit_the_log_is_told_once_for_the_run(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, LOGGER)
    world = World(warn_entries=12)
    assert world.value(many(40)) == 40
    [record] = caplog.records
    assert record.getMessage().startswith(f"long journal run={world.flow.run.run_id} workflow=shop.order entries=12")


def test_a_journal_of_just_the_limit_is_not_too_long(caplog: pytest.LogCaptureFixture) -> None:
    World(warn_entries=4, max_entries=4).value(many(4))
    assert not caplog.records


def test_with_no_room_the_next_call_fails_and_those_that_are_journaled_do_not() -> None:
    world = World(max_entries=10)
    assert isinstance(world.run(many(40)), Failed)
    assert isinstance(world.error, JournalFull) and world.error.limit == 10
    assert len(world.entries) == 10
    assert isinstance(world.attempt(many(8)), Completed), "a replay adds nothing"


def test_the_workflow_may_handle_it() -> None:
    def body(ctx: Context) -> Any:
        try:
            many(40)(ctx)
        except JournalFull as error:
            return error.limit

    assert World(max_entries=10).value(body) == 10


def test_what_was_done_is_undone_although_there_is_no_room() -> None:
    world, undone = World(max_entries=3), []

    def body(ctx: Context) -> None:
        for n in range(9):
            ctx.step("s", lambda n: n, n, key=n, compensate=undone.append)

    assert isinstance(world.run(body), Failed)
    assert world.undo(body) == {}
    assert undone == [2, 1, 0]


def test_a_loop_that_prunes_its_turns_never_comes_there(caplog: pytest.LogCaptureFixture) -> None:
    def turn(ctx: Context, n: int) -> Any:
        ctx.step("s", int)
        return Break(n) if n == 200 else Continue(n + 1)

    assert World(warn_entries=8, max_entries=10).value(lambda ctx: ctx.loop("l", turn, 0, history=3)) == 200
    assert not caplog.records


def test_branches_and_items_meet_it_as_their_own_error() -> None:
    world = World(step_retry=AT_ONCE, max_entries=6)
    world.run(lambda ctx: ctx.map("m", lambda n: n, range(20)))
    assert isinstance(world.error, JoinError)
    assert world.error.errors[19]["type"].endswith("JournalFull")


def test_a_map_of_more_children_than_entries_stays_possible() -> None:
    world, pack = World(max_entries=50), Pack()
    world.attempt(lambda ctx: ctx.map("fan", pack, range(1200)))
    assert len(pack.made) == 1200


def test_what_a_turn_costs_does_not_depend_on_what_else_is_journaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside 5,000 other entries a turn of a loop looks at no more of them than alone."""
    looked: list[int] = []
    under = MemoryJournal.under

    def counted(self: MemoryJournal, scope: str) -> list[Entry]:
        found = under(self, scope)
        looked.append(len(found))
        return found

    monkeypatch.setattr(MemoryJournal, "under", counted)

    def turn(ctx: Context, n: int) -> Any:
        ctx.step("s", int)
        return Break(n) if n == 50 else Continue(n + 1)

    def look(others: int) -> int:
        looked.clear()
        paths = [f"other[{n}]/x" for n in range(others)]
        entries = {path: Entry(path, Kind.STEP, EntryStatus.SUCCEEDED, seq=n) for n, path in enumerate(paths)}
        assert World(entries=entries).value(lambda ctx: ctx.loop("l", turn, 0, history=3)) == 50
        return sum(looked)

    alone, beside = look(0), look(5000)
    # Once for the attempt the whole journal is asked for what was undone before a resume.
    assert beside - alone in (0, 5000)
