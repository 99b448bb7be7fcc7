"""Parents wait for the children of their maps: for the last one, or until few enough of them are alive."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from threading import Barrier

import pytest

from django_durable.core.journal.journal import Entry, Write
from django_durable.core.journal.outcomes import Completed, Suspended
from django_durable.core.journal.states import EntryStatus, Kind, Status
from django_durable.queues.ready import Ready
from django_durable.store import recovery
from django_durable.store.claiming import Claim, load_news
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from tests.store.conftest import Connect
from tests.store.parallel import SECONDS, Hooked, Threads, answer, session, wait_until_blocked
from tests.store.rows import child_entry, entries, fresh, journal_row, make_run, running, status_of
from tests.store.suspending import SUSPENSION, child_of, claim_all, suspend

pytestmark = pytest.mark.django_db(transaction=True)


def map_entry(path: str = "each", awaits: str = "") -> Entry:
    return Entry(path, Kind.MAP, EntryStatus.WAITING, seq=1, awaits=awaits)


def fan_out(db: Database, claim: Claim, count: int, path: str = "each", awaits: str = "") -> list[Claim]:
    """Start the children of a map, suspend the parent and claim them. ``awaits``: with how many alive it goes on."""
    children = [child_of(claim, f"{path}[{index}]") for index in range(count)]
    outcome = Suspended(f"map:{path}")
    entry = map_entry(path, awaits)
    assert suspend(db, claim, entry, outcome=outcome, children=children).status == Status.WAITING
    claims = {one.run_id: one for one in claim_all(db, *[child.id for child in children])}
    return [claims[child.id] for child in children]


def end(db: Database, child: Claim) -> list[Ready] | None:
    receipt = write_batch(db, [(child.lease, Write(outcome=Completed("1")))])[child.run_id]
    assert receipt.parent_id is not None
    return recovery.try_wake_parent(db, receipt.parent_id, receipt.parent_path)


@pytest.mark.parametrize("last", [0, 5, 11])
def test_whoever_of_a_map_ends_last_wakes_the_parent_once(db: PrivateDatabase, last: int):
    claim = running(db)
    children = fan_out(db, claim, 12)
    for child in [*children[:last], *children[last + 1 :]]:
        assert end(db, child) == []
    assert status_of(claim.run_id) == Status.WAITING
    assert end(db, children[last]) == [Ready(claim.run_id, "default", 0)]
    assert recovery.try_wake_parent(db, claim.run_id, "each[3]") == []


def test_while_a_sibling_lives_the_parent_is_not_even_looked_at(db: PrivateDatabase, connect: Connect):
    """Its row is neither waited for nor locked: ten thousand children would each write to it."""
    claim, hooked = running(db), Hooked()
    first, second = fan_out(db, claim, 2)
    touched: list[str] = []
    hooked.before["FROM django_durable_run WHERE id ="] = lambda: touched.append("the parent's row")
    assert end(hooked, first) == []
    assert touched == []
    assert end(hooked, second) == [Ready(claim.run_id, "default", 0)]
    assert touched == ["the parent's row"]
    hooked.close()


def test_the_last_two_of_a_map_that_end_together_wake_their_parent_once(
    connect: Connect, threads: Threads, db: PrivateDatabase
):
    """Both have committed before either looks: each sees that it is the last, and the parent's lock decides."""
    claim = running(db)
    sessions = [connect() for _ in range(2)]
    children = fan_out(db, claim, 2)
    committed = Barrier(2)

    def end_together(session: PrivateDatabase, child: Claim) -> list[Ready] | None:
        write_batch(session, [(child.lease, Write(outcome=Completed("1")))])
        committed.wait(SECONDS)
        woken = None
        while woken is None:  # The other holds the row: the notifier hands this to its patient thread.
            woken = recovery.try_wake_parent(session, claim.run_id, "each[0]")
        return woken

    ends = [threads.start(end_together, *one) for one in zip(sessions, children, strict=True)]
    assert sorted(map(len, map(answer, ends))) == [0, 1]
    assert status_of(claim.run_id) == Status.QUEUED


def test_an_end_that_is_not_committed_is_left_to_the_one_who_commits_it(db: PrivateDatabase, connect: Connect):
    """The first sees the other alive, and leaves the parent to it: the later commit sees both."""
    claim, other = running(db), connect()
    first, second = fan_out(db, claim, 2)
    if not db.dialect.has_writing_ctes:
        assert [end(db, first), end(db, second)] == [[], [Ready(claim.run_id, "default", 0)]]
        return
    with other.transaction():
        write_batch(other, [(second.lease, Write(outcome=Completed("1")))])
        assert end(db, first) == []
    assert recovery.try_wake_parent(other, claim.run_id, "each[1]") == [Ready(claim.run_id, "default", 0)]


@pytest.mark.usefixtures("patient")
def test_a_parent_that_suspends_while_its_last_child_ends_is_woken(connect: Connect, threads: Threads):
    """The child sees no sibling and a parent that runs still: it waits for its row instead of passing by."""
    suspending, waker, watching = Hooked(), connect(), connect()
    claim = running(suspending)
    child = child_of(claim, "each[0]")
    write_batch(suspending, [(claim.lease, Write(entries(map_entry()), children=[child]))])
    [started] = claim_all(waker, child.id)
    write_batch(waker, [(started.lease, Write(outcome=Completed("1")))])
    looking: list[Future[list[Ready]]] = []

    def meanwhile() -> None:
        looking.append(threads.start(recovery.wake, waker, claim.run_id))
        wait_until_blocked(watching, session(suspending))
        assert not looking[0].done()

    suspending.before[SUSPENSION] = meanwhile
    assert suspend(suspending, claim, outcome=Suspended("map:each")).status == Status.QUEUED
    assert answer(looking[0]) == []
    suspending.close()


