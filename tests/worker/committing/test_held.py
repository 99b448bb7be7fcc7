"""Rows that somebody else holds: their writes are set aside, in nobody's way, and made in the end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any

import pytest

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Released
from django_durable.worker import committer as committer_module
from django_durable.worker.committer import Committer
from tests.processes import PATIENCE, wait_until
from tests.store.rows import LEASE, entries, step_entry
from tests.worker.committing.lining_up import Store, a_step, by_thread_and_by_coroutine, paths, throng

pytestmark = pytest.mark.django_db(transaction=True)


class Clock:
    """The committer's clock, for a test to stop."""

    def __init__(self) -> None:
        self.stopped_at: float | None = None

    def monotonic(self) -> float:
        return clock.monotonic() if self.stopped_at is None else self.stopped_at


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own = Clock()
    monkeypatch.setattr(committer_module, "clock", own)
    return own


@by_thread_and_by_coroutine
def test_a_held_row_is_in_nobodys_way(
    write: Any, committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease], time: Clock
) -> None:
    """As long as its time has not come it is in no batch, and no batch waits for it."""
    held, other = lease(), lease()
    store.held, time.stopped_at = {held.run_id}, clock.monotonic()
    waiting = pool.submit(write, committer, held, a_step())
    wait_until(lambda: committer._held, message="the held write to be set aside")
    for turn in range(100):
        assert write(committer, other, a_step(f"{turn}")).is_held
    assert len(store.batches) == 101
    assert store.tries(held) == 1
    store.held, time.stopped_at = set(), None
    assert waiting.result(PATIENCE).is_held
    assert paths(held) == ["step"]


@by_thread_and_by_coroutine
def test_a_held_row_is_committed_soon_after_it_is_freed_although_nobody_else_writes(
    write: Any, committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease]
) -> None:
    held = lease()
    store.held = {held.run_id}
    began = clock.monotonic()
    waiting = pool.submit(write, committer, held, a_step())
    wait_until(lambda: store.tries(held) >= 8, message="some tries")
    tries, elapsed = store.tries(held), clock.monotonic() - began
    store.held, freed = set(), clock.monotonic()
    assert waiting.result(PATIENCE).is_held
    # Nor until the lease is over.
    assert clock.monotonic() - freed < LEASE / 2
    # After 5, 10, 20 and 40 milliseconds, and then each 50.
    assert elapsed > 0.2 and tries <= 5 + elapsed / 0.05


def test_a_held_row_whose_time_comes_during_a_commit_is_tried_after_it(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease], time: Clock
) -> None:
    """The committer's own thread finds somebody leading when it wakes for the row; that leader calls it again."""
    held, other = lease(), lease()
    store.held = {held.run_id}
    time.stopped_at = clock.monotonic()
    waiting = pool.submit(committer.write, held, a_step())
    wait_until(lambda: committer._held, message="the held write to be set aside")
    store.is_open.clear()
    leading = pool.submit(committer.write, other, a_step())
    wait_until(lambda: len(store.batches) == 2, message="the other commit")
    store.held, time.stopped_at = set(), None
    wait_until(lambda: committer._wakes_at == inf, message="the committer's thread to leave it to the leader")
    store.is_open.set()
    assert leading.result(PATIENCE).is_held
    assert waiting.result(PATIENCE).is_held


def test_what_a_run_writes_after_a_held_write_does_not_overtake_it(
    committer: Committer, store: Store, pool: ThreadPoolExecutor, lease: Callable[[], Lease], time: Clock
) -> None:
    """The last one gives up the lease: the one before it would be lost."""
    held, other = lease(), lease()
    store.held, time.stopped_at = {held.run_id}, clock.monotonic()
    first = pool.submit(committer.write, held, a_step("first"))
    wait_until(lambda: committer._held, message="the held write to be set aside")
    last = pool.submit(committer.write, held, Write(entries(step_entry("last")), outcome=Released()))
    wait_until(lambda: not committer._waiting and not committer._is_led, message="the last one behind it")
    store.held = set()
    assert committer.write(other, a_step()).is_held
    assert not first.done() and not last.done()
    time.stopped_at = None
    assert (first.result(PATIENCE).is_lost, last.result(PATIENCE).status) == (False, "queued")
    assert paths(held) == ["first", "last"]


@by_thread_and_by_coroutine
def test_a_held_row_is_lost_when_its_lease_ends(
    write: Any, committer: Committer, store: Store, lease: Callable[[], Lease]
) -> None:
    held = lease()
    held.ends = clock.monotonic() + 0.2
    store.held = {held.run_id}
    assert write(committer, held, a_step()).is_lost
    assert held.ends <= clock.monotonic() < held.ends + 20
    assert paths(held) == []


def test_nobody_is_left_waiting_in_a_throng_with_held_rows(
    committer: Committer, store: Store, lease: Callable[[], Lease]
) -> None:
    """Whoever leads, and whoever was the last to lead: each row that is held for a while is written in the end."""
    throng(committer, store, [lease() for _ in range(8)], [lease() for _ in range(8)])
