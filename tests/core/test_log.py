"""``ctx.log`` as it is kept: with the next durable write, each line once whatever replays, pauses and crashes come."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from django_durable import PENDING, Break, Continue, Retry
from django_durable.core.context import Context
from django_durable.core.journal.log import LINES_MAX, MESSAGE_MAX, FailedAttempt, Log, Logged
from django_durable.core.journal.outcomes import Completed, Failed
from tests.core.driving import AT_ONCE, NOON, Body, World, failing

LOGGER = "django_durable.workflow"


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=LOGGER)


def said(world: World) -> list[str]:
    return [line.message for line in world.log if line.attempt is None]


def kept(body: Body) -> list[str]:
    """What is kept of a run that succeeds."""
    world = World()
    world.value(body)
    return said(world)


# --- attempts --------------------------------------------------------------------------------


def test_an_attempt_that_is_made_again_is_a_line_of_the_engine() -> None:
    fn = failing(ValueError("no such card"), OSError())
    world = World(crash_before=3)
    retry = Retry(max_attempts=3, initial=1800, maximum=1800.25, jitter=0)
    world.value(lambda ctx: ctx.step("charge", fn, retry=retry))
    assert [(line.scope, line.attempt, line.level, line.message) for line in world.log] == [
        ("charge", 1, logging.WARNING, "attempt 1 failed, the next one comes in 1800 s: ValueError: no such card"),
        ("charge", 2, logging.WARNING, "attempt 2 failed, the next one comes in 1800.25 s: OSError"),
    ]
    assert all(line.seconds is not None for line in world.log)


def test_the_last_attempt_stands_in_its_entry_and_not_in_the_log() -> None:
    world = World()
    fn = failing(ValueError(), ValueError())
    world.run(lambda ctx: ctx.step("charge", fn, retry=Retry(max_attempts=2, initial=0)))
    assert [(line.attempt, line.message) for line in world.log] == [
        (1, "attempt 1 failed, the next one comes at once: ValueError")
    ]


class Refused(Exception):
    pass


@pytest.mark.parametrize("message", ["", "no: such", "a\nb", " ", ": ", "x" * 9_000, "attempt 7 failed: no", "\0"])
@pytest.mark.parametrize("initial", [0, 0.01, 1e9])
def test_what_was_raised_is_read_back_from_such_a_line(message: str, initial: float) -> None:
    world, fn = World(), failing(Refused(message))
    retry = Retry(max_attempts=2, initial=initial, maximum=initial or 1, jitter=0)
    world.value(lambda ctx: ctx.step("charge", fn, retry=retry))
    [line] = world.log
    found = FailedAttempt.read(line.message)
    assert found is not None and str(found) == line.message
    assert found.wait == initial
    # As in the entry of a step that has failed for good.
    assert found.type == f"{__name__}.Refused"
    assert found.message[:400] == message.replace("\0", "\ufffd")[:400]
    assert "such" not in found.head and "x" not in found.head.replace("next", "")


@pytest.mark.parametrize("text", ["", "… 3 more lines were left out", "attempt 1 failed", "attempt x failed: E: m"])
def test_other_texts_are_no_such_line(text: str) -> None:
    assert FailedAttempt.read(text) is None


# --- when ------------------------------------------------------------------------------------


@pytest.mark.behaviour("DATA-01m")
def test_a_line_is_stored_with_the_next_write_with_its_level_time_and_scope() -> None:
    seen: list[list[str]] = []

    def branch(ctx: Context) -> None:
        ctx.log.warning("inside")
        ctx.step("b", int)

    def body(ctx: Context) -> None:
        ctx.log.info("before %s", "all")
        seen.append(said(world))
        ctx.step("a", int)
        seen.append(said(world))
        ctx.sleep("nap", 60)
        ctx.join("both", {"left": branch})
        ctx.log.error("end of %(what)s", {"what": "it"})

    world = World()
    world.value(body)
    assert seen == [[], ["before all"], ["before all"], ["before all"]]
    later = NOON + timedelta(minutes=1)
    assert [(line.message, line.level, line.at, line.scope) for line in world.log] == [
        ("before all", logging.INFO, NOON, ""),
        ("inside", logging.WARNING, later, "both/left"),
        ("end of it", logging.ERROR, later, ""),
    ]


def test_a_run_that_logs_nothing_writes_nothing_of_it() -> None:
    world = World()
    world.value(lambda ctx: ctx.step("a", int))
    assert [write.log for write in world.commits] == [None, None]


def turn(ctx: Context, n: int) -> Any:
    ctx.log.info("turn %d begins", n)
    ctx.step("work", int)
    ctx.log.info("turn %d is over", n)
    return Continue(n + 1) if n < 2 else Break(n)


def branch(name: str) -> Callable[[Context], None]:
    def code(ctx: Context) -> None:
        ctx.log.info("%s begins", name)
        ctx.step("work", int)
        ctx.log.info("%s rests", name)
        ctx.sleep("rest", 60)
        ctx.log.info("%s is over", name)

    return code


def wandering(tries: Iterator[int]) -> Body:
    """Says something between any two calls, and fails in the midst of them."""

    def body(ctx: Context) -> None:
        ctx.log.info("first")
        ctx.log.info("first")
        ctx.now()
        ctx.log.info("after the time")
        ctx.step("a", int)
        ctx.log.info("after a")
        ctx.step("refused", lambda: 1 / next(tries))
        ctx.log.info("after what was refused")
        ctx.join("both", {"left": branch("left"), "right": branch("right")})
        ctx.log.info("after both")
        ctx.sleep("nap", 60)
        ctx.log.info("awake")
        ctx.loop("rows", turn, 0, history=0)
        ctx.try_block("block", lambda ctx: ctx.log.info("in the block"))
        ctx.log.info("last")

    return body


def wander(**world: Any) -> World:
    driven = World(step_retry=AT_ONCE, **world)
    driven.value(wandering(count()))
    return driven


def test_each_line_stands_once_wherever_the_process_dies_or_the_run_is_paused() -> None:
    whole = wander()
    lines = said(whole)
    assert len(lines) == len(set(lines)) + 1 == 21
    for number in range(1, len(whole.commits)):
        for fate in ({"crash_after": {number}}, {"crash_before": number}, {"pause_after": {number}}):
            world = wander(**fate)
            assert sorted(said(world)) == sorted(lines), fate
            assert world.attempts > whole.attempts
    often = wander(crash_after={*range(2, 60, 3)}, pause_after={*range(3, 60, 3)})
    assert sorted(said(often)) == sorted(lines)


def test_what_was_said_after_the_last_commit_is_kept_by_the_next_attempt(caplog: pytest.LogCaptureFixture) -> None:
    def body(ctx: Context) -> None:
        ctx.step("a", int)
        ctx.log.info("after a")
        ctx.step("b", int)

    world = World(crash_before=2)
    world.run(body)
    assert (world.attempts, said(world)) == (2, ["after a"])
    # To Python's logging it was said by the first, and not again by the replay.
    assert caplog.messages == ["after a"]


def test_what_an_attempt_ended_with_is_not_stored_again_by_the_next() -> None:
    """Also where the outcome went alone, and where the run was resumed."""
    fails = failing(ValueError(), ValueError())

    def body(ctx: Context) -> None:
        ctx.step("a", int)
        ctx.log.info("after a")
        ctx.log.info("after a")
        tried = fails()
        ctx.log.info("passed, try %d", tried)
        ctx.step("b", int)

    world = World()
    for outcome in (Failed, Failed, Completed):
        assert isinstance(world.attempt(body), outcome)
    assert said(world) == ["after a", "after a", "passed, try 3"]


def test_what_changed_code_says_at_a_new_place_is_kept() -> None:
    world = World(pause_after={1})

    def code(*lines: str) -> Body:
        def body(ctx: Context) -> None:
            ctx.step("a", int)
            for line in lines:
                ctx.log.info(line)
            ctx.step("b", int)

        return body

    world.attempt(code("one"))
    world.lease.pause_requested = False
    world.value(code("one", "two"))
    assert said(world) == ["one", "two"]


def test_a_fork_keeps_what_it_says_itself() -> None:
    def body(ctx: Context) -> None:
        ctx.log.info("begun")
        ctx.step("a", int)
        ctx.log.info("after a")
        ctx.step("b", int)
        ctx.log.info("after b")

    world = World()
    world.value(body)
    fork = World(entries=world.cut("b"))
    fork.value(body)
    assert said(fork) == ["after a", "after b"]


def test_what_code_says_while_it_is_unwound_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    """It would stand there once for each attempt."""

    def body(ctx: Context) -> None:
        try:
            ctx.sleep("nap", 60)
        finally:
            ctx.log.info("left")

    world = World()
    world.value(body)
    assert (said(world), caplog.messages) == (["left"], ["left", "left"])


def test_what_is_only_replayed_to_be_undone_says_nothing() -> None:
    calls = count()

    def body(ctx: Context) -> None:
        number = next(calls)
        ctx.step("a", int, compensate=lambda value: None)
        for _ in range(number + 1):
            ctx.log.info("call %d", number)
        raise ValueError

    world = World()
    world.attempt(body)
    world.undo(body)
    assert next(calls) > 1
    assert said(world) == ["call 0"]


def test_what_a_step_says_is_kept_for_each_attempt_of_it() -> None:
    fn = failing(ValueError(), ValueError())

    def body(ctx: Context) -> None:
        def charge() -> None:
            ctx.log.info("charging")
            fn()

        ctx.step("charge", charge)
        ctx.log.info("charged")
        ctx.sleep("nap", 60)

    # What the function said before is not taken for what comes after the step.
    world = World(crash_before=4)
    world.value(body)
    assert world.attempts > 3
    assert said(world) == ["charging"] * 3 + ["charged"]


def test_nothing_is_kept_where_the_project_keeps_none(caplog: pytest.LogCaptureFixture) -> None:
    world = World(keeps_log=False)
    world.value(lambda ctx: ctx.log.info("told"))
    assert (said(world), caplog.messages) == ([], ["told"])


# --- what ------------------------------------------------------------------------------------


def test_nothing_is_made_of_what_the_logger_is_not_enabled_for() -> None:
    class Dear:
        def __str__(self) -> str:
            raise AssertionError("it was written")

    def body(ctx: Context) -> None:
        ctx.log.debug("%s", Dear())
        ctx.log.debug(Dear())

    assert kept(body) == []


def test_a_record_says_where_in_the_workflow_it_was_made(caplog: pytest.LogCaptureFixture) -> None:
    def body(ctx: Context) -> None:
        ctx.log.info("here")
        ctx.log.log(logging.INFO, "here")
        ctx.log.exception("here")
        ctx.log.info("here", stacklevel=1, extra={"turn": 1})

    World().value(body)
    first = body.__code__.co_firstlineno
    places = [(record.filename, record.funcName, record.lineno - first) for record in caplog.records]
    assert places == [("test_log.py", "body", line) for line in (1, 2, 3, 4)]


def test_a_raised_error_is_a_part_of_the_message() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def body(ctx: Context) -> None:
        try:
            raise ValueError("no such card")
        except ValueError as error:
            ctx.log.exception("charge %d", 42)
            ctx.log.error("by hand", exc_info=error)
            ctx.log.error("as a tuple", exc_info=sys.exc_info())
        ctx.log.error("none", exc_info=True)
        ctx.log.error("rude", exc_info=Rude())
        ctx.log.error("empty", exc_info=ValueError())

    assert kept(body) == [
        "charge 42: ValueError: no such card",
        "by hand: ValueError: no such card",
        "as a tuple: ValueError: no such card",
        "none",
        "rude: Rude: <its str() raised RuntimeError>",
        "empty: ValueError: ",
    ]


def test_a_message_that_cannot_be_written_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    # It raises of its own what pytest's handler makes of such a record.
    monkeypatch.setattr(logging.getLogger(LOGGER), "handle", lambda record: None)

    class Rude:
        def __str__(self) -> str:
            raise RuntimeError("never")

    def body(ctx: Context) -> None:
        ctx.log.info("of %d", "x")
        ctx.log.info("too many", 1)
        ctx.log.info(Rude())
        ctx.log.info("100%")
        ctx.log.info("%(a)s and %(a)s", {"a": 1})
        ctx.log.info("%s", {})
        ctx.log.info(5)

    of, too_many, rude, *others = kept(body)
    assert of.startswith("of %d <not formatted: TypeError: ")
    assert too_many.startswith("too many <not formatted: TypeError: ")
    assert rude == "Rude <not formatted: RuntimeError: never>"
    assert others == ["100%", "1 and 1", "{}", "5"]


def test_what_no_database_stores_is_replaced() -> None:
    assert kept(lambda ctx: ctx.log.info("a\x00b\ud83dc\U0001f469\n")) == ["a\ufffdb\ufffdc\U0001f469\n"]


def test_levels_are_as_the_column_takes_them() -> None:
    world = World()
    world.value(lambda ctx: [ctx.log.log(level, "x") for level in (10**9, 25)])
    assert [line.level for line in world.log] == [32_767, 25]


# --- bounds ----------------------------------------------------------------------------------


def test_a_long_message_is_cut() -> None:
    [exact, cut] = kept(lambda ctx: [ctx.log.info("x" * length) for length in (MESSAGE_MAX, 10**6)])
    assert exact == "x" * MESSAGE_MAX
    assert cut == "x" * (MESSAGE_MAX - 1) + "…"


@pytest.mark.parametrize(("more", "text"), [(0, "99"), (1, "… 2 more lines were left out"), (22, "… 23 more lines")])
def test_of_one_write_so_many_lines_are_kept_and_the_last_says_how_many_were_not(more: int, text: str) -> None:
    def body(ctx: Context) -> None:
        for number in range(LINES_MAX + more):
            ctx.log.log(logging.ERROR if number == LINES_MAX else logging.INFO, "%d", number)
        ctx.step("a", int)
        ctx.log.info("after")

    world = World()
    world.value(body)
    assert said(world)[: LINES_MAX - 1] == [str(number) for number in range(LINES_MAX - 1)]
    last = world.log[LINES_MAX - 1]
    assert last.message.startswith(text)
    assert last.level == (logging.ERROR if more else logging.INFO)
    assert said(world)[LINES_MAX:] == ["after"]


def test_the_bound_holds_for_what_branches_have_said_together() -> None:
    def chatty(ctx: Context) -> None:
        for number in range(70):
            ctx.log.info("%d", number)

    lines = kept(lambda ctx: ctx.join("both", {"left": chatty, "right": chatty}))
    assert len(lines) <= 2 * LINES_MAX
    # 40 and the one in whose place this stands; or the two were committed one by one.
    assert len(lines) == 140 or "… 41 more lines were left out" in lines


def test_lines_that_were_left_out_are_not_told_again_by_a_replay() -> None:
    fails = failing(ValueError(), ValueError())

    def body(ctx: Context) -> None:
        ctx.step("a", int)
        for number in range(LINES_MAX + 50):
            ctx.log.info("%d", number)
        fails()

    world = World()
    for _ in range(3):
        world.attempt(body)
    assert (world.attempts, len(world.log)) == (3, LINES_MAX)


def test_lines_in_doubt_are_marked() -> None:
    log = Log()
    log.add(Logged(logging.INFO, "x", NOON, "", 1))
    assert [line.is_again for line in log.to_send()] == [False]
    log.is_in_doubt = True
    assert [line.is_again for line in log.to_send()] == [True]


def test_what_steps_say_has_places_of_its_own() -> None:
    """Else what was in doubt would be taken for what another step has said."""
    world = World()
    world.value(lambda ctx: [ctx.step(name, lambda: ctx.log.info("x")) for name in ("a", "b")])
    assert len({line.place for line in world.log}) == 2


# --- what stands already ---------------------------------------------------------------------


def test_what_an_attempt_without_a_journal_has_said_stands_once() -> None:
    fails = failing(ValueError(), ValueError())

    def body(ctx: Context) -> None:
        ctx.log.info("begun")
        fails()
        ctx.step("a", int)

    world = World()
    for outcome in (Failed, Failed, Completed):
        assert isinstance(world.attempt(body), outcome)
    assert said(world) == ["begun"]


def test_what_was_said_before_a_pause_ahead_of_the_first_entry_stands_once() -> None:
    def body(ctx: Context) -> None:
        ctx.log.info("begun")
        world.lease.pause_requested = world.attempts == 1
        ctx.step("a", int)

    world = World()
    world.run(body)
    assert (world.attempts, said(world)) == (2, ["begun"])


def test_behind_what_a_resume_has_opened_nothing_is_said_twice(caplog: pytest.LogCaptureFixture) -> None:
    fails = failing(ValueError())

    def body(ctx: Context) -> None:
        ctx.log.info("start")
        ctx.step("a", int, compensate=lambda value: None)
        ctx.log.info("a done, try %d", world.attempts)
        ctx.step("b", int)
        ctx.annotate(stage=world.attempts)
        ctx.log.info("b done")
        ctx.step("c", int)
        ctx.log.info("c done")
        fails()
        ctx.step("d", int)
        ctx.log.info("d done")

    world = World()
    assert isinstance(world.attempt(body), Failed)
    world.undo(body)
    world.resume()
    caplog.clear()
    assert isinstance(world.run(body), Completed)
    assert said(world) == ["start", "a done, try 1", "b done", "c done", "d done"]
    # Of the step that was done again Python's logging hears again.
    assert caplog.messages == [f"a done, try {world.attempts}", "d done"]
    assert world.notes == f'[["stage",{world.attempts}]]'


def test_what_a_compensation_says_is_kept_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def branch(ctx: Context) -> None:
        ctx.step("b", int, compensate=lambda value: ctx.log.info("undoing b"))

    def body(ctx: Context) -> None:
        ctx.step("a", int, compensate=lambda value: ctx.log.info("undoing a"))
        ctx.join("both", {"left": branch})
        raise ValueError

    world = World()
    world.attempt(body)
    world.undo(body)
    assert said(world) == caplog.messages == ["undoing b", "undoing a"]


def test_what_the_item_of_a_map_says_is_logged_when_the_run_was_claimed_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fails = failing(ValueError())

    def work(item: int) -> None:
        if item == 0:
            fails()

    def body(ctx: Context) -> None:
        def say(item: int) -> None:
            ctx.log.info("item %d", item)
            work(item)

        ctx.step("a", int)
        ctx.map("m", say, [0, 1])

    world = World(step_retry=Retry(max_attempts=3, initial=10, jitter=0))
    world.value(body)
    assert caplog.messages == said(world) == ["item 0", "item 1", "item 0"]


def test_a_branch_that_speaks_through_the_log_around_it_is_heard_as_itself() -> None:
    def body(ctx: Context) -> None:
        def branch(inner: Context) -> None:
            ctx.log.info("begins")
            inner.step("work", int)
            ctx.log.info("is over")

        ctx.join("both", {"left": branch, "right": branch})

    world = World()
    world.value(body)
    lines = sorted((line.scope, line.message) for line in world.log)
    assert lines == [(f"both/{name}", text) for name in ("left", "right") for text in ("begins", "is over")]
    assert len({line.place for line in world.log}) == 4


def test_a_poll_that_failed_and_is_made_again_is_a_line_of_the_engine() -> None:
    fn = failing(ValueError("no"), OSError("away"), None, ValueError("no"))
    results = count()

    def ask() -> Any:
        fn()
        return PENDING if next(results) == 0 else 1

    world = World()
    world.value(lambda ctx: ctx.poll("p", ask, every=60, retry=Retry(max_attempts=5, initial=30, jitter=0)))
    assert [(line.scope, line.attempt, line.level) for line in world.log] == [
        ("p", attempt, logging.WARNING) for attempt in (1, 2, 1)
    ]
    assert len({line.place for line in world.log}) == 3
    assert "ValueError: no" in world.log[0].message


def test_what_the_engine_says_is_not_left_out_for_what_code_has_said() -> None:
    fn = failing(ValueError("x"))

    def body(ctx: Context) -> None:
        for number in range(LINES_MAX + 1):
            ctx.log.info("%d", number)
        ctx.step("a", fn, retry=AT_ONCE)

    world = World()
    world.value(body)
    assert [line.attempt for line in world.log] == [*[None] * LINES_MAX, 1]
    assert said(world)[-1] == "… 2 more lines were left out"


def test_how_many_lines_were_left_out_has_a_place_by_its_count() -> None:
    def place(more: int) -> int:
        log = Log()
        for number in range(LINES_MAX + more):
            log.add(Logged(logging.INFO, "x", NOON, "", number))
        return log.to_send()[-1].place

    assert len({place(more) for more in range(3)}) == 3
    assert place(2) == place(2)
