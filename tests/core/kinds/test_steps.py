"""Steps: run at least once, journaled once, retried with a back-off that holds nothing, and never reported twice."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.flow.effects import Perform, Persist, Raised, Returned
from django_durable.core.flow.flow import Flow
from django_durable.core.flow.lease import Lease
from django_durable.core.flow.run_info import RunInfo
from django_durable.core.journal.journal import Entry, MemoryJournal
from django_durable.core.journal.outcomes import Cancelled, Completed, Failed, Suspended
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.kinds.steps import StepOptions, step
from django_durable.core.payloads.codec import decode
from django_durable.core.retries import Retry
from django_durable.core.unwinding import Unwind
from django_durable.exceptions import (
    InvalidName,
    NonRetriableError,
    PayloadError,
    PayloadUndecodable,
    RetryLater,
    RunCancelled,
    StepFailed,
)
from tests.core.driving import AT_ONCE, NOON, RUN_ID, TOKEN, Body, Crash, World, failing


def once(fn: Any, **options: Any) -> Body:
    return lambda ctx: ctx.step("pay", fn, **options)


def caught_failure(body: Body) -> Body:
    def catching(ctx: Context) -> Any:
        try:
            return body(ctx)
        except StepFailed as error:
            return [error.step, error.attempts, error.error["type"], error.error["message"]]

    return catching


# --- success ---------------------------------------------------------------------------------


@pytest.mark.behaviour("STEP-01a")
def test_a_step_runs_once_and_is_replayed() -> None:
    world = World()
    body = once(failing())
    assert [world.value(body), world.value(body), world.value(body)] == [1, 1, 1]
    assert world.performed == ["pay"]
    entry = world.entries["pay"]
    assert (entry.kind, entry.status, entry.attempts, entry.value, entry.seq) == ("step", "succeeded", 1, "1", 1)
    assert entry.seconds == 0.25


@pytest.mark.behaviour("STEP-01b")
def test_none_is_a_result() -> None:
    world = World()
    assert world.value(once(lambda: None)) is None
    assert world.value(once(lambda: None)) is None
    assert world.performed == ["pay"]
    assert world.entries["pay"].value == "null"


@pytest.mark.behaviour("STEP-10a")
def test_a_step_is_committed_before_the_workflow_goes_on() -> None:
    seen = []

    def body(ctx: Context) -> None:
        ctx.step("a", int)
        seen.append(list(world.entries))
        ctx.step("b", int)
        seen.append(list(world.entries))

    world = World()
    world.value(body)
    assert seen == [["a"], ["a", "b"]]


@pytest.mark.behaviour("STEP-01a")
@pytest.mark.parametrize(
    "value",
    [(1, 2), {3: "x"}, float("inf"), Decimal("1E+2"), NOON, {"$": 1}, -0.0, [1, None, True], {"b": 1, "a": 2}],
    ids=repr,
)
def test_the_first_result_is_what_a_replay_returns(value: Any) -> None:
    results = []

    def body(ctx: Context) -> None:
        results.append(ctx.step("pay", lambda: value))

    world = World()
    world.value(body)
    world.value(body)
    first, second = results
    assert repr(first) == repr(second) == repr(value)
    assert type(first) is type(second) is type(value)


def test_a_result_is_a_copy() -> None:
    shared: list[int] = [1]

    def body(ctx: Context) -> list[int]:
        result = ctx.step("pay", lambda: shared)
        shared.append(2)
        return result

    world = World()
    assert world.value(body) == [1]
    assert world.value(body) == [1]


def test_arguments_are_passed_on() -> None:
    assert World().value(lambda ctx: ctx.step("add", lambda a, b: a - b, 5, 3)) == 2


@pytest.mark.behaviour("STEP-02a")
def test_order_numbers_grow_when_a_retry_adds_steps() -> None:
    """As the run's retry does: the next attempt replays what is journaled and comes to steps that are not."""
    attempts = 0

    def body(ctx: Context) -> None:
        nonlocal attempts
        attempts += 1
        if attempts > 1:
            ctx.step("new", int)
        ctx.step("a", int)
        ctx.step("b", int)
        if attempts == 1:
            raise KeyError
        ctx.step("c", int)

    world = World()
    world.attempt(body)
    world.value(body)
    assert world.performed == ["a", "b", "new", "c"]
    assert {path: entry.seq for path, entry in world.entries.items()} == {"a": 1, "b": 2, "new": 3, "c": 4}


# --- names -----------------------------------------------------------------------------------


@pytest.mark.behaviour("STEP-01e")
@pytest.mark.parametrize("name", ["", "  ", None, 5, ["a"], "a\nb"])
def test_bad_names_run_nothing(name: Any) -> None:
    world = World()
    assert isinstance(world.attempt(lambda ctx: ctx.step(name, int)), Failed)
    assert isinstance(world.error, InvalidName)
    assert world.performed == []


