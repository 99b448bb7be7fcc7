"""Values that come back exactly or are refused: at every door, before anything is stored, and no run is left.

What a workflow makes where a real worker makes it in `test_worker.py`, with all values, is not made here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_durable.exceptions import PayloadError
from django_durable.models import Event, Payload, Run
from django_durable.testing import run_until_idle
from tests.hostile.app.workflows import MAKING, MAKING_ASYNC, hearing, making, making_async, taking, taking_async
from tests.hostile.corpus import BIG, CAP, KEPT, REFUSED
from tests.hostile.ends import (
    all_undefined,
    same,
    start_all,
    statuses_of,
    the_next_ones_are_well,
    told_well,
    undecodable,
)
from tests.hostile.test_worker import MADE, MADE_ASYNC
from tests.invariants import violated

pytestmark = [pytest.mark.django_db, pytest.mark.contract, pytest.mark.queueless]


@pytest.fixture(autouse=True)
def _a_low_cap(settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "MAX_PAYLOAD_BYTES": CAP, "WARN_PAYLOAD_BYTES": CAP}


# --- from outside ----------------------------------------------------------------------------

STARTS: dict[str, Callable[[Any], Any]] = {
    "enqueue": taking.enqueue,
    "enqueue of a coroutine": taking_async.enqueue,
    "aenqueue": async_to_sync(taking.aenqueue),
    "enqueue_many": lambda value: taking.enqueue_many([{"value": 1}, {"value": value}])[1],
    "using": lambda value: taking.using(queue="vip", run_after=0, tags=["x"], idempotency_key="once").enqueue(value),
}


def answer_to(call: Callable[[Any], Any], value: Any) -> BaseException | None:
    try:
        call(value)
    except Exception as error:
        return error
    return None


def is_clear(error: BaseException | None, root: str) -> bool:
    return isinstance(error, PayloadError) and error.path.startswith(root) and len(str(error)) < 1_000


@pytest.mark.parametrize("start", STARTS)
def test_an_input_that_cannot_be_stored_is_refused_and_nothing_is_stored(start: str) -> None:
    answers = {what: answer_to(STARTS[start], make()) for what, make in REFUSED.items()}
    assert {what: repr(error) for what, error in answers.items() if not is_clear(error, "input")} == {}
    assert not Run.objects.exists()
    assert not Payload.objects.exists()


@pytest.mark.parametrize("start", [start for start in STARTS if start != "using"])
def test_an_input_comes_back_exactly(start: str) -> None:
    runs = {what: STARTS[start](make()) for what, make in KEPT.items() if start == "enqueue" or what not in BIG}
    run_until_idle()
    wrong = [what for what, run in runs.items() if not same(run.result(timeout=0), KEPT[what]())]
    assert wrong == []
    assert undecodable() == []


def test_an_event_that_cannot_be_stored_is_refused_and_nothing_is_stored() -> None:
    run = hearing.enqueue()
    answers = {what: answer_to(partial(run.send_event, "said"), make()) for what, make in REFUSED.items()}
    assert {what: repr(error) for what, error in answers.items() if not is_clear(error, "payload")} == {}
    assert not Event.objects.exists()
    run.send_event("said", "well")
    run_until_idle()
    assert run.result(timeout=0) == "well"


def test_an_event_comes_back_exactly_and_so_does_its_answer() -> None:
    runs = start_all(hearing, {what: {} for what in KEPT})
    run_until_idle()
    events = {what: run.send_event("said", KEPT[what]()) for what, run in runs.items()}
    run_until_idle()
    assert [what for what, run in runs.items() if not same(run.result(timeout=0), KEPT[what]())] == []
    assert [what for what, event in events.items() if not same(event.response(timeout=0), KEPT[what]())] == []


# --- from inside -----------------------------------------------------------------------------

SOME = {"none", "nan", "tuples", "our tag", "other keys", "constructor", *REFUSED} - BIG
NEVER_STORED = {"key", "name", "time to sleep", "time-out", "line of the log", "progress"}
"""What is no payload: most of the corpus is refused there in other words, or told as text."""


@pytest.mark.parametrize("where", [where for where in MAKING if where not in {*NEVER_STORED, *MADE}])
def test_what_a_workflow_makes_is_stored_exactly_or_is_its_failure(where: str) -> None:
    runs = start_all(making, {what: {"where": where, "what": what} for what in SOME})
    for run in runs.values() if where == "answer" else ():
        run.send_event("said")
    run_until_idle()
    assert all_undefined(runs) == {}
    kept = [what for what in KEPT if what in runs and where not in ("answer", "annotation")]
    assert [what for what in kept if not same(runs[what].result(timeout=0), KEPT[what]())] == []
    refused = {what: status for what, status in statuses_of(runs).items() if what in REFUSED}
    if where not in ("tried step", "block"):
        assert {what for what, status in refused.items() if status != "failed"} == set()
        errors = {what: runs[what].error for what in refused}
        assert {what: error for what, error in errors.items() if not told_well(what, error)} == {}
    assert undecodable() == []
    assert violated() == []
    assert the_next_ones_are_well()


@pytest.mark.parametrize("where", sorted(NEVER_STORED))
def test_what_is_no_payload_is_refused_or_told_as_text(where: str) -> None:
    runs = start_all(making, {what: {"where": where, "what": what} for what in SOME})
    run_until_idle()
    problems = all_undefined(runs)
    if where == "time to sleep":
        problems = {what: problem for what, problem in problems.items() if "waiting on 'sleep:nap'" not in problem}
    assert problems == {}
    assert undecodable() == []
    assert the_next_ones_are_well()


@pytest.mark.parametrize("where", [where for where in MAKING_ASYNC if where not in MADE_ASYNC])
def test_an_async_workflow_likewise(where: str) -> None:
    runs = start_all(making_async, {what: {"where": where, "what": what} for what in SOME})
    run_until_idle()
    assert all_undefined(runs) == {}
    statuses = statuses_of(runs)
    assert {what for what in KEPT if what in runs and statuses[what] != "succeeded"} == set()
    assert {what for what in REFUSED if what in runs and statuses[what] != "failed"} == set()
    assert the_next_ones_are_well()
