"""What a step's function, which gets no ``ctx``, can know of itself."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from django_durable.core import clock
from django_durable.core.context import Context
from django_durable.core.flow.lease import Lease
from django_durable.core.flow.stepping import (
    CurrentStep,
    current_step,
    enter_step,
    leave_step,
    running_step,
    stable_key,
)
from django_durable.exceptions import ContextMisuse, RunCancelled
from tests.core.driving import AT_ONCE, RUN_ID, TOKEN, World


def test_outside_of_a_step() -> None:
    assert running_step() is None
    with pytest.raises(ContextMisuse, match="inside a function that a durable step runs"):
        current_step()


@pytest.mark.behaviour("DATA-01l")
def test_inside_of_a_step() -> None:
    def look() -> list[Any]:
        step = current_step()
        assert running_step() is step
        return [step.run_id, step.path, step.attempt, step.cancelled, step.deadline, step.seconds_left]

    world = World()
    assert world.value(lambda ctx: ctx.step("pay", look, key=1)) == [RUN_ID, "pay[1]", 1, False, None, None]
    assert running_step() is None


def test_the_key_for_outside_systems_is_the_same_in_every_attempt() -> None:
    keys: list[tuple[int, str, str]] = []

    def charge() -> None:
        step = current_step()
        keys.append((step.attempt, step.idempotency_key(), step.idempotency_key("second")))
        if step.attempt < 3:
            raise ConnectionError

    def body(ctx: Context) -> None:
        ctx.step("charge", charge)

    World(step_retry=AT_ONCE).value(body)
    assert [attempt for attempt, _, _ in keys] == [1, 2, 3]
    assert len({key for _, key, _ in keys}) == 1
    assert len({key for _, _, key in keys}) == 1
    assert keys[0][1] != keys[0][2]


def test_keys_differ_where_they_must() -> None:
    other = UUID(int=RUN_ID.int + 1)
    keys = [
        stable_key(RUN_ID, "a", ""),
        stable_key(RUN_ID, "", "a"),
        stable_key(RUN_ID, "a", "b"),
        stable_key(RUN_ID, "a[b]", ""),
        stable_key(other, "a", ""),
    ]
    assert len(set(keys)) == len(keys)
    assert stable_key(RUN_ID, "a", "b") == keys[2]
    assert len(keys[0]) == 32


@pytest.mark.behaviour("CANCEL-01f")
def test_cancellation() -> None:
    lease = Lease(RUN_ID, TOKEN, float("inf"))
    step = CurrentStep(RUN_ID, "pay", 1, lease)
    step.raise_if_cancelled()
    lease.cancel_requested = True
    assert step.cancelled
    with pytest.raises(RunCancelled):
        step.raise_if_cancelled()


def test_seconds_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 100.0)
    assert CurrentStep(RUN_ID, "pay", 1, Lease(RUN_ID, TOKEN, 0), deadline=107.5).seconds_left == 7.5
    assert CurrentStep(RUN_ID, "pay", 1, Lease(RUN_ID, TOKEN, 0), deadline=99.0).seconds_left == -1.0


def test_each_run_that_an_attempt_starts_has_its_own_key_and_a_retry_has_the_same() -> None:
    first, retry = (CurrentStep(RUN_ID, "pay", attempt, Lease(RUN_ID, TOKEN, 0)) for attempt in (1, 2))
    keys = [first.next_start_key(), first.next_start_key()]
    assert keys[0] != keys[1]
    assert [retry.next_start_key(), retry.next_start_key()] == keys


def test_steps_are_left_again() -> None:
    step = CurrentStep(RUN_ID, "pay", 1, Lease(RUN_ID, TOKEN, 0))
    token = enter_step(step)
    assert current_step() is step
    leave_step(token)
    assert running_step() is None