def test_a_name_with_a_slash_is_no_scope() -> None:
    world = World()
    world.value(lambda ctx: [ctx.step("a/b", int), ctx.step("a", int, key="b"), ctx.step("a[b]", int)])
    assert list(world.entries) == ["a%2Fb", "a[b]", "a%5Bb%5D"]


# --- retries ---------------------------------------------------------------------------------


@pytest.mark.behaviour("STEP-04a")
def test_back_off_suspends_and_wakes() -> None:
    fn = failing(ValueError("no"), ValueError("no"))
    body = once(fn, retry=Retry(max_attempts=3, initial=10, factor=3, jitter=0))
    world = World()
    assert world.attempt(body) == Suspended("retry:pay", wake_after=10)
    entry = world.entries["pay"]
    assert (entry.status, entry.attempts, entry.wake_at) == ("retrying", 1, NOON + timedelta(seconds=10))
    assert decode(entry.error or "")["message"] == "no"
    assert entry.value is None

    # Woken too early, for another reason: it waits on, and the first instant stands.
    world.now += timedelta(seconds=9.999)
    assert world.attempt(body) == Suspended("retry:pay", wake_at=NOON + timedelta(seconds=10))
    assert world.performed == ["pay"]

    world.now = NOON + timedelta(seconds=10)
    assert world.attempt(body) == Suspended("retry:pay", wake_after=30)
    assert world.entries["pay"].attempts == 2
    world.now += timedelta(seconds=30)
    assert world.attempt(body) == Completed("3")
    entry = world.entries["pay"]
    assert (entry.status, entry.attempts, entry.error) == ("succeeded", 3, None)


def test_jitter_comes_from_the_flow() -> None:
    world = World()
    outcome = world.attempt(once(failing(ValueError()), retry=Retry(initial=10, jitter=1)))
    assert outcome == Suspended("retry:pay", wake_after=10)  # the world's chance is 0.5


def test_a_retry_without_delay_goes_on_at_once() -> None:
    world = World(step_retry=AT_ONCE)
    assert world.value(once(failing(ValueError(), ValueError()))) == 3
    assert world.attempts == 1
    assert [next(iter(write.entries.values())).status for write in world.commits[:3]] == [
        "retrying",
        "retrying",
        "succeeded",
    ]


def test_each_attempt_is_counted_before_the_next_begins() -> None:
    """A process that dies in the second attempt leaves the first one counted."""
    fn = failing(ValueError(), Crash(), ValueError(), ValueError())
    world = World(step_retry=AT_ONCE)
    assert world.value(caught_failure(once(fn))) == ["pay", 3, "ValueError", ""]
    # The attempt that died with its process is not counted: it happened to the process, not to the step.
    assert len(world.performed) == 4


@pytest.mark.behaviour("STEP-06d")
def test_the_run_s_default_policy_and_the_step_s_own() -> None:
    world = World(step_retry=Retry(max_attempts=2, initial=0, maximum=0))
    assert world.value(caught_failure(once(failing(*[OSError()] * 9)))) == ["pay", 2, "OSError", ""]
    world = World(step_retry=Retry(max_attempts=2, initial=0, maximum=0))
    own = Retry(max_attempts=4, initial=0, maximum=0)
    assert world.value(caught_failure(once(failing(*[OSError()] * 9), retry=own)))[1] == 4


@pytest.mark.behaviour("STEP-04b")
def test_exhaustion_is_remembered_and_not_reported_twice() -> None:
    fn = failing(*[ValueError("no stock")] * 9)
    body = caught_failure(once(fn))
    world = World(step_retry=AT_ONCE)
    expected = ["pay", 3, "ValueError", "no stock"]
    assert world.value(body) == expected
    written = [path for write in world.commits for path in write.entries]
    assert world.value(body) == expected
    assert world.performed == ["pay"] * 3
    assert [path for write in world.commits for path in write.entries] == written
    assert world.entries["pay"].status == EntryStatus.FAILED
    assert world.entries["pay"].value is None


def test_the_error_is_the_cause_at_first_and_told_in_the_journal() -> None:
    world = World(step_retry=Retry(max_attempts=1))
    world.attempt(once(failing(ValueError("no stock"))))
    assert isinstance(world.error, StepFailed)
    assert isinstance(world.error.__cause__, ValueError)
    assert str(world.error) == "Step 'pay' failed after 1 attempt: ValueError: no stock"
    assert "raise error" in world.error.error["traceback"]


@pytest.mark.behaviour("STEP-07a")
def test_non_retriable_errors_give_up_at_once() -> None:
    world = World(step_retry=AT_ONCE)
    body = caught_failure(once(failing(NonRetriableError("closed"))))
    assert world.value(body) == ["pay", 1, "django_durable.exceptions.NonRetriableError", "closed"]


