"""Commits that take long: what gathers meanwhile is committed beside them, and every promise stands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Released
from django_durable.store.database import PrivateDatabase
from django_durable.worker import relief as relief_module
from django_durable.worker.committer import Committer
from django_durable.worker.relief import REST_SECONDS, Relief
from tests.processes import PATIENCE, wait_until
from tests.store.rows import entries, step_entry
from tests.worker.committing.beside import Commits, begin, hand_over, ids
from tests.worker.committing.lining_up import a_step, paths, throng

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_full_batch_is_committed_beside_a_slow_commit(slow: Committer, commits: Commits, leases: list[Lease]) -> None:
    first = begin(slow, commits, leases[0])
    others = [hand_over(slow, one) for one in leases[1:4]]
    wait_until(lambda: len(commits.batches) == 2, message="the second commit beside the first")
    assert commits.batches[1] == ids(leases[1:4])
    commits.finish(1)
    assert all(other.result(PATIENCE).is_held for other in others)
    assert not first.done()
    commits.finish(0)
    assert first.result(PATIENCE).is_held
    assert [paths(one) for one in leases[:4]] == [["step"]] * 4


def test_few_wait_for_the_commit_that_is_under_way(slow: Committer, commits: Commits, leases: list[Lease]) -> None:
    first = begin(slow, commits, leases[0])
    others = [hand_over(slow, one) for one in leases[1:3]]
    commits.finish(0)
    assert first.result(PATIENCE).is_held
    wait_until(lambda: len(commits.batches) == 2, message="the next commit")
    assert commits.batches[1] == ids(leases[1:3])
    commits.finish_all()
    assert all(other.result(PATIENCE).is_held for other in others)
    assert commits.most == 1


def test_where_commits_are_quick_there_is_one_at_a_time(
    committer: Committer, commits: Commits, leases: list[Lease]
) -> None:
    committer._relief._slow = 1e9
    first = begin(committer, commits, leases[0])
    others = [hand_over(committer, one) for one in leases[1:]]
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (first, *others))
    assert commits.most == 1
    assert committer._relief._thread is None and committer._relief.db.connection.connection is None


@pytest.fixture
def alone(db: PrivateDatabase) -> Iterator[Relief]:
    """Under way, once it is asked, until the test ends it."""
    relief = Relief(db, lambda: None)
    relief._slow = 0.004
    yield relief
    relief.close()


def is_begun(relief: Relief) -> bool:
    """Whether it comes where it is asked beside a new commit."""
    relief.leader_begins()
    comes = relief.ask()
    assert comes is relief.is_under_way
    return comes


def test_it_is_the_last_commits_that_say_whether_they_are_slow(alone: Relief) -> None:
    for seconds, is_slow in ((0.001, False), (0.006, True), (0.001, False), (1_000.0, True), (0.001, False)):
        for _ in range(12):
            alone.note(seconds)
        assert is_begun(alone) is is_slow
        alone.ends(has_failed=False)


def test_after_its_connection_has_failed_there_is_none_for_a_while(
    alone: Relief, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    alone._slow = -1.0
    assert is_begun(alone)
    alone.ends(has_failed=True)
    assert not is_begun(alone)
    now += REST_SECONDS
    # Asked once for each commit of the leader's, whatever came of that.
    assert not alone.ask() and not alone.is_under_way
    assert is_begun(alone)


def test_those_who_gather_beside_a_relief_are_taken_after_it(
    slow: Committer, commits: Commits, leases: list[Lease]
) -> None:
    """The leader's commit is over first, and too few are there for another: nobody leads until the relief is over."""
    first = begin(slow, commits, leases[0])
    others = [hand_over(slow, one) for one in leases[1:4]]
    wait_until(lambda: len(commits.batches) == 2, message="the relief")
    late = [hand_over(slow, one) for one in leases[4:6]]
    commits.finish(0)
    assert first.result(PATIENCE).is_held
    wait_until(lambda: not slow._is_led, message="the leader to step down")
    assert len(commits.batches) == 2
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (*others, *late))
    assert commits.batches[2] == ids(leases[4:6])


