"""Polls: asked again until there is something; one entry, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_durable import PENDING, current_step
from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Blocked, Cancelled, Completed, Failed, Suspended
from django_durable.core.journal.states import EntryStatus
from django_durable.core.payloads.codec import decode
from django_durable.core.retries import Retry
from django_durable.exceptions import NonRetriableError, PayloadError, PollTimeout, StepFailed
from tests.core.driving import AT_ONCE, NOON, RUN_ID, Crash, World

MINUTE = timedelta(minutes=1)
ONCE = Retry(max_attempts=1)


def giving(*answers: Any) -> Callable[[], Any]:
    """A function that returns (or raises) these in turn, and the last one from then on."""
    left = list(answers)

    def fn() -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return fn


def asking(fn: Callable[[], Any], **options: Any) -> Callable[[Context], Any]:
    options = {"every": 60, **options}
    return lambda ctx: ctx.poll("ready", fn, **options)


def times(world: World) -> int:
    return world.performed.count("ready")


def test_what_is_there_at_once_is_not_waited_for() -> None:
    world = World()
    assert world.value(asking(giving({"url": ("a", 1)}))) == {"url": ("a", 1)}
    assert (world.attempts, times(world)) == (1, 1)
    entry = world.entries["ready"]
    assert (entry.kind, entry.status, entry.attempts) == ("poll", "succeeded", 1)


@pytest.mark.parametrize("value", [None, False, 0, "", "PENDING"])
def test_anything_but_pending_is_a_result(value: Any) -> None:
    world = World()
    assert world.value(asking(giving(PENDING, value))) == value
    assert times(world) == 2


@pytest.mark.behaviour("WAIT-03b")
def test_it_holds_nothing_between() -> None:
    world, body = World(), asking(giving(PENDING, "there"))
    assert world.attempt(body) == Suspended("poll:ready", wake_after=60)
    world.now += MINUTE - timedelta(microseconds=1)
    assert world.attempt(body) == Suspended("poll:ready", wake_at=NOON + MINUTE)
    assert times(world) == 1
    world.now = NOON + MINUTE
    assert world.value(body) == "there"


def test_the_result_is_journaled() -> None:
    world, body = World(), asking(giving(PENDING, 1, 2))
    assert [world.value(body), world.value(body)] == [1, 1]
    assert times(world) == 2


def test_the_first_value_is_the_stored_one() -> None:
    given = [1, (2, 3)]
    found: list[Any] = []
    World().value(lambda ctx: found.append(ctx.poll("ready", lambda: given, every=1)))
    assert found == [given]
    assert found[0] is not given


@pytest.mark.behaviour("WAIT-03f")
def test_the_journal_stays_at_one_entry() -> None:
    world = World()
    assert world.run(asking(giving(*[PENDING] * 40, "there"))) == Completed('"there"')
    assert set(world.entries) == {"ready"}
    assert [len(write.entries) for write in world.commits if write.entries] == [1] * 41
    assert world.now == NOON + 40 * MINUTE


def test_it_may_be_polled_more_often_than_a_small_column_counts() -> None:
    world, body = World(), asking(giving(PENDING))
    world.attempt(body)
    world.entries["ready"].value = "[40000,null]"
    world.now += MINUTE
    world.attempt(body)
    entry = world.entries["ready"]
    assert decode(entry.value or "") == [40001, None]
    assert entry.attempts == 0


@pytest.mark.parametrize("every", [90, 90.0, timedelta(seconds=90), lambda polls: 90, lambda polls: timedelta(0, 90)])
def test_every(every: Any) -> None:
    assert World().attempt(asking(giving(PENDING), every=every)) == Suspended("poll:ready", wake_after=90)


@pytest.mark.behaviour("WAIT-03c")
def test_every_may_depend_on_the_number_of_polls() -> None:
    world, asked = World(), []

    def every(polls: int) -> int:
        asked.append(polls)
        return 2**polls

    assert world.value(asking(giving(PENDING, PENDING, PENDING, 1), every=every)) == 1
    assert asked == [1, 2, 3]
    assert world.now == NOON + timedelta(seconds=2 + 4 + 8)


@pytest.mark.parametrize(
    ("every", "error"),
    [(0, ValueError), (-1, ValueError), (timedelta(0), ValueError), ("1", TypeError), (True, TypeError)],
)
def test_a_bad_pause_is_refused_before_anything_is_called(every: Any, error: type[Exception]) -> None:
    world = World()
    world.attempt(asking(giving(PENDING), every=every))
    assert isinstance(world.error, error)
    assert (world.performed, world.entries) == ([], {})


@pytest.mark.parametrize(("pause", "error"), [(0, ValueError), (None, TypeError)])
def test_a_bad_pause_of_a_function_is_an_error_of_the_workflow(pause: Any, error: type[Exception]) -> None:
    world = World()
    world.attempt(asking(giving(PENDING), every=lambda polls: pause))
    assert isinstance(world.error, error)
    assert world.entries == {}


def test_it_takes_a_function() -> None:
    world = World()
    unfit: Any = "fn"
    world.attempt(lambda ctx: ctx.poll("ready", unfit, every=1))
    assert isinstance(world.error, TypeError)


# --- time-outs -------------------------------------------------------------------------------


def patient(fn: Callable[[], Any], **options: Any) -> Callable[[Context], Any]:
    def body(ctx: Context) -> Any:
        try:
            return asking(fn, **{"timeout": 150, **options})(ctx)
        except PollTimeout as error:
            return [error.path, error.polls]

    return body


@pytest.mark.behaviour("WAIT-03d")
def test_timeout() -> None:
    world, body = World(), patient(giving(PENDING))
    assert world.value(body) == ["ready", 4]
    # At 0, 60, 120, and a last time when it is over.
    assert world.now == NOON + timedelta(seconds=150)
    assert world.entries["ready"].status == EntryStatus.FAILED
    assert world.value(body) == ["ready", 4]
    assert times(world) == 4


def test_what_is_there_when_the_time_is_over_counts() -> None:
    assert World().value(patient(giving(PENDING, PENDING, PENDING, "just in time"))) == "just in time"


@pytest.mark.behaviour("WAIT-03f")
def test_the_first_deadline_stands() -> None:
    world = World()
    world.attempt(patient(giving(PENDING)))
    world.now += MINUTE
    assert world.attempt(patient(giving(PENDING), timeout=9999)) == Suspended("poll:ready", wake_after=60)
    world.now += MINUTE
    assert world.attempt(patient(giving(PENDING), timeout=9999)) == Suspended("poll:ready", wake_after=30)


@pytest.mark.parametrize("timeout", [0, -5, timedelta(0)])
def test_a_timeout_of_nothing_asks_once(timeout: Any) -> None:
    world = World()
    assert world.value(patient(giving(PENDING), timeout=timeout)) == ["ready", 1]
    assert world.value(patient(giving("there"), timeout=timeout)) == ["ready", 1]


def test_an_error_when_the_time_is_over_is_not_tried_again() -> None:
    world = World(step_retry=Retry(max_attempts=3, initial=1000, maximum=1000, jitter=0))
    assert world.attempt(patient(giving(OSError("down")))) == Suspended("retry:ready", wake_after=150)
    world.now += timedelta(seconds=150)
    assert world.value(patient(giving(OSError("down")))) == ["ready", 0]
    assert world.entries["ready"].error is None


def test_a_bad_timeout_calls_nothing() -> None:
    world = World()
    world.attempt(asking(giving(PENDING), timeout="1"))
    assert isinstance(world.error, TypeError)
    assert world.performed == []


# --- errors ----------------------------------------------------------------------------------


def told(body: Callable[[Context], Any]) -> Callable[[Context], Any]:
    def outer(ctx: Context) -> Any:
        try:
            return body(ctx)
        except StepFailed as error:
            return [error.step, error.attempts, error.error["message"]]

    return outer


@pytest.mark.behaviour("WAIT-03e")
def test_errors_are_retried_as_a_step_s() -> None:
    world = World(step_retry=Retry(max_attempts=3, initial=5, factor=2, jitter=0))
    body = asking(giving(OSError(1), OSError(2), PENDING, "there"))
    assert world.attempt(body) == Suspended("retry:ready", wake_after=5)
    entry = world.entries["ready"]
    assert (entry.status, entry.attempts) == (EntryStatus.RETRYING, 1)
    world.now += timedelta(seconds=5)
    assert world.attempt(body) == Suspended("retry:ready", wake_after=10)
    world.now += timedelta(seconds=10)
    assert world.attempt(body) == Suspended("poll:ready", wake_after=60)
    world.now += MINUTE
    assert world.value(body) == "there"


def test_a_poll_whose_attempts_are_used_up_fails_as_a_step() -> None:
    world = World(step_retry=AT_ONCE)
    body = told(asking(giving(PENDING, OSError("a"), OSError("b"), OSError("c"))))
    assert world.value(body) == ["ready", 3, "c"]
    assert world.value(body) == ["ready", 3, "c"]
    assert times(world) == 4


def test_attempts_begin_anew_with_each_poll() -> None:
    world = World(step_retry=Retry(max_attempts=2, initial=0, maximum=0))
    body = asking(giving(OSError(), PENDING, OSError(), PENDING, OSError(), "there"))
    assert world.value(body) == "there"
    assert world.entries["ready"].attempts == 2


def test_its_own_retry() -> None:
    world = World(step_retry=AT_ONCE)
    assert world.value(told(asking(giving(OSError("once")), retry=ONCE))) == ["ready", 1, "once"]
    assert times(world) == 1


@pytest.mark.parametrize("error", [NonRetriableError("no"), PayloadError("x", "no")])
def test_errors_that_no_retry_mends(error: Exception) -> None:
    world = World(step_retry=AT_ONCE)
    world.value(told(asking(giving(error))))
    assert times(world) == 1


def test_a_result_that_cannot_be_stored_fails_at_once() -> None:
    world = World(step_retry=AT_ONCE)
    step, attempts, message = world.value(told(asking(giving(PENDING, object()))))
    assert (step, attempts, times(world)) == ("ready", 1, 2)
    assert "result of poll 'ready'" in message


# --- in the function -------------------------------------------------------------------------


def test_current_step() -> None:
    seen: list[Any] = []
    world = World(step_retry=AT_ONCE)

    def look() -> Any:
        step = current_step()
        seen.append((step.run_id, step.path, step.attempt, step.idempotency_key()))
        if len(seen) == 1:
            raise OSError
        return PENDING if len(seen) < 4 else "there"

    assert world.value(asking(look)) == "there"
    assert [(run_id, path) for run_id, path, _, _ in seen] == [(RUN_ID, "ready")] * 4
    assert [attempt for _, _, attempt, _ in seen] == [1, 2, 1, 1]
    assert len({key for *_, key in seen}) == 1


def test_a_cancellation_is_seen_between_polls() -> None:
    world, body = World(), asking(giving(PENDING))
    world.attempt(body)
    world.now += MINUTE
    world.lease.cancel_requested = True
    assert world.attempt(body) == Cancelled()
    assert times(world) == 1


def test_a_cancellation_that_the_function_heeds() -> None:
    world = World()

    def look() -> Any:
        world.lease.cancel_requested = True
        current_step().raise_if_cancelled()

    assert world.attempt(asking(look)) == Cancelled()


# --- replays ---------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [1, 2, 3])
def test_a_crash_before_any_commit_repeats_that_poll_only(commit: int) -> None:
    world, body = World(crash_before=commit), asking(giving(PENDING, PENDING, "there"))
    with pytest.raises(Crash):
        for _ in range(commit):
            world.attempt(body)
            world.now += MINUTE
    assert world.value(asking(giving(PENDING, "there"))) == "there"
    assert times(world) == commit + 2


def test_another_kind_at_its_path_is_a_divergence() -> None:
    world = World()
    world.value(lambda ctx: ctx.step("ready", int))
    assert isinstance(world.attempt(asking(giving(1))), Blocked)


def test_a_poll_in_a_branch_does_not_hold_up_the_others() -> None:
    world = World()

    def body(ctx: Context) -> Any:
        return ctx.join("both", {"ask": asking(fn), "other": lambda ctx: ctx.step("other", int)})

    fn = giving(PENDING, PENDING, "there")
    assert world.attempt(body) == Suspended("poll:both/ask/ready", wake_at=world.now + timedelta(seconds=60))
    assert world.performed == ["both/ask/ready", "both/other/other"]
    assert world.value(body) == {"ask": "there", "other": 0}
    assert world.performed.count("both/ask/ready") == 3


def test_a_poll_that_lost_a_race_is_abandoned() -> None:
    world = World()

    def body(ctx: Context) -> Any:
        return ctx.race("any", {"ask": asking(giving(PENDING)), "other": lambda ctx: ctx.step("other", int)})

    assert world.value(body) == ("other", 0)
    assert world.entries["any/ask/ready"].status == EntryStatus.ABANDONED


def test_an_uncaught_timeout_fails_the_run() -> None:
    world = World()
    outcome = world.run(asking(giving(PENDING), timeout=30))
    assert isinstance(outcome, Failed)
    assert outcome.error["type"] == "django_durable.exceptions.PollTimeout"
    assert "polled 2 times" in outcome.error["message"]