def test_give_up_on_and_retry_on() -> None:
    choosy = Retry(max_attempts=5, initial=0, maximum=0, retry_on=OSError, give_up_on=TimeoutError)
    for error, attempts in [(ConnectionError(), 5), (TimeoutError(), 1), (ValueError(), 1)]:
        world = World()
        assert world.value(caught_failure(once(failing(*[error] * 9), retry=choosy)))[1] == attempts


def test_retry_later_names_the_delay() -> None:
    world = World()
    outcome = world.attempt(once(failing(RetryLater(after=timedelta(minutes=7)))))
    assert outcome == Suspended("retry:pay", wake_after=420)


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseExceptionGroup("g", [SystemExit()])]
)
def test_base_exceptions_are_the_step_s_failure(error: BaseException) -> None:
    world = World(step_retry=Retry(max_attempts=1))
    assert isinstance(world.attempt(once(failing(error))), Failed)
    assert world.entries["pay"].status == EntryStatus.FAILED


def test_stop_iteration_is_an_error_like_any() -> None:
    world = World(step_retry=AT_ONCE)
    assert world.value(once(failing(StopIteration(7)))) == 2


def test_a_policy_that_allows_more_than_before_does_not_revive_a_failed_step() -> None:
    world = World(step_retry=Retry(max_attempts=1))
    world.attempt(once(failing(ValueError())))
    world.step_retry = Retry(max_attempts=9)
    world.attempt(once(failing()))
    assert isinstance(world.error, StepFailed)
    assert world.performed == ["pay"]


@pytest.mark.behaviour("STEP-05a")
def test_attempts_that_were_reset_start_anew() -> None:
    """STEP-05: what ``resume`` leaves in the journal."""
    world = World(step_retry=Retry(max_attempts=1))
    world.attempt(once(failing(ValueError())))
    entry = world.entries["pay"]
    entry.status, entry.attempts, entry.wake_at = EntryStatus.RETRYING, 0, None
    assert world.value(once(failing())) == 1
    assert world.entries["pay"].attempts == 1


# --- results that cannot be stored -----------------------------------------------------------


@pytest.mark.behaviour("STEP-08a")
def test_an_unencodable_result_fails_at_once() -> None:
    """STEP-08: the body has run, and is not run again."""
    world = World(step_retry=AT_ONCE)
    world.attempt(once(lambda: {"client": object()}))
    assert world.performed == ["pay"]
    assert isinstance(world.error, StepFailed)
    assert world.error.attempts == 1
    assert world.error.error["type"] == "django_durable.exceptions.PayloadError"
    assert "result of step 'pay'['client']" in world.error.error["message"]
    assert isinstance(world.error.__cause__, PayloadError)
    assert world.entries["pay"].status == EntryStatus.FAILED


def test_a_result_over_the_cap_fails_at_once() -> None:
    world = World(step_retry=AT_ONCE, max_payload_bytes=100)
    assert world.value(once(lambda: "x" * 98)) == "x" * 98
    world = World(step_retry=AT_ONCE, max_payload_bytes=100)
    world.attempt(once(lambda: "x" * 99))
    assert isinstance(world.error, StepFailed)
    assert "takes 101 bytes as JSON and the cap is 100" in world.error.error["message"]
    assert world.performed == ["pay"]


def test_an_undecodable_entry_is_no_failure_of_the_step() -> None:
    world = World()
    world.value(once(failing()))
    world.entries["pay"].value = '{"$":"@gone","v":1}'
    world.attempt(once(failing()))
    assert isinstance(world.error, PayloadUndecodable)
    assert world.entries["pay"].status == EntryStatus.SUCCEEDED


# --- cancellation ----------------------------------------------------------------------------


@pytest.mark.behaviour("CANCEL-01f")
def test_a_step_that_heeds_the_cancellation_ends_the_run() -> None:
    def heed() -> None:
        world.lease.cancel_requested = True
        raise RunCancelled(RUN_ID)

    world = World(step_retry=AT_ONCE)
    assert world.attempt(once(heed)) == Cancelled()
    assert world.entries == {}


def test_run_cancelled_without_a_cancellation_is_an_error_like_any() -> None:
    world = World(step_retry=AT_ONCE)
    assert world.value(once(failing(RunCancelled("another run")))) == 2


# --- ephemeral and atomic --------------------------------------------------------------------


