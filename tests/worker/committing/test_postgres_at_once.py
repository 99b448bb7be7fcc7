"""The steps of a coroutine that is alone are committed by its event loop, which waits for nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.models import Run
from django_durable.store import busy_polling
from django_durable.store.database import PrivateDatabase
from django_durable.store.typed_statements import TypedStatements
from django_durable.worker.committer import Committer
from tests.processes import PATIENCE, wait_until
from tests.store.rows import REFUSED_SEQ, Refused
from tests.worker.committing import lining_up
from tests.worker.committing.lining_up import awrite, paths

pytestmark = pytest.mark.django_db(transaction=True)

HERE, OWN = threading.current_thread().name, "durable-committer"
WARM = 4
"""Steps after which the run is known to be alone, and its statement to the server."""


def a_step(path: str = "step", **columns: Any) -> Write:
    """That is new, as far as the run knows."""
    return lining_up.a_step(path, is_new=True, **columns)


@pytest.fixture(autouse=True)
def _awake(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is."""
    monkeypatch.setattr(busy_polling, "LONGEST", 60.0)
    monkeypatch.setattr(busy_polling, "AT_ONCE", 60.0)
    monkeypatch.setattr(busy_polling, "DISTURBED", 60.0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """By which thread each statement was sent."""
    found: list[str] = []
    send: Callable[..., None] = TypedStatements._send

    def told(self: TypedStatements, *given: Any) -> None:
        found.append(threading.current_thread().name)
        send(self, *given)

    monkeypatch.setattr(TypedStatements, "_send", told)
    return found


@pytest.fixture
def alone(committer: Committer, lease: Callable[[], Lease], asked: list[str], leaders: list[str]) -> Lease:
    mine = lease()
    for number in range(WARM):
        assert awrite(committer, mine, a_step(f"before {number}")).is_held
    asked.clear()
    leaders.clear()
    return mine


def test_the_loop_itself_commits(committer: Committer, alone: Lease, asked: list[str], leaders: list[str]) -> None:
    for number in range(3):
        assert awrite(committer, alone, a_step(f"{number}")).is_held
    assert (asked, leaders) == ([HERE] * 3, [HERE] * 3)
    assert {"0", "1", "2"} <= set(paths(alone))
    assert not committer._is_led and not committer._under_way


@pytest.mark.parametrize("others", [1, 3])
def test_in_company_the_committers_own_thread_does(
    committer: Committer, lease: Callable[[], Lease], alone: Lease, leaders: list[str], others: int
) -> None:
    leases = [*(lease() for _ in range(others)), alone]

    async def all_of_them() -> None:
        await asyncio.gather(*(committer.awrite(one, a_step()) for one in leases))

    asyncio.run(all_of_them())
    assert leaders == [OWN] * (others + 1)
    # Whoever was not alone the last time is not known to be.
    assert awrite(committer, alone, a_step("after")).is_held
    assert leaders[-1] == OWN


def test_others_of_the_loop_have_their_turn_after_each(committer: Committer, alone: Lease) -> None:
    turns: list[str] = []

    async def steps() -> None:
        for number in range(5):
            await committer.awrite(alone, a_step(f"{number}"))
            turns.append("step")

    async def others() -> None:
        for _ in range(5):
            turns.append("other")
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(steps(), others())

    asyncio.run(both())
    assert turns == ["other", "step"] * 5


def test_of_branches_the_loop_commits_one_in_each_of_its_turns(
    committer: Committer, alone: Lease, leaders: list[str]
) -> None:
    """Else it would do nothing else until all of them are through."""
    at_the_timer: list[int] = []

    async def all_of_them() -> None:
        asyncio.get_running_loop().call_later(0, lambda: at_the_timer.append(len(leaders)))
        await asyncio.gather(*(committer.awrite(alone, a_step(f"{branch}")) for branch in range(20)))

    asyncio.run(all_of_them())
    assert leaders[0] == HERE
    assert set(leaders[1:]) == {OWN}
    assert at_the_timer[0] < 20


def test_who_comes_while_the_loop_commits_is_led_after_it(
    committer: Committer, alone: Lease, lease: Callable[[], Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not taken for one whose row is held."""
    other, told = lease(), threading.Event()
    try_at_once = committer._writer.try_at_once

    def joined(one: Any) -> bool:
        thread = threading.Thread(target=lambda: (committer.write(other, a_step("beside")), told.set()))
        thread.start()
        wait_until(lambda: committer._waiting, message="somebody who waits")
        is_done = try_at_once(one)
        assert not committer._held
        return is_done

    monkeypatch.setattr(committer._writer, "try_at_once", joined)
    assert awrite(committer, alone, a_step("first")).is_held
    assert told.wait(PATIENCE)
    assert not committer._held
    assert paths(other) == ["beside"]


def test_who_is_cancelled_meanwhile_hears_of_it_when_the_step_is_made(committer: Committer, alone: Lease) -> None:
    async def steps() -> None:
        await committer.awrite(alone, a_step("made"))
        await committer.awrite(alone, a_step("never begun"))

    async def cancel() -> None:
        task = asyncio.ensure_future(steps())
        # Its first step is made in its first turn, and told of in the second.
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert "made" in paths(alone) and "never begun" not in paths(alone)


def test_a_session_that_ends_meanwhile_costs_no_step(
    committer: Committer,
    alone: Lease,
    asked: list[str],
    journal_is_locked: Callable[[], None],
    db: PrivateDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its answer is out, and does not come."""
    monkeypatch.setattr(busy_polling, "AT_ONCE", 0.001)
    mine = db.connection.connection.info.backend_pid

    async def go_on() -> None:
        # Its question is out when it returns.
        writing = committer.awrite(alone, a_step("held up"))
        await asyncio.to_thread(end, mine)
        await asyncio.to_thread(journal_is_locked)
        assert (await asyncio.wait_for(writing, PATIENCE)).is_held

    asyncio.run(go_on())
    assert asked[0] == HERE and set(asked[1:]) == {OWN}
    assert paths(alone).count("held up") == 1


def end(pid: int) -> None:
    """Another connection than the test's own."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
    connection.close()


@pytest.fixture
def journal_is_locked(alone: Lease) -> Iterator[Callable[[], None]]:
    """No entry is written before it is called."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("LOCK TABLE django_durable_journalentry IN SHARE MODE")
        try:
            yield lambda: cursor.execute("COMMIT")
        finally:
            # Without effect after that.
            cursor.execute("ROLLBACK")


def test_what_takes_long_is_waited_for_elsewhere_while_the_loop_goes_on(
    committer: Committer,
    alone: Lease,
    asked: list[str],
    leaders: list[str],
    journal_is_locked: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(busy_polling, "AT_ONCE", 0.001)

    async def go_on() -> None:
        writing = asyncio.ensure_future(committer.awrite(alone, a_step("held up")))
        await asyncio.to_thread(wait_until, lambda: committer._begun is None, message="who may wait for it")
        assert not writing.done()
        journal_is_locked()
        assert (await asyncio.wait_for(writing, PATIENCE)).is_held

    asyncio.run(go_on())
    # It was asked once, and its answer read by who may wait.
    assert (asked, leaders) == ([HERE], [OWN])
    assert paths(alone).count("held up") == 1
    assert not committer._is_led and not committer._under_way


def test_who_comes_meanwhile_is_next(
    committer: Committer,
    alone: Lease,
    journal_is_locked: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(busy_polling, "AT_ONCE", 0.001)

    async def go_on() -> None:
        first = committer.awrite(alone, a_step("held up"))
        second = committer.awrite(alone, a_step("behind it"))
        thread = threading.Thread(target=committer.write, args=(alone, a_step("by a thread")))
        thread.start()
        await asyncio.to_thread(wait_until, lambda: len(committer._waiting) == 2, message="both in line")
        journal_is_locked()
        assert [(await asyncio.wait_for(one, PATIENCE)).is_held for one in (first, second)] == [True, True]
        await asyncio.to_thread(thread.join)

    asyncio.run(go_on())
    assert {"held up", "behind it", "by a thread"} <= set(paths(alone))


def test_a_step_that_is_there_already_is_made(committer: Committer, alone: Lease, leaders: list[str]) -> None:
    """Of a commit that nobody was told of."""
    assert awrite(committer, alone, a_step("before 0")).is_held
    assert leaders == [OWN]
    assert paths(alone).count("before 0") == 1


def test_who_has_lost_the_run_is_told_so(committer: Committer, alone: Lease, leaders: list[str]) -> None:
    Run.objects.filter(pk=alone.run_id).update(lease_token=uuid4())
    assert awrite(committer, alone, a_step("too late")).is_lost
    assert "too late" not in paths(alone)


def test_what_the_database_refuses_fails_there_alone(committer: Committer, alone: Lease) -> None:
    with pytest.raises(Refused):
        awrite(committer, alone, a_step(seq=REFUSED_SEQ))
    assert awrite(committer, alone, a_step("after")).is_held


@pytest.mark.parametrize("why", ["over", "missed"])
def test_a_lease_that_is_to_be_looked_at_is_left_to_who_may_wait(
    committer: Committer, alone: Lease, leaders: list[str], why: str
) -> None:
    if why == "over":
        alone.ends = 0.0
    else:
        alone.missed_beat = True
    assert awrite(committer, alone, a_step("after")).is_lost == (why == "over")
    assert HERE not in leaders
    assert not alone.missed_beat


def test_an_interruption_leaves_the_write_to_the_committers_own_thread(
    committer: Committer, alone: Lease, monkeypatch: pytest.MonkeyPatch, leaders: list[str]
) -> None:
    comes: Callable[..., bool] = busy_polling.BusyPolling._comes

    def interrupted(self: Any, *given: Any) -> bool:
        monkeypatch.setattr(busy_polling.BusyPolling, "_comes", comes)
        raise KeyboardInterrupt

    monkeypatch.setattr(busy_polling.BusyPolling, "_comes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        awrite(committer, alone, a_step("interrupted"))
    assert awrite(committer, alone, a_step("after")).is_held
    assert {"interrupted", "after"} <= set(paths(alone))


def test_after_late_answers_none_is_tried_until_one_is_quick(
    committer: Committer, alone: Lease, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(busy_polling, "LONGEST", -1.0)
        patch.setattr(busy_polling, "AT_ONCE", -1.0)
        patch.setattr(busy_polling.BusyPolling, "_comes", lambda *_: False)
        for number in range(4):
            assert awrite(committer, alone, a_step(f"slow {number}")).is_held
    assert asked[0] == HERE and asked[-2:] == [OWN, OWN]
    asked.clear()
    # One that is quick, and those after it.
    for number in range(3):
        assert awrite(committer, alone, a_step(f"quick {number}")).is_held
    assert asked == [OWN, HERE, HERE]
