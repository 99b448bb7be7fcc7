"""Journals that grow too long: first a word about it, then an ordinary error that leaves room for undoing."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.fan_out import map_of
from django_durable.core.journal.journal import Entry, MemoryJournal
from django_durable.core.journal.outcomes import Completed, Failed, Suspended
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.kinds.loops import Break, Continue
from django_durable.exceptions import JoinError, JournalFull

from ..driving import AT_ONCE, Pack, World, end

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


def fan(count: int, **options: Any) -> Any:
    return lambda ctx: ctx.map("m", Pack(), range(count), **options)


def work_off(world: World, body: Any) -> Any:
    """What ``body`` comes to; whatever child it has started succeeds meanwhile, and sleeps are over."""
    while isinstance(outcome := world.attempt(body), Suspended):
        world.now += timedelta(seconds=1)
        for path, child in world.children.items():
            if child.status == "queued":
                end(world, path, "succeeded", path)
    return outcome


def and_a_step(body: Any) -> Any:
    return lambda ctx: [len(body(ctx)), ctx.step("after", int)]


@pytest.mark.parametrize("max_parallel", [None, 3])
@pytest.mark.parametrize("then", [lambda body: body, and_a_step], ids=["last", "in the middle"])
def test_children_of_a_map_pass_the_soft_limit_too(
    caplog: pytest.LogCaptureFixture, max_parallel: int | None, then: Any
) -> None:
    """They are journaled by no call of theirs, and with the last of them the function may be over."""
    world = World(warn_entries=5)
    assert isinstance(work_off(world, then(fan(30, max_parallel=max_parallel))), Completed)
    [record] = caplog.records
    assert record.getMessage().startswith("long journal") and "entries=5;" in record.getMessage()


@pytest.mark.parametrize(("count", "lines"), [(4, 0), (5, 1)])
def test_the_map_itself_is_an_entry(caplog: pytest.LogCaptureFixture, count: int, lines: int) -> None:
    work_off(World(warn_entries=5), fan(count))
    assert len(caplog.records) == lines


def test_so_do_compensations(caplog: pytest.LogCaptureFixture) -> None:
    world = World(warn_entries=4)

    def body(ctx: Context) -> None:
        for n in range(3):
            ctx.step("s", lambda n: n, n, key=n, compensate=str)
        raise ValueError

    world.run(body)
    assert not caplog.records
    assert world.undo(body) == {}
    [record] = caplog.records
    assert "entries=4;" in record.getMessage()


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


@pytest.mark.parametrize("max_parallel", [None, 7])
def test_after_a_map_of_more_children_than_entries_the_run_goes_on(max_parallel: int | None) -> None:
    """What is journaled of them is not counted: neither in the attempt that notes it nor in a later one."""
    world = World(max_entries=20)

    def body(ctx: Context) -> Any:
        ended = fan(30, max_parallel=max_parallel)(ctx)
        for n in range(9):
            ctx.step("before", int, key=n)
        ctx.sleep("rest", 1)
        for n in range(9):
            ctx.step("after", int, key=n)
        return len(ended)

    assert work_off(world, body).output == "30"
    assert len(world.entries) == 30 + 20


def test_the_limit_holds_beside_the_children_of_a_map() -> None:
    world = World(max_entries=20)

    def body(ctx: Context) -> None:
        fan(30)(ctx)
        many(40)(ctx)

    assert isinstance(work_off(world, body), Failed) and isinstance(world.error, JournalFull)
    assert len(world.entries) == 50
    assert world.error.__notes__ == ["In all it has 50 entries, 30 of them of children of maps, which do not count."]
    again = World(max_entries=20, entries=world.entries)
    assert isinstance(again.attempt(body), Failed) and isinstance(again.error, JournalFull)
    assert len(again.entries) == 50


def test_a_child_with_a_key_counts() -> None:
    world = World(max_entries=5)

    def body(ctx: Context) -> None:
        for n in range(9):
            ctx.start_workflow("c", Pack(n))

    assert isinstance(world.run(body), Failed) and isinstance(world.error, JournalFull)
    assert len(world.entries) == 5
    assert not hasattr(world.error, "__notes__")


def test_children_that_are_pruned_make_no_room_for_others() -> None:
    world = World(max_entries=20)

    def turn(ctx: Context, n: int) -> Any:
        fan(30)(ctx)
        return Break() if n == 4 else Continue(n + 1)

    def body(ctx: Context) -> None:
        for n in range(15):
            ctx.step("s", int, key=n)
        ctx.loop("l", turn, 0, history=1)
        for n in range(40):
            ctx.step("t", int, key=n)

    assert isinstance(work_off(world, body), Failed) and isinstance(world.error, JournalFull)
    assert sum(map_of(path) != "l[4]/m" for path in world.entries) == 20


def test_of_what_is_beside_the_limit_the_journal_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    under = MemoryJournal.under
    monkeypatch.setattr(MemoryJournal, "under", lambda self, scope: looked.append(scope) or under(self, scope))
    world = World(max_entries=200)

    def body(ctx: Context) -> None:
        fan(300)(ctx)
        for n in range(100):
            ctx.step("after", int, key=n)

    assert isinstance(work_off(world, body), Completed)
    alone = World()
    alone_looked, looked[:] = looked.count(""), []
    assert isinstance(work_off(alone, body), Completed)
    assert alone_looked - looked.count("") == 1


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
