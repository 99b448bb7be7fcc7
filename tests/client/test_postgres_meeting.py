"""An open transaction that has started a run of a key, and who works on that key meanwhile: SQLite has one writer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from django_durable.core import clock
from django_durable.exceptions import RunLocked
from django_durable.testing import run_until_idle
from tests.app.limits import one_live
from tests.client.test_meeting import OpenStart
from tests.schedules.making import fire_loop, make_schedule, move_to, next_of, outcomes
from tests.store.parallel import Threads
from tests.store.rows import status_of

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads() as threads:
        yield threads


@pytest.fixture
def _unmoved_clock() -> Iterator[None]:
    yield
    clock.set_offset(timedelta(0))


@pytest.mark.usefixtures("_unmoved_clock")
def test_a_schedule_waits_for_no_open_start(threads: Threads) -> None:
    loop = fire_loop(one_live)
    row = make_schedule(workflow=one_live.name, input='{"tenant":"a"}')
    first = OpenStart(threads, one_live)
    move_to(next_of(row))
    before = clock.monotonic()
    with pytest.raises(RunLocked):
        loop.fire(row.pk)
    assert clock.monotonic() - before < 1
    assert outcomes(row) == [], "the instant stays due"
    first.finish(fails=False)
    loop.fire(row.pk)
    assert outcomes(row) == ["skipped: overlap"]


def test_an_open_start_is_in_nobodys_way_who_works_on_the_key(threads: Threads) -> None:
    """Its transaction may be a long one; the runs of the key are claimed under another lock."""
    waiting = one_live.enqueue("a")
    run_until_idle()
    waiting.send_event("go")
    first = OpenStart(threads, one_live)
    run_until_idle()
    first.finish(fails=False)
    assert status_of(waiting.id) == "succeeded"
