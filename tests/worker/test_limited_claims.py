"""The claimer and runs with a limit: hinted at, looked for, and taking turns with those that have none."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pytest

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


class Told(Listed):
    """A list that takes what is pushed."""

    def push(self, runs: Sequence[Ready]) -> None:
        self.ids += [run.id for run in runs]


def claimer(db: PrivateDatabase, slots: int, *listed: Run, maximum: int | None = 1) -> tuple[Claimer, list[Claim]]:
    started: list[Claim] = []
    who = Claimant(uuid4(), ("default",), (WORKFLOW,), {} if maximum is None else {WORKFLOW: maximum})
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
    one, started = claimer(db, 1, maximum=9)
    for _ in range(4):
        one.look_again()
        assert one.tick() == 1
        one._slots.free(started[-1].lease)
    assert [claim.limit_key for claim in started].count("a") == 2


def test_code_without_the_limit_takes_what_was_started_under_it(db: PrivateDatabase) -> None:
    for _ in range(3):
        make_run(limit_key="a")
    one, started = claimer(db, 8, maximum=None)
    one.tick()
    assert len(started) == 3


def test_the_admit_tick_pushes_what_has_room_once_the_list_is_short(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_run(limit_key="a")
    make_run(limit_key="a")
    other = make_run(limit_key="b")
    monkeypatch.setattr(admit, "limits", lambda: {WORKFLOW: 1})
    queue = Told()
    loop = Admit(db, queue, ["default"])
    loop.tick()
    assert set(queue.ids) == {first.pk, other.pk}
    queue.ids = [uuid4() for _ in range(LOW_WATER)]
    loop.tick()
    assert len(queue.ids) == LOW_WATER