def test_a_full_batch_beside_a_relief_is_led_at_once(slow: Committer, commits: Commits, leases: list[Lease]) -> None:
    first = begin(slow, commits, leases[0])
    others = [hand_over(slow, one) for one in leases[1:4]]
    wait_until(lambda: len(commits.batches) == 2, message="the relief")
    commits.finish(0)
    assert first.result(PATIENCE).is_held
    late = [hand_over(slow, one) for one in leases[4:7]]
    wait_until(lambda: len(commits.batches) == 3, message="the leader beside the relief")
    assert commits.batches[2] == ids(leases[4:7])
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (*others, *late))


def test_a_thread_leads_beside_a_relief_and_is_not_taken_by_it(
    pool: ThreadPoolExecutor, slow: Committer, commits: Commits, leases: list[Lease]
) -> None:
    """It may be asked to lead at any moment: who was also answered elsewhere would lead for nobody."""
    begin(slow, commits, leases[0])
    threaded = pool.submit(slow.write, leases[1], a_step())
    wait_until(lambda: len(slow._waiting) == 1, message="the thread in line")
    others = [hand_over(slow, one) for one in leases[2:4]]
    wait_until(lambda: len(commits.batches) == 2, message="the relief")
    assert commits.batches[1] == ids(leases[2:4])
    commits.finish(0)
    wait_until(lambda: len(commits.batches) == 3, message="the thread's own commit")
    assert commits.batches[2] == [leases[1].run_id]
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (threaded, *others))


def test_a_run_is_in_one_commit_at_a_time(slow: Committer, commits: Commits, leases: list[Lease]) -> None:
    """Its second write, which gives up the lease, stays behind the first."""
    mine, *rest = leases
    first = begin(slow, commits, mine, a_step("first"))
    last = hand_over(slow, mine, Write(entries(step_entry("last", seq=2)), outcome=Released()))
    others = [hand_over(slow, one) for one in rest[:2]]
    wait_until(lambda: len(commits.batches) == 2, message="the relief")
    assert commits.batches[1] == ids(rest[:2])
    commits.finish_all()
    assert (first.result(PATIENCE).is_lost, last.result(PATIENCE).status) == (False, "queued")
    assert all(one.result(PATIENCE).is_held for one in others)
    assert paths(mine) == ["first", "last"]


def test_a_relief_that_finds_only_runs_that_are_under_way_ends(
    slow: Committer, commits: Commits, leases: list[Lease]
) -> None:
    """Asked again with the next commit, not with each write."""
    mine = leases[0]
    told = [begin(slow, commits, mine, a_step("0"))]
    told += [hand_over(slow, mine, a_step(f"{turn}")) for turn in range(1, 6)]
    wait_until(lambda: not slow._relief.is_under_way, message="the relief, which finds nothing")
    assert len(commits.batches) == 1
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in told)
    assert commits.batches == [[mine.run_id]] * 6


def test_a_row_that_the_relief_finds_held_is_tried_again_by_whoever_leads(
    slow: Committer, commits: Commits, leases: list[Lease]
) -> None:
    """Nobody leads when it is set aside, and what its run writes then stays behind it."""
    commits.held = {leases[1].run_id}
    first = begin(slow, commits, leases[0])
    others = [hand_over(slow, one) for one in leases[1:4]]
    wait_until(lambda: len(commits.batches) == 2, message="the relief")
    last = hand_over(slow, leases[1], Write(entries(step_entry("last", seq=2)), outcome=Released()))
    commits.finish(0)
    assert first.result(PATIENCE).is_held
    commits.finish_all()
    wait_until(lambda: slow._held, message="the held write to be set aside")
    commits.held = set()
    assert all(one.result(PATIENCE).is_held for one in others)
    assert last.result(PATIENCE).status == "queued"
    assert paths(leases[1]) == ["last", "step"]


def test_nobody_is_left_waiting_in_a_throng_with_held_rows(
    slow: Committer, commits: Commits, lease: Callable[[], Lease]
) -> None:
    commits.finish_all()
    throng(slow, commits, [lease() for _ in range(8)], [lease() for _ in range(16)])
    assert (commits.most, commits.overlapping) == (2, set())


