from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from django_durable.worker.slots import Slots


def claim() -> Any:
    return SimpleNamespace(lease=Lease(uuid4(), uuid4(), clock.monotonic() + 30))


def test_claims_take_slots_and_endings_free_them() -> None:
    slots = Slots(2)
    first, second = claim(), claim()
    assert slots.wait_for_room(0) == 2
    slots.take(first)
    slots.take(second)
    assert slots.wait_for_room(0) == 0
    assert slots.leases() == [first.lease, second.lease]
    slots.free(first.lease)
    assert (slots.wait_for_room(0), slots.used, slots.finished) == (1, 1, 1)


def test_an_outcome_on_its_way_takes_no_slot_but_is_not_over() -> None:
    slots = Slots(2)
    first, second, third = claim(), claim(), claim()
    slots.take(first)
    slots.take(second)
    slots.end(first.lease)
    assert (slots.wait_for_room(0), slots.used, slots.finished) == (1, 2, 0)
    # Its lease is kept until it is stored.
    assert first.lease in slots.leases() and not slots.wait_until_empty(0)
    slots.take(third)
    assert slots.wait_for_room(0) == 0
    slots.free(first.lease)
    assert (slots.wait_for_room(0), slots.used, slots.finished) == (0, 2, 1)


def test_outcomes_that_are_not_stored_stop_new_claims_in_the_end() -> None:
    slots = Slots(2)
    ending = [claim() for _ in range(4)]
    for one in ending:
        slots.take(one)
        slots.end(one.lease)
    assert slots.wait_for_room(0) == 0
    slots.free(ending[0].lease)
    assert slots.wait_for_room(0) == 1


def test_who_works_alone_claims_nothing_before_the_outcome_is_stored() -> None:
    slots = Slots(1, may_overlap=False)
    only = claim()
    slots.take(only)
    slots.end(only.lease)
    assert slots.wait_for_room(0) == 0
    slots.free(only.lease)
    assert slots.wait_for_room(0) == 1


def test_who_waits_for_room_goes_on_when_a_slot_comes_free() -> None:
    slots = Slots(1)
    held = claim()
    slots.take(held)
    found: list[int] = []
    waiter = threading.Thread(target=lambda: found.append(slots.wait_for_room(300)))
    waiter.start()
    slots.free(held.lease)
    waiter.join(60)
    assert found == [1]


def test_who_waits_for_a_few_gets_what_there_is_when_the_time_is_over() -> None:
    slots = Slots(4)
    for _ in range(3):
        slots.take(claim())
    assert slots.wait_for_room(0.001, at_least=2) == 1


def test_emptiness_is_waited_for() -> None:
    slots = Slots(1)
    assert slots.wait_until_empty(0)
    held = claim()
    slots.take(held)
    assert not slots.wait_until_empty(0.001)
    ending = threading.Timer(0.01, slots.free, [held.lease])
    ending.start()
    assert slots.wait_until_empty(5)
    ending.join()


def test_every_run_is_asked_to_hand_itself_back() -> None:
    slots = Slots(2)
    first, second = claim(), claim()
    slots.take(first)
    slots.ask_to_release()
    slots.take(second)
    assert (first.lease.release_requested, second.lease.release_requested) == (True, False)
