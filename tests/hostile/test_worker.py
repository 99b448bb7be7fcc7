"""Real worker processes, given what the corpus has: none of them dies of it, and none of their runs hangs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from django_durable.client.events import EventHandle
from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import LIVE
from django_durable.core.payloads.codec import encode
from django_durable.core.payloads.failures import describe
from django_durable.exceptions import PayloadError
from django_durable.models import Payload, Run
from tests.app.workflows import doubling
from tests.hostile.app.workflows import (
    RAISING,
    RAISING_ASYNC,
    hearing,
    making,
    making_async,
    raising,
    raising_async,
    taking,
    taking_async,
)
from tests.hostile.corpus import CAP, ERRORS, EVERYWHERE, FORGING, KEPT, VALUES
from tests.hostile.ends import (
    all_undefined,
    is_read,
    rows_of,
    same,
    start_all,
    statuses_of,
    told_well,
    too_large,
    undecodable,
)
from tests.hostile.processes import hostile_worker
from tests.hostile.test_decoding import PLACES, SPRUNG, TEXTS, written_by_another_hand
from tests.hostile.test_log_lines import unfit
from tests.invariants import violated
from tests.processes import PATIENCE, Worker, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

RAISED = EVERYWHERE | FORGING
"""`test_errors.py` has the others."""
MESSAGES = sorted(what for what in ERRORS if what.startswith("text: "))
"""Each text of the corpus, as what somebody says who raises it."""
MADE = ("step", "atomic step", "branch", "result")
MADE_ASYNC = ("step", "branch", "result")
"""Where values are made here; `test_values.py` has the other places."""
FOR_EVER = ("child", "forged: undecodable")
"""The child is blocked, and its parent waits until somebody resumes it."""
STUMBLED = ("stumbled", "was given up", "what follows", "Task exception was never retrieved", "died worker")


def wait_for_all(runs: dict[Any, RunHandle[Any]], seconds: float = 60.0) -> None:
    wait_for_ends(runs, seconds)
    assert undecodable() == []
    assert violated(settled=60.0) == []


def wait_for_ends(runs: dict[Any, RunHandle[Any]], seconds: float = PATIENCE) -> None:
    wait_until(lambda: not Run.objects.filter(status__in=sorted(LIVE - {"blocked"})).exists(), seconds, "all ends")
    assert all_undefined(runs) == {}


def test_whatever_is_raised_and_made_wherever() -> None:
    """One worker for all of it, and then for a run of somebody who means well."""
    worker = hostile_worker("--verbosity", "2")
    raised = everything_raised()
    wait_for_all(raised)
    assert too_large(raised) == {}
    assert misquoted(raised) == {}
    made, made_async = everything_made()
    wait_for_all({**made, **made_async})
    statuses = statuses_of(made)
    problems = {name: wrong(name[1], run, statuses[name]) for name, run in made.items()}
    assert {name: problem for name, problem in problems.items() if problem} == {}
    assert statuses_of(made_async) == {name: end_of(*name) for name in made_async}
    is_well(worker)
    check_log(worker.log)


def test_whatever_is_sent_and_whatever_is_stored(settings: Any) -> None:
    """One worker for all of it, which finds the damaged runs beside those that are sent to it while it works."""
    settings.DURABLE = {**settings.DURABLE, "MAX_PAYLOAD_BYTES": CAP, "WARN_PAYLOAD_BYTES": CAP}
    stored = written_by_another_hand(*PLACES)
    worker = hostile_worker("--verbosity", "2")
    sent, (heard, events) = everything_sent(), everything_said()
    wait_for_ends({**stored, **sent, **heard})
    rows = rows_of(stored)
    assert {row.status for (place, _), row in rows.items() if place == "kind"} == {"blocked"}
    unread = {(place, what) for place in PAYLOADS for what, text in TEXTS.items() if not is_read(text)}
    assert {name: reason for name in unread if (reason := rows[name].block_reason) != "undecodable"} == {}
    assert {name for name, run in sent.items() if not same(run.result(timeout=0), KEPT[name[1]]())} == set()
    answers = {what: (run.result(timeout=0), events[what].response(timeout=0)) for what, run in heard.items()}
    said = {what: KEPT[what]() if what in KEPT else SAID_INSTEAD for what in heard}
    assert {what for what, answer in answers.items() if not all(same(one, said[what]) for one in answer)} == set()
    # None of them is held to have killed its process.
    assert not Run.objects.filter(crashes__gt=0).exists()
    is_well(worker)
    assert SPRUNG not in worker.log
    assert not Payload.objects.filter(data__contains=SPRUNG).exists()
    assert forged(worker.log) == []
    assert unfit(worker.log) == []


PAYLOADS = ("input", "value", "event")
"""Places of which each run reads what stands there."""
SENT_TO: dict[str, Any] = {"body": taking, "coroutine": taking_async}
SAID_INSTEAD = "something else"
"""What is said to a run in the place of what cannot be stored."""


def everything_sent() -> dict[Any, RunHandle[Any]]:
    """A run for each value that may be an input, of each kind of workflow; there are no others."""
    runs: dict[Any, RunHandle[Any]] = {}
    for (where, workflow), what in product(SENT_TO.items(), VALUES):
        with suppress(PayloadError):
            runs[where, what] = workflow.enqueue(VALUES[what]())
    assert set(runs) == set(product(SENT_TO, KEPT))
    return runs


def everything_said() -> tuple[dict[str, RunHandle[Any]], dict[str, EventHandle]]:
    """Runs that wait for an event, and the event of each: one that may be sent."""
    runs = start_all(hearing, {what: {} for what in VALUES})
    events: dict[str, EventHandle] = {}
    for what, run in runs.items():
        try:
            events[what] = run.send_event("said", VALUES[what]())
        except PayloadError:
            events[what] = run.send_event("said", SAID_INSTEAD)
    return runs, events


def everything_raised() -> dict[Any, RunHandle[Any]]:
    inputs = inputs_of(RAISING, sorted(RAISED)) | inputs_of(("step", "body"), MESSAGES)
    del inputs[FOR_EVER]
    runs_async = start_all(raising_async, inputs_of(RAISING_ASYNC, sorted(RAISED)))
    return start_all(raising, inputs) | {(*name, "async"): run for name, run in runs_async.items()}


def misquoted(runs: dict[Any, RunHandle[Any]]) -> dict[Any, str]:
    """Of the runs whose step or body has raised a text, those that have not failed with just this."""
    found = {}
    for where, what in product(("step", "body"), MESSAGES):
        run, meant = runs[where, what], describe(ERRORS[what]())["message"]
        error = run.steps()[0].error if where == "step" else run.error
        told = (error["type"], error["message"]) if error else None
        if run.refresh().status != "failed" or told != ("ValueError", meant):
            found[where, what] = f"is {run.status}: {error!r:.200}"
    return found


def everything_made() -> tuple[dict[Any, RunHandle[Any]], dict[Any, RunHandle[Any]]]:
    return (
        start_all(making, inputs_of(MADE, sorted(VALUES))),
        start_all(making_async, inputs_of(MADE_ASYNC, sorted(VALUES))),
    )


def inputs_of(places: Iterable[str], names: Iterable[str]) -> dict[Any, dict[str, Any]]:
    return {(where, what): {"where": where, "what": what} for what, where in product(names, places)}


def wrong(what: str, run: RunHandle[Any], status: str) -> str:
    """What a run that made this should not have come to; nothing where it is stored exactly, or is its failure."""
    if what in KEPT:
        return "" if same(run.result(timeout=0), KEPT[what]()) else "it has not come back exactly"
    error = run.error
    return "" if status == "failed" and told_well(what, error) else f"is {status}: {error!r:.200}"


def end_of(where: str, what: str) -> str:
    """The result of branches has what was made twice, which may be above the cap."""
    is_stored = what in KEPT and (where != "branch" or 2 * len(encode(KEPT[what]())) < CAP)
    return "succeeded" if is_stored else "failed"


def is_well(worker: Worker) -> None:
    """It is the process that it was, has had nothing to complain of, and works on."""
    assert worker.starts == 1
    assert [line for line in worker.log.splitlines() if any(word in line for word in STUMBLED)] == []
    run = doubling.enqueue(4)
    assert run.result(timeout=PATIENCE) == 8
    assert worker.stop() == 0


def check_log(log: str) -> None:
    """No error has forged a line of it."""
    assert len([line for line in log.splitlines() if "failed" in line]) > len(RAISED)
    assert forged(log) == []
    assert unfit(log) == []


def forged(log: str) -> list[str]:
    """Lines that no record has begun."""
    # The formatter of this project begins each record with its level.
    levels = ("DEBUG|", "INFO|", "WARNING|", "ERROR|", "CRITICAL|")
    return [line for line in log.splitlines() if not line.startswith(levels)]


def test_a_line_that_no_record_begins_is_seen() -> None:
    log = "INFO|django_durable.runs|failed\nDEBUG|django_durable.runs|well\n"
    assert forged(log) == []
    assert forged(f"{log}2026-01-01 ERROR FORGED\n{log}\u2028and more\n") == ["2026-01-01 ERROR FORGED", "", "and more"]
