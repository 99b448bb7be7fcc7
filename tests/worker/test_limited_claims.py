"""The claimer and runs with a limit: hinted at, looked for, and taking turns with those that have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest

from django_durable.core import clock
from django_durable.core.limits import Bounds, Rate
from django_durable.models import Run
from django_durable.queues.ready import Ready
from django_durable.store.claiming import Claim, Claimant
from django_durable.store.database import PrivateDatabase
from django_durable.worker.claimer import Claimer
from django_durable.worker.loops import admit
from django_durable.worker.loops.admit import Admit
from django_durable.worker.loops.refill import LOW_WATER
from django_durable.worker.slots import Slots
from tests.store.rows import WORKFLOW, make_run
from tests.worker.test_claimer import Listed

pytestmark = pytest.mark.django_db(transaction=True)
ONE = Bounds(concurrency=1)
PRECISION = 0.01
"""Seconds that a database may round an instant by: SQLite writes milliseconds."""


class Told(Listed):
    """A list that takes what is pushed."""

    def push(self, runs: Sequence[Ready]) -> None:
        self.ids += [run.id for run in runs]


def seconds_to_opening(started: Run, seconds: float) -> float:
    """Until as many have passed since this run began."""
    began = Run.objects.get(pk=started.pk).started_at
    assert began is not None
    return (began - clock.utcnow()).total_seconds() + seconds


def claimer(db: PrivateDatabase, slots: int, *listed: Run, bounds: Bounds | None = ONE) -> tuple[Claimer, list[Claim]]:
    started: list[Claim] = []
    who = Claimant(uuid4(), ("default",), (WORKFLOW,), {} if bounds is None else {WORKFLOW: bounds})
    return Claimer(db, Listed(*listed), who, Slots(slots), slots, started.extend), started


def test_an_id_of_a_full_limit_is_dropped_and_the_next_is_not(db: PrivateDatabase) -> None:
    runs = [make_run(limit_key=key) for key in "aab"]
    one, started = claimer(db, 8, *runs)
    one.tick()
    assert {claim.limit_key for claim in started} == {"a", "b"}
    assert len(started) == 2


def test_a_look_finds_what_no_list_holds(db: PrivateDatabase) -> None:
    make_run(limit_key="a")
    free = make_run()
    one, started = claimer(db, 8)
    one.tick()
    assert {claim.limit_key for claim in started} == {"a", None}
    assert free.pk in {claim.run_id for claim in started}


def test_with_one_slot_both_kinds_have_their_turn(db: PrivateDatabase) -> None:
    for number in range(4):
        make_run(limit_key="a")
        make_run(priority=number)
    one, started = claimer(db, 1, bounds=Bounds(9))
    for _ in range(4):
        one.look_again()
        assert one.tick() == 1
        one._slots.free(started[-1].lease)
    assert [claim.limit_key for claim in started].count("a") == 2


def test_code_without_the_limit_takes_what_was_started_under_it(db: PrivateDatabase) -> None:
    for _ in range(3):
        make_run(limit_key="a")
    one, started = claimer(db, 8, bounds=None)
    one.tick()
    assert len(started) == 3


def test_the_admit_tick_pushes_what_has_room_once_the_list_is_short(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_run(limit_key="a")
    make_run(limit_key="a")
    other = make_run(limit_key="b")
    monkeypatch.setattr(admit, "limits", lambda: {WORKFLOW: Bounds(1)})
    queue = Told()
    loop = Admit(db, queue, ["default"])
    loop.tick()
    assert set(queue.ids) == {first.pk, other.pk}
    queue.ids = [uuid4() for _ in range(LOW_WATER)]
    loop.tick()
    assert len(queue.ids) == LOW_WATER


def test_the_admit_tick_pushes_what_a_rate_lets_begin_when_that_opens(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, travel: Callable[[float], None], settings: Any
) -> None:
    settings.DURABLE = {**settings.DURABLE, "REAP_SECONDS": 60}
    bounds = Bounds(rate=Rate(1, 60))
    monkeypatch.setattr(admit, "limits", lambda: {WORKFLOW: bounds})
    first, second = make_run(limit_key="a"), make_run(limit_key="a")
    queue = Told()
    loop = Admit(db, queue, ["default"])
    assert loop.interval == 1.0, "a start under a full rate tells nobody"
    loop.tick()
    assert queue.ids == [first.pk]
    one, started = claimer(db, 8, first, bounds=bounds)
    one.tick()
    assert [claim.run_id for claim in started] == [first.pk]
    queue.ids.clear()
    loop.tick()
    assert (queue.ids, loop.interval) == ([], 1.0)
    # As long as a machine takes until here, whatever that is, is over by now.
    travel(seconds_to_opening(first, 60) - 30)
    monkeypatch.setattr(admit, "LONGEST_REST", 60.0)
    before = seconds_to_opening(first, 60)
    loop.tick()
    assert queue.ids == []
    assert seconds_to_opening(first, 60) - PRECISION <= loop.interval <= before + PRECISION
    travel(seconds_to_opening(first, 60) + PRECISION)
    loop.tick()
    assert queue.ids == [second.pk]


def test_a_claimer_looks_again_when_a_rate_opens(
    db: PrivateDatabase, travel: Callable[[float], None], settings: Any
) -> None:
    settings.DURABLE = {**settings.DURABLE, "REAP_SECONDS": 300}
    first, second = make_run(limit_key="a"), make_run(limit_key="a")
    one, started = claimer(db, 8, bounds=Bounds(rate=Rate(1, 60)))
    one.tick()
    assert [claim.run_id for claim in started] == [first.pk]
    rest = one._next_look - clock.monotonic()
    assert seconds_to_opening(first, 60) - PRECISION <= rest <= 60 + PRECISION
    travel(60)
    one.look_again()
    one.tick()
    assert started[-1].run_id == second.pk
