"""Names, keys, tags and reasons: taken as they are and found again by them, or refused before anything is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DataError

from django_durable import (
    Cron,
    cancel_runs,
    durable_type,
    durable_workflow,
    enqueue,
    fork_runs,
    get_run,
    hold_queue,
    hold_workflow,
    release_queue,
    release_workflow,
)
from django_durable.exceptions import DurableError, RunNotFound, UnknownWorkflow
from django_durable.models import Audit, Event, Hold, Run, Tag
from django_durable.testing import run_until_idle
from tests.app.workflows import doubling
from tests.hostile.app.workflows import NAMING, NO_NAMES, name_of, naming
from tests.hostile.corpus import PAYLOADS_ONLY, TYPED
from tests.hostile.ends import all_undefined, start_all, statuses_of, the_next_ones_are_well
from tests.hostile.rude import Rude
from tests.invariants import violated

pytestmark = [pytest.mark.django_db, pytest.mark.contract, pytest.mark.queueless]

NAMES = (*TYPED, *NO_NAMES)
CLEAR = (DurableError, TypeError, ValueError)
"""What a mistake is answered with. What an object raises that was given as a name is its own."""
NEVER = {"empty", "white", "201", "nul", "half a character", "all", "a megabyte", *NO_NAMES} - {"str of another class"}
"""These are no name anywhere."""
PLAIN = {"script", "quotes", "like", "200", "zero width", "sql sleep", "format bomb", "uuid"}
"""And these are one, wherever people choose freely."""

ODD = {"joiners", "emoji", "200 of four bytes", "right to left", "line breaks", "c1 controls", "ours", "braces", "long",
       "str of another class"}  # fmt: skip
"""Of these the one or the other is taken here and refused there."""


def refused(call: Callable[[Any], Any], what: str) -> BaseException | None:
    try:
        call(name_of(what))
    except (*CLEAR, DataError, Rude) as error:
        return error
    return None


# --- from outside ----------------------------------------------------------------------------


def _start_with_key(name: Any) -> Any:
    start = doubling.using(idempotency_key=name)
    assert start.enqueue(1) == start.enqueue(1)


def _start_with_tag(name: Any) -> None:
    run = doubling.using(tags=[name]).enqueue(1)
    assert Run.objects.tagged(name).get().pk == run.id


def _send(name: Any) -> None:
    run = doubling.enqueue(1)
    sent = run.send_event(name, 1)
    assert Event.objects.get(pk=sent.id, run_id=run.id, name=name)


def _send_with_key(name: Any) -> None:
    run = doubling.enqueue(1)
    assert run.send_event("said", 1, name) == run.send_event("said", 1, name)


def _hold(name: Any) -> None:
    assert hold_queue(name)
    assert Hold.objects.filter(kind=Hold.QUEUE, name=name).exists()
    assert release_queue(name)


DOORS: dict[str, Callable[[Any], Any]] = {
    "idempotency key": _start_with_key,
    "tag": _start_with_tag,
    "event": _send,
    "key of an event": _send_with_key,
    "queue to hold": _hold,
}


@pytest.mark.parametrize("door", DOORS)
def test_a_name_from_outside_is_found_again_or_refused(door: str) -> None:
    answers = {what: refused(DOORS[door], what) for what in NAMES if what != "none"}
    assert {what for what in NEVER if answers.get(what, "no key at all") is None} == set()
    assert {what for what in PLAIN if answers[what] is not None} == set()
    # What was refused has left nothing behind.
    assert not Tag.objects.filter(name="").exists()
    assert not Event.objects.filter(name="").exists()
    run_until_idle()
    assert violated() == []
    assert the_next_ones_are_well()


WORDS = {
    *("number", "not a number", "negative", "dotted path", "dunder", "lookup of columns", "str of another class"),
    *("folder", "file", "module", "dot"),
}
QUEUES: dict[str, Callable[[Any], Any]] = {
    "using": lambda name: doubling.using(queue=name).enqueue(1),
    "decorator": lambda name: durable_workflow(name="hostile.nowhere", queue=name),
}


@pytest.mark.parametrize("door", QUEUES)
def test_a_queue_is_a_part_of_a_redis_key_and_is_named_plainly(door: str) -> None:
    taken = {what for what in NAMES if name_of(what) is not None and refused(QUEUES[door], what) is None}
    assert taken <= WORDS
    assert not Run.objects.exclude(queue__regex=r"^[A-Za-z0-9_.-]{1,100}$").exists()


DECLARED: dict[str, Callable[[Any], Any]] = {
    "workflow": lambda name: durable_workflow(name=name),
    "alias": lambda name: durable_workflow(aliases=[name]),
    "type": durable_type,
    "schedule": lambda name: Cron("@daily", name=name),
    "rate": lambda name: durable_workflow(rate=name),
    "singleton": lambda name: durable_workflow(singleton=name),
    "priority": lambda name: durable_workflow(priority=name),
    "time-out": lambda name: durable_workflow(timeout=name),
}


@pytest.mark.parametrize("door", DECLARED)
def test_what_is_declared_badly_is_refused_where_it_is_declared(door: str) -> None:
    """Nothing is declared here: a decorator that is called with no function has only its options checked."""
    answers = {what: refused(DECLARED[door], what) for what in NAMES if name_of(what) is not None}
    assert {what for what in ("empty", "object", "bytes", "list") if answers[what] is None} == set()


UNKNOWN: dict[str, tuple[Callable[[str], Any], type[DurableError]]] = {
    "run": (get_run, RunNotFound),
    "workflow": (lambda name: enqueue(name, number=1), UnknownWorkflow),
    "held workflow": (hold_workflow, UnknownWorkflow),
}
"""What has to be there."""
LOOKING: dict[str, Callable[[str], Any]] = {
    "released workflow": release_workflow,
    "released queue": release_queue,
    "runs of a tag": lambda name: list(Run.objects.tagged(name)),
    "runs of a workflow": lambda name: list(Run.objects.for_workflow(name)),
    "step to fork from": lambda name: fork_runs([doubling.enqueue(1)], name),
}
"""What may be missing."""


@contextmanager
def others_called(name: str) -> Iterator[None]:
    """What has another name is neither found nor changed meanwhile."""
    other = doubling.using(tags=[name]).enqueue(1)
    before = Run.objects.values().get(pk=other.id)
    hold_queue(name)
    hold_workflow(doubling)
    yield
    assert set(Hold.objects.values_list("kind", "name")) == {(Hold.QUEUE, name), (Hold.WORKFLOW, doubling.name)}
    assert Run.objects.tagged(name).values().get() == before
    release_queue(name)
    release_workflow(doubling)


def answer(look: Callable[[Any], Any], what: str) -> Any:
    """What it gives, or the error by which it refuses to look."""
    given: list[Any] = []
    error = refused(lambda name: given.append(look(name)), what)
    return given[0] if error is None else error


@pytest.mark.parametrize("door", UNKNOWN)
def test_what_has_to_be_there_is_said_to_be_unknown(door: str) -> None:
    look, error = UNKNOWN[door]
    with others_called("other"):
        answers = {what: answer(look, what) for what in TYPED}
    assert {what: given for what, given in answers.items() if type(given) is not error} == {}


@pytest.mark.parametrize("door", LOOKING)
def test_what_nobody_has_called_so_is_not_found(door: str) -> None:
    with others_called("other"):
        answers = {what: answer(LOOKING[door], what) for what in TYPED}
    # A database may refuse what no column of text can hold.
    unfit = {what for what, given in answers.items() if isinstance(given, Exception)}
    assert unfit <= set(PAYLOADS_ONLY)
    assert {what: given for what, given in answers.items() if given and what not in unfit} == {}
    assert the_next_ones_are_well()


@pytest.mark.parametrize("what", sorted(PLAIN | {"joiners", "braces", "ours", "dunder", "lookup of columns", "number"}))
def test_what_is_called_so_is_found_and_nothing_beside_it(what: str) -> None:
    name = TYPED[what]
    with others_called("other"):
        run = doubling.using(tags=[name]).enqueue(1)
        assert [found.pk for found in Run.objects.tagged(name)] == [run.id]
        assert hold_queue(name)
        assert release_queue(name)
        Run.objects.filter(pk=run.id).update(workflow=name)
        Hold.objects.create(kind=Hold.WORKFLOW, name=name)
        assert [found.pk for found in Run.objects.for_workflow(name)] == [run.id]
        assert release_workflow(name)


def test_reasons_and_actors_are_kept_as_they_are_or_refused() -> None:
    for what, text in TYPED.items():
        run = doubling.using(run_after=60).enqueue(1)
        try:
            cancel_runs([run.id], reason=text, actor=text)
        except (*CLEAR, DataError):
            assert run.refresh().status == "scheduled", what
        else:
            entry = Audit.objects.get(run_id=run.id)
            assert (entry.reason, entry.actor) == (text, text[:150]), what
            assert run.refresh().status == "cancelled"


# --- from inside -----------------------------------------------------------------------------


IN_WORKFLOWS = NEVER | PLAIN | ODD


@pytest.mark.parametrize("where", NAMING)
def test_a_name_in_a_workflow_is_taken_or_fails_it(where: str) -> None:
    runs = start_all(naming, {what: {"where": where, "what": what} for what in sorted(IN_WORKFLOWS)})
    run_until_idle(skip_waits=True)
    assert all_undefined(runs) == {}
    assert violated() == []
    statuses = statuses_of(runs)
    never = NEVER - ({"none", "int"} if where in ("key", "both") else set())
    if where == "both":
        never |= {"none", "int"}
    if where == "event":
        never -= {"none"}  # it goes by the name of the wait
    if where != "removed":
        assert {what for what in never if statuses[what] != "failed"} == set()
    assert {what for what in PLAIN if statuses[what] != "succeeded"} <= too_long(where)
    assert the_next_ones_are_well()


def too_long(where: str) -> set[str]:
    """A path holds 500 characters: three names of 200 are one too many."""
    return {"200"} if where in ("both", "block", "branch") else set()
