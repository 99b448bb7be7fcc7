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


def test_who_waits_for_room_goes_on_when_a_slot_comes_free() -> None:
    slots = Slots(1)
    held = claim()
    slots.take(held)
    found: list[int] = []
    waiter = threading.Thread(target=lambda: found.append(slots.wait_for_room(20)))
    waiter.start()
    slots.free(held.lease)
    waiter.join(5)
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