@pytest.mark.parametrize("status", sorted(set(Status) - {"succeeded", "failed", "cancelled"}))
def test_a_live_item_keeps_the_parent_of_a_map_waiting(db: PrivateDatabase, status: str):
    claim = running(db)
    make_run(status, parent_id=claim.run_id, parent_path="each[10]", queue="elsewhere")
    make_run("succeeded", parent_id=claim.run_id, parent_path="each[9]")
    assert suspend(db, claim, map_entry(), outcome=Suspended("map:each")).status == Status.WAITING
    assert recovery.try_wake_parent(db, claim.run_id, "each[9]") == recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []


@pytest.mark.parametrize("path", ["each", "eac", "eachother[0]", "Each[0]", "each%5B0%5D", "scope/each[0]"])
def test_children_at_paths_that_only_look_alike_are_no_items_of_the_map(db: PrivateDatabase, path: str):
    claim = running(db)
    make_run("waiting", parent_id=claim.run_id, parent_path=path)
    [item] = fan_out(db, claim, 1)
    assert end(db, item) == [Ready(claim.run_id, "default", 0)]


def test_children_of_calls_with_keys_are_waited_for_one_by_one(db: PrivateDatabase):
    """Their paths look like those of a map's items, and a live one has nothing to do with another's wait."""
    claim = running(db)
    make_run("waiting", parent_id=claim.run_id, parent_path="pack[1]")
    child = child_of(claim, "pack[0]")
    suspend(db, claim, child_entry("pack[0]"), outcome=Suspended("child:pack[0]"), children=[child])
    [started] = claim_all(db, child.id)
    assert end(db, started) == [Ready(claim.run_id, "default", 0)]


def test_the_sweep_wakes_the_parent_whose_last_child_s_process_died(db: PrivateDatabase):
    claim = running(db)
    for child in fan_out(db, claim, 3):
        assert recovery.sweep(db, 10) == []
        write_batch(db, [(child.lease, Write(outcome=Completed("1")))])
    assert recovery.sweep(db, 10) == [Ready(claim.run_id, "default", 0)]


# --- until there is room -----------------------------------------------------------------------


def test_a_parent_that_waits_for_room_is_woken_by_who_makes_it(db: PrivateDatabase):
    claim = running(db)
    children = fan_out(db, claim, 4, awaits="2")
    assert end(db, children[3]) == recovery.wake(db, claim.run_id) == recovery.sweep(db, 10) == []
    assert end(db, children[1]) == [Ready(claim.run_id, "default", 0)]


def test_the_sweep_wakes_a_parent_with_room_whose_child_s_process_died(db: PrivateDatabase):
    claim = running(db)
    for child in fan_out(db, claim, 3, awaits="1")[:2]:
        assert recovery.sweep(db, 10) == []
        write_batch(db, [(child.lease, Write(outcome=Completed("1")))])
    assert recovery.sweep(db, 10) == [Ready(claim.run_id, "default", 0)]


@pytest.mark.parametrize(("awaits", "status"), [("1", Status.WAITING), ("2", Status.QUEUED), ("3", Status.QUEUED)])
def test_a_parent_that_has_room_when_it_suspends_goes_straight_on(db: PrivateDatabase, awaits: str, status: str):
    claim = running(db)
    for index, child in enumerate([Status.QUEUED, Status.SUCCEEDED, Status.WAITING]):
        make_run(child, parent_id=claim.run_id, parent_path=f"each[{index}]", queue="elsewhere")
    assert suspend(db, claim, map_entry(awaits=awaits), outcome=Suspended("map:each")).status == status


def test_a_parent_that_was_woken_is_not_even_looked_at_by_those_that_end_meanwhile(db: PrivateDatabase):
    claim, hooked = running(db), Hooked()
    first, *others = fan_out(db, claim, 5, awaits="4")
    assert end(db, first) == [Ready(claim.run_id, "default", 0)]
    touched: list[str] = []
    hooked.before["FROM django_durable_run WHERE id ="] = lambda: touched.append("the parent's row")
    assert [end(hooked, child) for child in others] == [[]] * 4
    assert touched == []
    hooked.close()


def test_many_that_end_at_once_ask_for_their_parent_once(db: PrivateDatabase):
    claim, hooked = running(db), Hooked()
    children = fan_out(db, claim, 5, awaits="2")
    write_batch(db, [(child.lease, Write(outcome=Completed("1"))) for child in children])
    asked: list[str] = []

    def ask() -> None:
        asked.append("the map")
        hooked.before["SELECT j.path"] = ask

    hooked.before["SELECT j.path"] = ask
    ended = [(claim.run_id, f"each[{index}]") for index in range(5)]
    assert recovery.wake_parents(hooked, [*ended, (None, "")]) == [Ready(claim.run_id, "default", 0)]
    assert asked == ["the map"]
    hooked.close()


def test_children_of_a_map_are_loaded_once_it_may_go_on_and_those_only_that_are_not_noted(db: PrivateDatabase):
    claim = running(db)
    first, second, third, _ = fan_out(db, claim, 4, awaits="1")
    journal_row(fresh(claim.run_id), replace(child_entry("each[2]"), status=EntryStatus.SUCCEEDED))
    for child in (first, third):
        write_batch(db, [(child.lease, Write(outcome=Completed("1")))])
        assert load_news(db, claim.run_id)[1] == {}
    write_batch(db, [(second.lease, Write(outcome=Completed("2")))])
    children = load_news(db, claim.run_id)[1]
    assert set(children) == {"each[0]", "each[1]"}