@pytest.mark.behaviour("STEP-09a")
def test_an_ephemeral_step_waits_for_the_next_durable_write() -> None:
    seen = []

    def body(ctx: Context) -> list[int]:
        a = ctx.step("a", lambda: 1, ephemeral=True)
        b = ctx.step("b", lambda: 2, ephemeral=True)
        seen.append(list(world.entries))
        c = ctx.step("c", lambda: 3)
        seen.append(list(world.entries))
        return [a, b, c]

    world = World()
    assert world.value(body) == [1, 2, 3]
    assert seen == [[], ["a", "b", "c"]]
    assert list(world.commits[0].entries) == ["a", "b", "c"]
    assert world.value(body) == [1, 2, 3]
    assert world.performed == ["a", "b", "c"]


def test_an_ephemeral_step_is_stored_with_the_outcome() -> None:
    world = World()
    assert world.value(once(failing(), ephemeral=True)) == 1
    assert world.value(once(failing(), ephemeral=True)) == 1
    assert world.performed == ["pay"]


def test_an_ephemeral_step_that_fails_is_durable() -> None:
    world = World(step_retry=AT_ONCE)
    world.attempt(once(failing(ValueError()), ephemeral=True))
    assert world.commits[0].entries["pay"].status == EntryStatus.RETRYING


def decisions(options: StepOptions, fn: Any = int) -> tuple[Flow, Any]:
    flow = Flow(RunInfo(RUN_ID, "w"), MemoryJournal(now=lambda: NOON), Lease(RUN_ID, TOKEN, float("inf")))
    return flow, step(flow, "pay", fn, (), options)


def test_what_an_atomic_step_asks_of_its_driver() -> None:
    flow, asked = decisions(StepOptions(atomic=True))
    effect = next(asked)
    assert isinstance(effect, Perform)
    assert effect.settle is not None
    entry = effect.settle(Returned((1,), 0.5))
    assert entry == Entry(
        "pay", Kind.STEP, EntryStatus.SUCCEEDED, attempts=1, value='{"$":"tuple","v":[1]}', seconds=0.5
    )
    # Settling stores nothing by itself, and raises what a result cannot be before the transaction ends.
    assert not flow.pending
    with pytest.raises(PayloadError, match="result of step 'pay'"):
        effect.settle(Returned(object(), 0.5))
    # The answer means that it is committed: there is nothing left to write.
    with pytest.raises(StopIteration) as stop:
        asked.send(Returned((1,), 0.5))
    assert stop.value.value == (1,)
    assert not flow.pending


def test_an_atomic_step_that_failed_is_journaled_like_any() -> None:
    flow, asked = decisions(StepOptions(atomic=True, retry=AT_ONCE))
    first = next(asked)
    assert isinstance(first, Perform)
    assert isinstance(asked.send(Raised(ValueError(), 0.5)), Persist)
    assert flow.pending.entries["pay"].status == EntryStatus.RETRYING
    flow.take_pending()
    second = asked.send(None)
    assert isinstance(second, Perform)
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.settle is not None
    assert second.settle(Returned(1, 0.5)).attempts == 2


def test_an_atomic_step_takes_pending_rows_along() -> None:
    def body(ctx: Context) -> int:
        ctx.step("before", int, ephemeral=True)
        return ctx.step("pay", lambda: 5, atomic=True)

    world = World()
    assert world.value(body) == 5
    assert list(world.commits[0].entries) == ["before", "pay"]
    assert world.value(body) == 5
    assert world.performed == ["before", "pay"]


def test_an_atomic_step_with_an_unencodable_result() -> None:
    world = World(step_retry=AT_ONCE)
    world.attempt(once(object, atomic=True))
    assert isinstance(world.error, StepFailed)
    assert world.performed == ["pay"]


def test_a_plain_step_has_nothing_to_settle() -> None:
    _, asked = decisions(StepOptions(timeout=2.5))
    effect = next(asked)
    assert isinstance(effect, Perform)
    assert (effect.settle, effect.timeout, effect.attempt) == (None, 2.5, 1)


def test_a_commit_that_loses_the_lease_unwinds() -> None:
    _, asked = decisions(StepOptions())
    next(asked)
    assert isinstance(asked.send(Returned(1, 0.5)), Persist)
    with pytest.raises(Unwind):
        asked.throw(Unwind)


# --- options ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"atomic": True, "ephemeral": True}, TypeError, "atomic or ephemeral, not both"),
        ({"ephemeral": True, "compensate": print}, TypeError, "An ephemeral step has nothing to undo"),
        ({"timeout": 0}, ValueError, "timeout must be more than 0 seconds, not 0"),
        ({"timeout": -1}, ValueError, "timeout"),
        ({"timeout": float("nan")}, ValueError, "timeout"),
        ({"compensate": 1}, TypeError, "callable"),
        ({"compensation": int}, TypeError, "unexpected keyword argument 'compensation'"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    world = World()
    world.attempt(once(failing(), **options))
    assert isinstance(world.error, error)
    assert text in str(world.error)
    assert world.performed == []
