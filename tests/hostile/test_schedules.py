"""Cron expressions, time zones and rows of schedules that somebody means harm with: the others fire all the same."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from django_durable import Cron
from django_durable.admin.schedule_form import NewScheduleForm
from django_durable.exceptions import InvalidSchedule, WorkflowDefinitionError
from django_durable.models import Run, Schedule
from django_durable.signals import schedule_fired
from django_durable.workflows.options import WorkflowOptions
from tests.admin.every import NEW
from tests.admin.pages import judge
from tests.hostile import rude
from tests.hostile.app.workflows import NO_NAMES, fail, name_of
from tests.hostile.corpus import CORPUS, DAMAGED, TYPED
from tests.hostile.ends import nothing_escapes
from tests.hostile.rude import Rude
from tests.schedules.making import at, code_of, fire_loop, fresh, make_schedule, make_workflow, move_to
from tests.schedules.noon import NOON, just_before_noon

pytestmark = [pytest.mark.django_db, pytest.mark.contract]

SOON = 10.0
"""Seconds within which any expression is understood or refused, on a machine that is busy."""
FIRING = {"leap day on a monday", "every second", "step of a million", "a long list"}
"""The expressions that can be understood."""


@pytest.mark.parametrize("what", [*TYPED, *NO_NAMES])
def test_an_expression_fires_or_is_refused_soon(what: str) -> None:
    expression = name_of(what)
    began = time.monotonic()
    try:
        fires = Cron(expression).next(5, after=at("2040-01-01T00:00:00"))  # type: ignore[arg-type]
    except (InvalidSchedule, ValueError, Rude) as error:
        assert len(str(error)) < 1_000
        if not isinstance(error, Rude):
            with pytest.raises(WorkflowDefinitionError):
                WorkflowOptions(cron=[expression])  # type: ignore[list-item]
    else:
        assert fires == sorted(set(fires))
        assert fires[0] > at("2040-01-01T00:00:00")
    assert time.monotonic() - began < SOON


@pytest.mark.parametrize("what", [*TYPED, *NO_NAMES])
def test_a_zone_is_known_or_refused(what: str) -> None:
    zone = name_of(what)
    with pytest.raises((InvalidSchedule, Rude)) as caught:
        Cron("@daily", timezone=zone)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("field", ["expression", "timezone"])
def test_the_form_takes_only_what_fires(field: str) -> None:
    """Of a field that is refused it says so there."""
    taken: dict[str, Cron] = {}
    for what, text in TYPED.items():
        form = NewScheduleForm({**NEW, "workflow": "app.doubling", field: text})
        if form.is_valid():
            taken[what] = Cron(form.columns["expression"], form.columns["timezone"])
        else:
            assert list(form.errors) == [field], what
    assert {what for what, cron in taken.items() if not cron.next(1, after=NOON)} == set()
    assert set(taken) == (FIRING if field == "expression" else set())


def hostile_rows() -> list[Schedule]:
    """As somebody writes them who can write to the table: due, whatever they say, as far as the database takes it."""
    due: dict[str, Any] = {"next_fire_at": NOON, "workflow": "app.nightly"}
    given: list[dict[str, Any]] = []
    for number, text in enumerate(TYPED.values()):
        given += [{"name": f"expression {number}", "expression": text[:200]}]
        given += [{"name": f"zone {number}", "expression": "0 * * * *", "timezone": text[:64]}]
    for number, text in enumerate([*DAMAGED, *TYPED.values(), '{"nobody knows":1}', '{"$":"os.system","v":"id"}']):
        given += [{"name": f"input {number}", "expression": "0 * * * *", "input": text}]
        given += [{"name": f"workflow {number}", "expression": "0 * * * *", "workflow": text[:200]}]
        given += [{"name": f"{number} {text}"[:200], "expression": "0 * * * *"}]
    for number, jitter in enumerate((-1.0, 1e308, 5e-324)):
        given += [{"name": f"jitter {number}", "expression": "0 * * * *", "jitter": jitter}]
    for number, word in enumerate(("", "x", "_class_")):
        given += [{"name": f"overlap {number}", "expression": "0 * * * *", "overlap": word}]
        given += [{"name": f"catch-up {number}", "expression": "0 * * * *", "catch_up": word}]
    rows = [Schedule(**{**due, **one}) for one in given if all(map(is_stored, one.values()))]
    return Schedule.objects.bulk_create(rows)


def is_stored(part: Any) -> bool:
    """Whether every database takes it."""
    return not isinstance(part, str) or ("\0" not in part and part.encode(errors="ignore").decode() == part)


@pytest.mark.usefixtures("possible_tables")
def test_one_bad_schedule_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    just_before_noon()
    rows = hostile_rows()
    good = make_schedule(name="good")
    loop = fire_loop()
    move_to(NOON + timedelta(seconds=1))
    for _ in range(len(rows)):
        if loop.tick() == 0:
            break
    assert fresh(good).last_scheduled_for == NOON
    left = {row.pk: fresh(row) for row in rows}
    # Each has fired and is planned on, or says what is wrong with it; those of workflows that nobody knows wait.
    unknown = [row for row in left.values() if row.workflow == "app.nightly" and not row.problem and is_due(row)]
    assert [(row.name, row.expression[:40], row.timezone, (row.input or "")[:40]) for row in unknown] == []
    assert [record.getMessage() for record in caplog.records if "refused schedule" in record.getMessage()] == []
    assert not Run.objects.exclude(workflow="app.nightly").exists()


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.parametrize("what", rude.ERRORS)
def test_a_key_function_that_raises_stops_its_own_schedule_alone(what: str, as_in_a_worker: None) -> None:
    """It is a project's code, and is asked before there is a run that could fail."""
    just_before_noon()
    keyed = make_workflow(name="app.keyed", max_concurrency=1, concurrency_key=lambda **_input: fail(what))
    bad = make_schedule(workflow="app.keyed", name="a bad one, and the first", next_fire_at=NOON)
    good = make_schedule(name="good")
    loop = fire_loop(make_workflow(), keyed)
    move_to(NOON + timedelta(seconds=1))
    with nothing_escapes():
        for _ in range(3):
            loop.tick()
    assert fresh(good).last_scheduled_for == NOON
    assert fresh(bad).problem
    assert fresh(bad).next_fire_at is None