def test_what_its_connection_does_not_reach_is_sent_again_by_the_leader(
    slow: Committer, commits: Commits, leases: list[Lease]
) -> None:
    """The leader's may be well: nobody waits for the other until its lease is over."""
    commits.refused = slow._relief.db
    first = begin(slow, commits, leases[0])
    others = [hand_over(slow, one) for one in leases[1:4]]
    wait_until(lambda: len(commits.batches) == 2, message="the relief")
    last = hand_over(slow, leases[1], Write(entries(step_entry("last", seq=2)), outcome=Released()))
    few = hand_over(slow, leases[4])
    commits.finish(1)
    wait_until(lambda: not slow._relief.is_under_way, message="the relief to give up")
    assert not any(one.done() for one in others)
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (first, *others, few))
    assert last.result(PATIENCE).status == "queued"
    assert [paths(one) for one in leases[:3]] == [["step"], ["last", "step"], ["step"]]


def test_few_do_not_wait_for_a_relief_that_hangs(slow: Committer, commits: Commits, leases: list[Lease]) -> None:
    first = begin(slow, commits, leases[0])
    others = [hand_over(slow, one) for one in leases[1:4]]
    wait_until(lambda: len(commits.batches) == 2, message="the relief")
    early = hand_over(slow, leases[4])
    commits.finish(0)
    assert first.result(PATIENCE).is_held
    # Handed over before it is late, and after.
    wait_until(lambda: len(commits.batches) == 3, message="the leader beside it")
    assert commits.batches[2] == ids(leases[4:5])
    commits.finish(2)
    assert early.result(PATIENCE).is_held
    late = begin(slow, commits, leases[5])
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (*others, late))


@pytest.mark.parametrize("handed_over", [4, 8], ids=["asked with a write", "asked with a commit"])
def test_where_there_is_no_thread_for_it_commits_are_made_one_at_a_time(
    slow: Committer,
    commits: Commits,
    leases: list[Lease],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    handed_over: int,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(relief_module.threading.Thread, "start", refuse)
    if handed_over == 8:
        slow._relief._may_be_asked = False
        monkeypatch.setattr(slow._relief, "leader_begins", lambda: None)
    first = begin(slow, commits, leases[0])
    others = [hand_over(slow, one) for one in leases[1:handed_over]]
    slow._relief._may_be_asked = True
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (first, *others))
    assert commits.most == 1 and not slow._relief.is_under_way
    assert "slow commits are made one at a time: can't start new thread" in caplog.text


def test_a_write_of_another_sort_does_not_overtake_a_threads(
    pool: ThreadPoolExecutor, slow: Committer, commits: Commits, leases: list[Lease]
) -> None:
    mine, *rest = leases
    begin(slow, commits, rest[0])
    threaded = pool.submit(slow.write, mine, a_step("first"))
    wait_until(lambda: len(slow._waiting) == 1, message="the thread in line")
    last = hand_over(slow, mine, Write(entries(step_entry("last", seq=2)), outcome=Released()))
    others = [hand_over(slow, one) for one in rest[1:3]]
    wait_until(lambda: len(commits.batches) == 2, message="the relief")
    assert mine.run_id not in commits.batches[1]
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (threaded, *others))
    assert last.result(PATIENCE).status == "queued"
    assert paths(mine) == ["first", "last"]


def test_closing_ends_it(db: PrivateDatabase, commits: Commits, leases: list[Lease]) -> None:
    committer = Committer(db, lambda *_: None)
    committer._relief._slow = -1.0
    first = begin(committer, commits, leases[0])
    others = [hand_over(committer, one) for one in leases[1:4]]
    wait_until(lambda: len(commits.batches) == 2, message="the relief")
    commits.finish_all()
    assert all(one.result(PATIENCE).is_held for one in (first, *others))
    thread = committer._relief._thread
    assert thread is not None and committer._relief.db.connection.connection is not None
    committer.close()
    assert not thread.is_alive() and committer._relief.db.connection.connection is None


def test_where_one_connection_writes_at_a_time_there_is_none(connect: Callable[[], PrivateDatabase]) -> None:
    db = connect()
    committer = Committer(db, lambda *_: None)
    assert (committer._relief._slow < 1) is not db.dialect.has_one_writer
    committer.close()