WAYS = (
    *("str exits", "eq raises", "attributes raise", "of a nameless class", "group of what is no Exception"),
    *("no Exception", "KeyboardInterrupt", "SystemExit", "GeneratorExit", "CancelledError", "MemoryError"),
)
"""Each of these takes another way through the code, or comes past ``except Exception``."""


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.parametrize("what", WAYS)
def test_a_schedule_in_code_that_raises_when_it_is_read_stops_no_other(what: str, as_in_a_worker: None) -> None:
    class Raises(dict[str, Any]):
        def __bool__(self) -> bool:
            fail(what)
            return True

    bad, good = Cron("@hourly", name="a bad one", input=Raises()), Cron("@hourly", name="good")
    with nothing_escapes():
        code_of(make_workflow(bad, good)).tick()
    assert Schedule.objects.get(name="good").next_fire_at is not None
    assert Schedule.objects.get(name="a bad one").problem


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.parametrize("what", WAYS)
def test_a_receiver_that_raises_keeps_nobody_from_hearing_of_a_fire(what: str, as_in_a_worker: None) -> None:
    heard: list[Any] = []

    def refuse(**_facts: Any) -> None:
        heard.append(_facts["scheduled_for"])
        fail(what)

    schedule_fired.connect(refuse)
    just_before_noon()
    rows = [make_schedule(name=name) for name in ("one", "other")]
    loop = fire_loop()
    move_to(NOON + timedelta(seconds=1))
    with nothing_escapes():
        loop.tick()
    assert heard == [NOON, NOON]
    assert [fresh(row).last_scheduled_for for row in rows] == [NOON, NOON]


@pytest.mark.parametrize(
    "problem",
    [*CORPUS.values(), "Schedule a: " * 160, "Schedule a: " * 5_000, "a and " * 5_000, "a: " * 5_000],
    ids=lambda problem: problem[:20].encode("ascii", "replace").decode(),
)
def test_whatever_is_wrong_with_a_schedule_the_pages_come(admin_client: Client, problem: str) -> None:
    row = make_schedule(problem=problem)
    began = time.monotonic()
    for name, arguments in (("changelist", []), ("change", [row.pk]), ("history", [row.pk])):
        response = admin_client.get(reverse(f"admin:django_durable_schedule_{name}", args=arguments))
        assert response.status_code == 200
        assert judge(response) == []
    assert time.monotonic() - began < 3 * SOON


def is_due(row: Schedule) -> bool:
    return row.next_fire_at is not None and row.next_fire_at <= NOON
